"""What an Xid says about the card."""

from __future__ import annotations

import collections

from .tables import XID_SAYS, XIDS

# name: NVIDIA's. severity: failed, degraded or user. action: nothing, watch, reset, reboot, reseat
# or service; see provision/catalog/xids.yml.
Verdict = collections.namedtuple("Verdict", "name severity action")

# New drivers have new numbers.
UNKNOWN = Verdict("not in the catalog", "degraded", "watch")


def verdict(number: int, told: str) -> Verdict:
    """The verdict of an Xid whose message has these words of the driver's own. Pure."""
    if number not in XIDS:
        return UNKNOWN
    usual = Verdict(*XIDS[number])
    for words, severity, action in XID_SAYS.get(number, ()):
        if words in told:
            return Verdict(usual.name, severity, action)
    return usual
