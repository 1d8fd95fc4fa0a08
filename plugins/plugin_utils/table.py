"""The report as lines of plain text, for people who run ansible-playbook themselves."""

from __future__ import annotations

from typing import Any

from ansible_collections.provision.gpu.plugins.plugin_utils import cures


def _components(changes: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(change.get("component")) for change in changes))


def explanation(entry: dict[str, Any]) -> str:
    """Why a host has its status; a line for each reason."""
    if entry["status"] == "blocked" and entry["blockers"]:
        return "\n".join(str(blocker.get("message")) for blocker in entry["blockers"])
    failed = [check for check in entry["checks"] if check.get("result") == "failed"]
    if failed:
        return "\n".join(check.get("diagnosis") or check["title"] for check in failed)
    if entry["status"] == "unreachable" and entry["failure"]:
        words = str(entry["failure"]["message"]).removeprefix("Task failed: ").strip()
        return f"{words}\ncure: {cures.unreachable(words)}"
    if entry["failure"]:
        return f"{entry['failure']['task']}: {entry['failure']['message']}"
    if entry["status"] == "drift":
        # A run that left components out has looked again; a check has not.
        changes = entry["left"] or entry["changes"]
        return "differs from the lock: " + ", ".join(_components(changes))
    changed = _components(entry["changes"])
    parts = ["changed " + ", ".join(changed) if changed else "nothing to change"]
    if entry["checks_summary"]:
        counts = entry["checks_summary"]
        parts.append(f"{counts.get('passed', 0)} checks passed")
        if counts.get("not_applicable"):
            parts.append(f"{counts['not_applicable']} not applicable")
    elif entry["last_proven"]:
        parts.append(f"last proven {entry['last_proven']}")
    return ", ".join(parts)


def table(report: dict[str, Any]) -> list[str]:
    """Lines of host, status and explanation; [] without hosts."""
    rows = []
    for name, entry in report["hosts"].items():
        label = name + (" (simulated GPU)" if entry["simulated_gpu"] else "")
        if (entry.get("platform") or {}).get("userland"):
            label += f" (on {entry['platform']['userland']})"
        first, *rest = explanation(entry).splitlines()
        rows.append((label, entry["status"], first))
        rows += [("", "", line) for line in rest]
    if not rows:
        return []
    labels = max(len(row[0]) for row in rows)
    statuses = max(len(row[1]) for row in rows)
    lines = [
        f"{label:<{labels}}  {status:<{statuses}}  {text}".rstrip() for label, status, text in rows
    ]
    if report.get("not_begun"):
        lines += ["", report["not_begun"]["message"]]
    return lines
