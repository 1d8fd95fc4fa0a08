"""Stops the tasks of a run on a host that it no longer holds."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.provision.gpu.plugins.plugin_utils.holders import LOST

MESSAGE = (
    "this host is no longer held for this run: its holder has ended, as it does where a run was "
    "not heard from for 20 s (a closed laptop, a cut network, Ctrl-Z) and another took its place. "
    "This step was not begun. Wait until no other run is at work there, then run again"
)


def still_held(run: str, host: str) -> str:
    """`run`, the id of this run. AnsibleFilterError if it held `host` and lost it."""
    if host in json.loads(os.environ.get(LOST) or "[]"):
        raise AnsibleFilterError(MESSAGE)
    return run


class FilterModule:
    """Ansible's way to find it."""

    def filters(self) -> dict[str, Any]:
        return {"still_held": still_held}
