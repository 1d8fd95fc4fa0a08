"""Counters that the driver keeps: judged by how fast they grow from one acceptance to the next.

How high one stands says little: it counts from when the driver was loaded, on every host since
another day.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, finding, ok

if TYPE_CHECKING:
    from typing import Any, Sequence

    from .history import Earlier

# {figure: the most that is ordinary, in one minute}. NVIDIA's own health check warns of more than
# 8 PCIe replays a minute (DCGM_FR_PCI_REPLAY_RATE):
# https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/dcgm_errors.h
LIMITS = {"pcie_replays": 8}
# In seconds. A shorter time is no rate.
SHORTEST = 60.0


class Counters:
    """The teacher of counters: each card's own last value."""

    def __init__(self, earlier: Sequence[Earlier], now: float) -> None:
        self._now = now
        self._last: dict[tuple[str, str], Earlier] = {}
        for entry in sorted(earlier, key=lambda entry: entry.time):
            if entry.figure in LIMITS and entry.time <= now - SHORTEST:
                self._last[entry.id, entry.figure] = entry

    def judge(self, subject: Any, entry: dict[str, Any]) -> dict[str, Any] | None:
        """The finding; None where nothing is known to compare with.

        A counter that stands lower than before began again when the driver was loaded.
        """
        figure = entry["figure"]
        last = self._last.get((subject.id, figure["name"]))
        if last is None or figure["value"] < last.value:
            return None
        minutes = (self._now - last.time) / 60
        rate = (figure["value"] - last.value) / minutes
        limit = LIMITS[figure["name"]]
        many = rate > limit
        reason = "{0}; {1:.2g} a minute since {2} (NVIDIA: at most {3})".format(
            entry["reason"], rate, last.day, limit
        )
        more = {"threshold": limit, "source": "NVIDIA", "figure": figure}
        if many:
            return dict(finding(DEGRADED, reason, entry["evidence"], action="reseat", **more),
                        check=entry["check"])  # fmt: skip
        return dict(ok(reason, evidence=entry["evidence"], **more), check=entry["check"])
