"""Who has a job where, asked of slurmctld; changes nothing."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from ...host.context import Result

PATIENCE = "10"
# Not whole yet, or still at its end: each of them has processes or files on a node.
AT_WORK = "running,suspended,completing,configuring,stopped"


def ask(run: Callable[[list[str]], Result], *arguments: str) -> tuple[list[dict[str, str]], str]:
    """([{id, user, partition, nodes, name}], why it can't be known)."""
    # No name of a job: its owner chose it.
    answer = run(["timeout", PATIENCE, "squeue", "-h", "-o", "%i|%u|%P|%N|%T", *arguments])
    if answer.rc:
        return [], (answer.err or answer.out).strip()[-300:] or "squeue does not answer"
    rows = [line.split("|") for line in answer.out.splitlines() if line.count("|") == 4]
    names = ("id", "user", "partition", "nodes", "state")
    return [{name: row[at] for at, name in enumerate(names)} for row in rows], ""


def at_work(run: Callable[[list[str]], Result], node: str = "") -> tuple[list[dict[str, str]], str]:
    """Jobs that have begun, on a node or in the cluster; and why that can't be known."""
    where = ["-w", node] if node else []
    return ask(run, "-t", AT_WORK, *where)


def words(jobs: Sequence[dict[str, Any]]) -> str:
    """Jobs for people, the first of them."""
    shown = ["job {id} of {user} on {nodes}".format(**job) for job in jobs[:4]]
    more = " and {0} more".format(len(jobs) - 4) if len(jobs) > 4 else ""
    return ", ".join(shown) + more
