"""Reads and validates report.json, and derives a run's exit code from it.

The tree's callback writes the report, perhaps in another version, and a full disk may truncate it:
a reader that trusted it blindly would end with a traceback.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from provision import inputs
from provision.errors import DriftError, HostError, InputError, ProofError

FORMAT = 1
STATUSES = ("proven", "converged", "drift", "failed", "blocked", "unreachable")

# The types of a host's keys, which every reader relies on. Absent and null are always allowed, and
# so are keys of later versions.
MAPPINGS = ("wanted", "found", "platform", "checks_summary", "components", "failure", "reboot")
ROWS = ("changes", "left", "blockers", "warnings", "checks", "gpus")
LISTS = ("not_selected", "groups")
RESULTS = ("passed", "failed", "not_applicable")

Report = dict[str, Any]


def load(path: Path) -> Report:
    """The report at `path`.

    Raises InputError where it is absent, truncated, or of a format that this version can't read.
    """
    try:
        data = json.loads(inputs.read(path, limit=None))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            "there is no report", where=str(path), hint="a run of the playbook writes it"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError.of(
            error,
            "is not a report: not JSON",
            path,
            "run the playbook again; it writes a whole one",
        ) from None
    return validate(data, str(path))


def validate(content: Any, where: str = "report") -> Report:
    """Returns `content` if it has the shape that readers rely on, else raises InputError."""
    message = "is not a report of a format known here"
    hint = "it was written by another version of provision"
    data = inputs.of_format(content, FORMAT, message, where=where, hint=hint)
    hosts = data.get("hosts")
    if not isinstance(hosts, dict):
        raise InputError("is not a report: no hosts in it", where=where)
    stopped = data.get("not_begun")
    if stopped is not None and not (
        isinstance(stopped, dict)
        and isinstance(stopped.get("message"), str)
        and isinstance(stopped.get("hosts"), list)
    ):
        raise InputError("is not a report: `not_begun` is not as in a report", where=where)
    for name, host in hosts.items():
        status = host.get("status") if isinstance(host, dict) else None
        if status not in STATUSES:
            raise InputError(
                f"host {name} has no status known here",
                where=where,
                got=str(status),
                expected=", ".join(STATUSES),
            )
        _check_shape(name, host, where)
    if not isinstance(data.get("proven") or {}, dict):
        raise InputError("is not a report: `proven` is not a mapping", where=where)
    return data


def _check_shape(name: str, host: dict[str, Any], where: str) -> None:
    """Raises InputError where a key of a host has another type than readers rely on."""
    for key in (*MAPPINGS, *ROWS, *LISTS):
        value = host.get(key)
        if value is None:
            continue
        if key in MAPPINGS:
            expected, good = "a mapping", isinstance(value, dict)
        else:
            expected, good = "a list", isinstance(value, list)
        if good and (key in ROWS or key == "components"):
            parts = value.values() if isinstance(value, dict) else value
            expected += " of mappings"
            good = all(isinstance(part, dict) for part in parts)
        if not good:
            raise InputError(
                f"host {name}: `{key}` is not as in a report",
                where=where,
                got=type(value).__name__,
                expected=expected,
                hint="it was edited, or written by another version of provision",
            )
    for check in host.get("checks") or []:
        if check.get("result") not in RESULTS:
            raise InputError(
                f"host {name}: a check has no result known here",
                where=where,
                got=str(check.get("result")),
                expected=", ".join(RESULTS),
            )


def failed_checks(host: dict[str, Any]) -> list[dict[str, Any]]:
    """The failed checks of a host."""
    return [check for check in host.get("checks") or [] if check.get("result") == "failed"]


def exit_code(report: Report) -> int:
    """The documented exit code for a report: that of its worst host.

    A failed, blocked or unreachable host is worse than a failed proof, and that is worse than
    drift. Drift left by an apply with tags is no failure.
    """
    codes = {0}
    for host in report["hosts"].values():
        if host["status"] == "failed":
            phase = (host.get("failure") or {}).get("phase")
            proof = failed_checks(host) or phase in ("proof", "verify")
            codes.add(ProofError.exit_code if proof else HostError.exit_code)
        elif host["status"] in ("blocked", "unreachable"):
            codes.add(HostError.exit_code)
        elif host["status"] == "drift" and report.get("mode") != "run":
            codes.add(DriftError.exit_code)
    for code in (HostError.exit_code, ProofError.exit_code, DriftError.exit_code):
        if code in codes:
            return code
    return 0
