"""The doctor's report in words, for a terminal and for Ansible's own output."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable


def lines(report: dict[str, Any], cure: Callable[[str], str], fix: bool = True) -> list[str]:
    """The lines of report/doctor.json: each host's findings, with their evidence and cure.

    `cure`: what helps with an unreachable host, by its message. Without `fix` no hints at --fix.
    """
    return [line for name, host in report["hosts"].items() for line in _host(name, host, cure, fix)]


def finding(entry: dict[str, Any], fix: bool = True) -> list[str]:
    """A finding's lines: its title, the evidence, the cure, the threads where it was met."""
    text = ["  {0} [{1}]".format(entry["title"], entry["id"])]
    text += ["    because: " + line for line in entry["evidence"]]
    text.append("    cure: " + entry["cure"])
    text += ["      $ " + command for command in entry["commands"]]
    means = entry.get("fix") or {}
    if fix and means.get("components"):
        text.append("    --fix: runs " + ", ".join(means["components"]))
    elif fix and means.get("steps"):
        text.append("    --fix: does it")
    if entry["threads"]:
        text.append("    known from: " + ", ".join(entry["threads"]))
    return text


def _host(name: str, host: dict[str, Any], cure: Callable[[str], str], fix: bool) -> list[str]:
    count = len(host["findings"])
    states = {
        "ill": "{0} finding{1}".format(count, "" if count == 1 else "s"),
        "healthy": "healthy, with notes" if host.get("notes") else "healthy",
        "differs": "no known trouble, and not as locked",
    }
    label = " (its GPU is simulated)" if host["simulated_gpu"] else ""
    text = ["{0}: {1}{2}".format(name, states.get(host["status"], host["status"]), label)]
    if host["message"]:
        text.append("  " + host["message"])
    if host["status"] == "unreachable":
        text.append("    cure: " + cure(host["message"]))
    text += ["  fixed: " + title for title in host["fixed"]]
    for entry in host["findings"]:
        text += finding(entry, fix)
    text += ["  note: " + note for note in host.get("notes") or []]
    if not host["locked"]:
        text.append("  note: the lock has no row for this host, which is judged without it")
    if host["differences"]:
        text.append("  note: {0} differences from the lock: see the plan".format(
            host["differences"]
        ))  # fmt: skip
    return text
