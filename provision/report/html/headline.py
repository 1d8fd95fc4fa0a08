"""The headline of the page."""

from __future__ import annotations

from dataclasses import dataclass

from provision.report import Report
from provision.report.html.words import BAD
from provision.report.reading import WORST_FIRST


@dataclass(frozen=True)
class Headline:
    """The headline's parts. `tone` is good, warn or bad."""

    verdict: str
    details: list[str]
    simulated: str
    tone: str


def headline(report: Report) -> Headline:
    """The verdict in one line, what is not good, and whether GPUs are simulated."""
    hosts = list(report["hosts"].values())
    total = len(hosts)
    by = {status: sum(1 for h in hosts if h["status"] == status) for status in WORST_FIRST}
    bad = sum(by[status] for status in BAD)
    tone = "bad" if bad or report.get("interrupted") or not hosts else "good"
    shown = "converged"
    check = report.get("mode") == "check"
    if not hosts:
        return Headline(
            "No host was looked at", ["does the pattern or --limit match any?"], "", tone
        )
    if check:
        verdict = f"{_of(by['converged'], total)} as locked"
        if by["drift"]:
            shown = "drift"
            verb = "differs" if by["drift"] == 1 else "differ"
            verdict = f"{_of(by['drift'], total)} {verb} from the lock"
    elif not by["converged"]:
        verdict, shown = f"{_of(by['proven'], total)} proven", "proven"
    else:
        # A run does not check hosts that were already as locked.
        verdict = f"{_of(by['proven'] + by['converged'], total)} as locked"
        shown = "converged" if not by["proven"] else ""
    if tone == "good" and (by["drift"]):
        tone = "warn"
    words = {"converged": "as locked" if check else "not checked now", "drift": "not as locked"}
    if not shown:
        words["proven"] = "proven now"
    details = [
        f"{by[status]} {words.get(status, status)}"
        for status in WORST_FIRST
        if by[status] and status != shown
    ]
    if shown == "converged" and not check:
        details.append("no check has run now")
    if report.get("interrupted"):
        details.insert(0, "interrupted")
    if report.get("not_begun"):
        details.append(f"{len(report['not_begun']['hosts'])} not begun")
    simulated = sum(1 for host in hosts if host.get("simulated_gpu"))
    where = ""
    if simulated:
        where = _of(simulated, total).replace("All", "all").replace("Both", "both")
    return Headline(verdict, details, where, tone)


def _of(count: int, total: int) -> str:
    """ "All 3 hosts", "2 of 3 hosts", "None of 3 hosts"."""
    if total == 1:
        return "1 host" if count else "0 of 1 host"
    if count == total:
        return "Both hosts" if total == 2 else f"All {total} hosts"
    return f"{count} of {total} hosts"
