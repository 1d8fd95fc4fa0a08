"""Can the host feed its cards? Its CPUs' clock, and how fast it reads its data path."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, FAILED, finding, measured, not_applicable
from . import names

if TYPE_CHECKING:
    from typing import Any

POWERSAVE = "powersave"
# Drivers with a governor `powersave` of their own, which goes as fast as the work asks for; with
# all others it is the kernel's, which asks for the lowest clock alone:
# https://docs.kernel.org/admin-guide/pm/cpufreq.html (powersave)
# https://docs.kernel.org/admin-guide/pm/intel_pstate.html (active mode)
# https://docs.kernel.org/admin-guide/pm/amd-pstate.html (active mode, whose driver is the second)
OWN_POWERSAVE = ("intel_pstate", "amd-pstate-epp")
MIB, MB = 2**20, 10**6
SPOILED = (
    "have the host's memory tested (memtest86+) and its disk (smartctl -a): what it reads is not "
    "what was written"
)
BROKEN = "look at the kernel's log and at the disk: journalctl -k; smartctl -a"
BUSY = "see what else uses the disk (iostat -x 1), and whether a server of it answers"


def cpu_clock(facts: dict[str, Any]) -> dict[str, Any]:
    """Which governor sets the CPUs' clock, and how high it is."""
    cpus = facts["cpus"]
    if not cpus:
        return not_applicable(
            "the kernel does not say it (no cpufreq), as in most virtual machines"
        )
    governors = sorted(cpus["governors"])
    words = "governor {0} of {1}".format(
        " and ".join(governors), cpus["driver"] or "an unknown driver"
    )
    if cpus["now"]:
        words += ", {0} MHz now".format(_span(cpus["now"]))
    if cpus["most"]:
        words += ", at most {0} MHz".format(cpus["most"])
    if cpus["most"] and cpus["allowed"] and cpus["allowed"] < cpus["most"]:
        words += ", held to {0} MHz (scaling_max_freq)".format(cpus["allowed"])
    if POWERSAVE in governors and cpus["driver"] not in OWN_POWERSAVE:
        words += "; with this driver powersave is the lowest clock at all times: an input pipeline "
        words += "is slow by it (cpupower frequency-set -g performance)"
    return measured(words)


def _span(clocks: list[int]) -> str:
    least, most = min(clocks), max(clocks)
    return str(most) if least == most else "{0} to {1}".format(least, most)


def storage(facts: dict[str, Any]) -> dict[str, Any]:
    """How fast the host reads a file that is not in its cache; it comes back as it was written."""
    work = facts["work"]
    if work["missing"]:
        return not_applicable(work["missing"])
    answer = work["storage"]
    if answer is None:
        return not_applicable(names.no_card(work))
    place = answer["place"]
    if answer["unfit"]:
        return not_applicable("not measured: {0}".format(answer["unfit"]))
    if answer["silent"]:
        reason = "reading and writing in {0}: {1}".format(place, answer["error"])
        return finding(DEGRADED, reason, action="watch", how=BUSY)
    if answer["error"]:
        reason = "reading and writing in {0}: {1}".format(place, answer["error"])
        return finding(FAILED, reason, action="service", how=BROKEN)
    if answer["wrong"]:
        reason = "{0} of {1:.0f} MiB in {2} came back changed".format(
            answer["wrong"], answer["bytes"] / MIB, place
        )
        return finding(FAILED, reason, action="service", how=SPOILED)
    rate = answer["bytes"] / max(answer["seconds"], 1e-9) / MB
    words = "{0:.0f} MB/s from {1} ({2}), of a file that is not in memory".format(
        rate, place, answer["kind"]
    )
    # Not compared: who else uses the disk at the moment is no fault of it.
    return measured(words)


HOST = (("cpu_clock", cpu_clock),)
WORK_HOST = (("storage", storage),)
