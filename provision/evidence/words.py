"""Evidence in words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from provision import acceptance
from provision.evidence.document import Evidence
from provision.report import reading


def heading(evidence: Evidence) -> str:
    """ "gpu07 of 2026-11-26 02:30:00 UTC"; of a local lab's host that its GPUs are simulated."""
    label = " (its GPU is simulated)" if evidence["simulated"] else ""
    return f"{evidence['host']}{label} of {reading.moment(evidence['written'])}"


def lines(evidence: Evidence) -> Iterator[str]:
    """The host's verdict with its faults, its proof, its lock and its versions."""
    verdict = evidence["acceptance"]["verdict"]
    entry = {"status": verdict["verdict"], "message": "", "acceptance": verdict}
    yield from acceptance.lines({"hosts": {evidence["host"]: entry}})
    yield f"  accepted {reading.moment(evidence['acceptance']['finished'])}"
    run = evidence["run"]
    counts = [f"{run['checks'].get(key, 0)} {key}" for key in ("passed", "failed")]
    yield f"  {run['status']} by {run['name']}: checks: {', '.join(counts)}"
    yield from (f"    failed: {check['id']}: {check['title']}" for check in run["failed"])
    yield f"  lock {short(evidence)}: {evidence['lock']['stack']}"
    shown = [f"{name} {version(versions)}" for name, versions in evidence["versions"].items()]
    yield "  " + ", ".join(shown)


def version(versions: dict[str, str | None]) -> str:
    """The version found on the host, and the locked one where it differs."""
    found, locked = versions.get("found"), versions.get("locked")
    unlike = "" if reading.matches(found, locked) else f" (locked {locked})"
    return f"{found or 'unknown'}{unlike}"


def short(evidence: Evidence) -> str:
    """ "sha256:7385b4ce03f1"."""
    digest: str = evidence["lock"]["digest"]
    return digest[: len("sha256:") + 12]
