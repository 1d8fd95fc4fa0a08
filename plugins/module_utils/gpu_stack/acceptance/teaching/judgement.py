"""The findings that all teachers together change, and the verdicts that follow.

Only findings that are `measured` and have a figure are judged; verdicts follow by the rules of
judge.py. Pure.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from .. import judge
from ..findings import DEGRADED, MEASURED
from . import counters, power_limits, rates
from .subjects import figures_of, subjects

if TYPE_CHECKING:
    from typing import Any, Sequence

    from .history import Earlier


def teach(
    verdicts: dict[str, dict[str, Any]], earlier: Sequence[Earlier], now: float
) -> dict[str, list[dict[str, Any]]]:
    """{host: [{gpu, at, finding}]}: the findings that are judged now, of the hosts that have any.

    `verdicts`: judge.judge's, by host. `earlier`: what history.py has read. `now`: seconds since
    the epoch. `gpu` is the place in the verdict's gpus, None for the host's own checks; `at` the
    place in the checks. The order of hosts does not matter.
    """
    present = [subject for name, verdict in verdicts.items() for subject in subjects(name, verdict)]
    rules = (counters.Counters(earlier, now), rates.Rates(present, earlier, now))
    judged: dict[str, list[dict[str, Any]]] = {}
    for subject in present:
        for at, entry in figures_of(subject, (MEASURED,)):
            # A figure is a counter or a rate, and the others have nothing to say of it.
            for finding in (rule.judge(subject, entry) for rule in rules):
                if finding is not None:
                    row = {"gpu": subject.gpu, "at": at, "finding": finding}
                    judged.setdefault(subject.host, []).append(row)
    for host, row in power_limits.differing(verdicts):
        judged.setdefault(host, []).append(row)
    return judged


def apply(verdict: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The verdict with these findings of `teach` in it; verdicts and actions follow from them."""
    checks = list(verdict["checks"])
    gpus = [dict(gpu, checks=list(gpu["checks"])) for gpu in verdict["gpus"]]
    for row in rows:
        place = checks if row["gpu"] is None else gpus[row["gpu"]]["checks"]
        place[row["at"]] = row["finding"]
    for gpu in gpus:
        gpu["verdict"], gpu["action"] = judge.of_checks(gpu["checks"])
    whole, action = judge.of_host(checks, gpus)
    return dict(verdict, verdict=whole, action=action, checks=checks, gpus=gpus)


def suspects(judged: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The hosts on which a rate is too low: they are asked again before anything is accused."""
    return sorted(
        host for host, rows in judged.items() if any(_suspect(row["finding"]) for row in rows)
    )


def _suspect(finding: dict[str, Any]) -> bool:
    # A counter says the same at once again.
    return finding["state"] == DEGRADED and finding["figure"]["name"] not in counters.LIMITS
