"""What the last finished run left behind: rollback and "what changed since" read it.

The receipt proves nothing about the host, so the plan never trusts it; it is history.
"""

import json

PATH = "/var/lib/provision/receipt.json"


def look(context):
    """The receipt as it was written; None when there is none or it can't be read."""
    text = context.read(PATH)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
