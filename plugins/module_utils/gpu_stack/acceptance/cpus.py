"""What the kernel says of how fast the host's CPUs may run: their governor and their clock."""

from __future__ import annotations

import collections

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from ..host.context import Context

# CPUs that share a clock are a policy: https://docs.kernel.org/admin-guide/pm/cpufreq.html
POLICIES = "/sys/devices/system/cpu/cpufreq/policy*"
# Of how many the clocks are read, from the first to the last: a server has hundreds, and older
# kernels measure each for 10 ms.
ASKED = 8


def look(context: Context) -> dict[str, Any] | None:
    """{driver, governors, now, most, allowed}; None where the kernel does not say, as in most VMs.

    governors: {governor: how many policies have it}. now: the clocks of some of them; most: the
    highest that one of these can have; allowed: the highest that the settings let one have. In MHz;
    None for what is not said.
    """
    places = context.glob(POLICIES)
    governors = collections.Counter(
        word for word in (_word(context, place, "scaling_governor") for place in places) if word
    )
    if not governors:
        return None
    driver = _word(context, places[0], "scaling_driver")
    places = places[:: max(1, len(places) // ASKED)][:ASKED]
    clocks = [_clock(context, place, "scaling_cur_freq") for place in places]
    return {
        "driver": driver,
        "governors": dict(sorted(governors.items())),
        "now": [clock for clock in clocks if clock is not None],
        "most": _highest(context, places, "cpuinfo_max_freq"),
        "allowed": _highest(context, places, "scaling_max_freq"),
    }


def _word(context: Context, place: str, name: str) -> str | None:
    text = (context.read("{0}/{1}".format(place, name)) or "").strip()
    return text or None


def _clock(context: Context, place: str, name: str) -> int | None:
    """MHz, of the kernel's kHz."""
    text = _word(context, place, name)
    return int(text) // 1000 if text and text.isdigit() else None


def _highest(context: Context, places: list[str], name: str) -> int | None:
    clocks = (_clock(context, place, name) for place in places)
    return max((clock for clock in clocks if clock is not None), default=None)
