"""What an Xid says about the card."""

from __future__ import annotations

import collections

from ..type_checking import TYPE_CHECKING
from .tables import XID_REPEATS, XID_SAYS, XIDS

if TYPE_CHECKING:
    from typing import Any, Sequence

# name: NVIDIA's. severity: failed, degraded or user. action: nothing, watch, reset, reboot, reseat
# or service; see provision/catalog/xids.yml.
Verdict = collections.namedtuple("Verdict", "name severity action")

# New drivers have new numbers.
UNKNOWN = Verdict("not in the catalog", "degraded", "watch")

# An Xid that came again and again. name: NVIDIA's. part: "GPC 1, TPC 3", or "" for the card. times:
# how many incidents; processes: by how many; least: from how many times on it says something.
Repeated = collections.namedtuple("Repeated", "name severity action part times processes least")

# "GPU Recovery Action Changed".
RECOVERY_CHANGED = 154

# In seconds. Xids without a longer silence between them are one incident, as NVIDIA counts them:
# https://docs.nvidia.com/fleet-intel/user-guide/xid-bursts
SILENCE = 180
# In seconds. NVIDIA counts what repeats within a day:
# https://docs.nvidia.com/nvsentinel/configuration/health-events-analyzer
DAY = 24 * 3600


def verdict(number: int, own: str) -> Verdict:
    """The verdict of an Xid whose message has the words `own` of the driver's. Pure."""
    if number not in XIDS:
        return UNKNOWN
    usual = Verdict(*XIDS[number])
    for words, severity, action in XID_SAYS.get(number, ()):
        if words in own:
            return Verdict(usual.name, severity, action)
    return usual


def standing(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events without each change of the driver's recovery action but the last. Pure.

    Each says what is to be done from then on; that it is nothing any more is the last one's word.
    """
    changes = [event for event in events if event["number"] == RECOVERY_CHANGED]
    return [
        event for event in events if event["number"] != RECOVERY_CHANGED or event is changes[-1]
    ]


def repeated(number: int, events: Sequence[dict[str, Any]]) -> Repeated | None:
    """Whether an Xid that programs cause came so often that it points to the card. Pure.

    `events` are machine.kernel's xids of one card, of all numbers. None where the number has no
    such rule, where it came too seldom or from one process, and where the log has no times: then
    nobody knows how many incidents its messages are. Only what came within a DAY counts together.
    """
    if number not in XID_REPEATS:
        return None
    where, least, severity, action = XID_REPEATS[number]
    incidents_of: dict[str, list[list[dict[str, Any]]]] = {}
    for incident in _incidents([event for event in events if event["number"] == number]):
        parts = {""} if where == "card" else {event["part"] for event in incident} - {None}
        # A faulty program is met by each part that runs it, a faulty part by one alone. But what
        # has one block runs on the same part each time.
        if len(parts) == 1:
            incidents_of.setdefault(parts.pop(), []).append(incident)
    for part, incidents in incidents_of.items():
        for near in _days(incidents):
            processes = _processes(near)
            if len(near) >= least and processes > 1:
                name = XIDS[number][0]
                return Repeated(name, severity, action, part, len(near), processes, least)
    return None


def _incidents(events: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The events, divided where it was silent for longer than SILENCE."""
    incidents: list[list[dict[str, Any]]] = []
    for place, event in enumerate(events):
        if not place or _silent(events[place - 1], event):
            incidents.append([])
        incidents[-1].append(event)
    return incidents


def _silent(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether two events are of two incidents; not where the log does not say when they were."""
    times = (before["time"], after["time"])
    return None not in times and times[1] - times[0] > SILENCE


def _days(incidents: list[list[dict[str, Any]]]) -> list[list[list[dict[str, Any]]]]:
    """Those of each DAY that ends with one of the incidents, the day with the most first."""
    days = []
    first = 0
    for place, incident in enumerate(incidents):
        while _begin(incident) - _begin(incidents[first]) > DAY:
            first += 1
        days.append(incidents[first : place + 1])
    return sorted(days, key=len, reverse=True)


def _begin(incident: list[dict[str, Any]]) -> float:
    """When it began; 0 where the log does not say, and then it is the only one."""
    return next((event["time"] for event in incident if event["time"] is not None), 0.0)


def _processes(incidents: list[list[dict[str, Any]]]) -> int:
    """By how many processes they were.

    Where the driver names none, each incident is another's: after such an error a process can't
    use the GPU any more, and must be started again (cudaErrorIllegalAddress and its like in
    https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html).
    """
    named = [{event["pid"] for event in incident} - {None} for incident in incidents]
    return len(set().union(*named)) + named.count(set())
