"""Gathers evidence of a host from what accept and the runs have left in the project.

Asks no host. What is missing, or was seen under another lock, is an error that names the command
which brings it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provision import __version__, acceptance, inputs
from provision.errors import InputError
from provision.evidence.document import (
    ACCEPTANCE_FORMAT,
    FORMAT,
    TEXT_OR_NULL,
    Evidence,
    check_acceptance,
    fault,
    loads,
)
from provision.inventory import did_you_mean
from provision.lock import Lock
from provision.report import failed_checks, runs

ACCEPTANCE = Path("report") / acceptance.FILE
_REPORT = {"format": int, "finished": TEXT_OR_NULL, "lock_digest": TEXT_OR_NULL, "hosts": dict}
_HOST = {"status": str, "message": str}


def collect(project: Path, host: str, lock: Lock, written: str) -> Evidence:
    """The evidence of a host under the project's lock. Raises InputError."""
    accepted, finished = _accepted(project, host, lock)
    run, report = _checked_run(project, host, lock)
    entry = report["hosts"][host]
    stack = str(entry.get("stack"))
    if stack not in lock.stacks:
        raise InputError(
            f"the lock has no stack that {host} was checked for",
            where=str(project / "lock.yml"),
            got=stack,
            expected=", ".join(lock.stacks),
            hint=_command(project, "verify"),
        )
    return {
        "format": FORMAT,
        "host": host,
        "written": written,
        "provision": __version__,
        "simulated": bool(accepted["simulated"] or entry.get("simulated_gpu")),
        "lock": {"digest": lock.digest, "stack": stack},
        "platform": entry.get("platform") or {},
        "versions": _versions(entry),
        "run": {
            "name": run,
            "mode": str(report.get("mode")),
            "finished": str(report.get("finished")),
            "status": entry["status"],
            "last_proven": entry.get("last_proven"),
            "checks": entry.get("checks_summary") or {},
            "failed": [
                {"id": str(check.get("id")), "title": str(check.get("title"))}
                for check in failed_checks(entry)
            ],
        },
        "acceptance": {"finished": finished, "verdict": accepted},
    }


def _versions(entry: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """{component: what the lock promises, and what was found}."""
    wanted, found = entry.get("wanted") or {}, entry.get("found") or {}
    return {name: {"locked": wanted[name], "found": found.get(name)} for name in sorted(wanted)}


def _accepted(project: Path, host: str, lock: Lock) -> tuple[dict[str, Any], str]:
    """(the verdict of the last acceptance on the host, when it ended)."""
    path = project / ACCEPTANCE
    again = _command(project, "accept")
    try:
        data = inputs.read(path, limit=None)  # of 10,000 hosts it has hundreds of MB
    except (FileNotFoundError, NotADirectoryError):
        raise InputError("there is no acceptance yet", where=str(path), hint=again) from None
    report = loads(data, where=str(path), kind="an acceptance", hint=again)
    number = report.get("format") if isinstance(report, dict) else None
    if number != ACCEPTANCE_FORMAT or fault(report, _REPORT):
        raise InputError(
            "the acceptance is of another version of provision",
            where=str(path),
            got=f"format {number!r}",
            expected=f"format {ACCEPTANCE_FORMAT}",
            hint=again,
        )
    if host not in report["hosts"]:
        raise InputError(
            f"the last acceptance did not ask {host}",
            where=str(path),
            got=", ".join(list(report["hosts"])[:5]),
            hint=did_you_mean(host, list(report["hosts"])) or again,
        )
    entry = report["hosts"][host]
    if fault(entry, _HOST) or entry["message"] or entry.get("acceptance") is None:
        message = entry.get("message") if isinstance(entry, dict) else entry
        raise InputError(
            f"{host} could not be asked, so there is no verdict",
            where=str(path),
            got=str(message).strip(),
            hint=again,
        )
    check_acceptance(entry["acceptance"], f"{path}, {host}", again)
    if report["finished"] is None or report["lock_digest"] != lock.digest:
        raise InputError(
            "the acceptance is of another lock than the project's",
            where=str(path),
            got=str(report["lock_digest"]),
            expected=lock.digest,
            hint=again,
        )
    return entry["acceptance"], report["finished"]


def _checked_run(project: Path, host: str, lock: Lock) -> tuple[str, dict[str, Any]]:
    """(name, report) of the newest run that has checked the host, if none since found it changed.

    A run that did not reach it says nothing of it, and one that found it as locked changes nothing.
    """
    for name, report in _newest_first(project):
        entry = report["hosts"].get(host)
        if entry is None or entry["status"] == "unreachable":
            continue
        where = str(project / "report" / name)
        if report.get("lock_digest") != lock.digest:
            raise InputError(
                f"the last run on {host} was for another lock than the project's",
                where=where,
                got=str(report.get("lock_digest")),
                expected=lock.digest,
                hint=_command(project, "apply"),
            )
        if entry.get("checks_summary"):
            return name, report
        if entry["status"] != "converged":
            raise InputError(
                f"the last run on {host} did not prove it",
                where=where,
                got=entry["status"],
                hint=f"{_command(project, 'plan')} says what differs; then "
                f"{_command(project, 'apply')}",
            )
    raise InputError(
        f"no run that is kept has checked {host}",
        where=str(project / "report"),
        hint=_command(project, "verify"),
    )


def _newest_first(project: Path) -> list[tuple[str, dict[str, Any]]]:
    """(name, report) of the kept runs; a renamed folder's name is no date."""
    reports = [(run.name, run.report) for run in runs.kept(project) if run.report is not None]
    return sorted(reports, key=lambda run: str(run[1].get("started")), reverse=True)


def _command(project: Path, name: str) -> str:
    option = "" if project == Path() else f" --project {shlex.quote(str(project))}"
    return f"`provision {name}{option}`"
