"""`provision doctor`: what is wrong on the hosts or in a log, and the runs that fix it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from provision import doctor, run
from provision.cli import running
from provision.cli.console import err, print_json, say
from provision.cli.run_options import RunRequest, takes_run_options
from provision.ending import INTERRUPTED
from provision.errors import HostError, InputError
from provision.report import terminal

FIX = typer.Option("--fix", help="Do what is safe: no process is ended, nothing rebooted.")
LOG = typer.Option(
    "--log", metavar="FILE", help="Judge a log instead of hosts; - for what is piped in."
)


@takes_run_options(without={"tags", "skip_tags", "deep"})
def ask_doctor(
    *,
    fix: Annotated[bool, FIX] = False,
    log: Annotated[str | None, LOG] = None,
    request: RunRequest,
) -> None:
    """Say what is wrong, why that is believed, and what cures it.

    Exit code 5 if something was found or a host differs from its lock, 4 if a host could not be
    asked or a fix failed.
    """
    if log is not None:
        _doctor_log(log, fix=fix, as_json=request.as_json)
        return
    project, options = request.project, request.options
    running.check_fresh(project)
    quiet = request.quiet
    steps = ["gpu_doctor_fix=true"] if fix else []
    with_steps = dataclasses.replace(options, extra_vars=[*options.extra_vars, *steps])
    data, code = _doctor(project, with_steps, quiet=quiet)
    if fix and code != INTERRUPTED and doctor.components(data):
        before = data["hosts"]
        cured = _doctor_runs(project, options, data, quiet=quiet)
        data, code = _doctor(project, options, quiet=quiet)
        _note_fixed(before, data["hosts"])
        if not cured and code != INTERRUPTED:
            code = HostError.exit_code
    if request.as_json:
        print_json(data)
    else:
        for line in doctor.tell(data, fix=not fix):
            say(line)
    raise typer.Exit(code)


def _doctor(project: Path, options: run.Options, *, quiet: bool) -> tuple[dict[str, Any], int]:
    """(the hosts' report, the exit code)."""
    return running.examined(project, run.DOCTOR, options, "asking the hosts what is wrong", quiet)


def _doctor_runs(
    project: Path, options: run.Options, report: Mapping[str, Any], *, quiet: bool
) -> bool:
    """Runs the playbook for what a run can fix, once per set of components; never reboots.

    Returns whether all of these runs ended well. Raises ProvisionError for one that ended before it
    reached a host, and Exit after an interrupted one.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, names in doctor.components(report).items():
        alike.setdefault(tuple(names), []).append(host)
    failed = False
    for tags, hosts in alike.items():
        say(f"{', '.join(hosts)}: runs {', '.join(tags)}", err)
        narrowed = dataclasses.replace(
            options,
            hosts=hosts,
            tags=tags,
            extra_args=("-e", "nvidia_driver_reboot=false"),
        )
        outcome = run.run_playbook(project, narrowed, quiet=quiet)
        if outcome.exit_code and outcome.report is not None:
            terminal.outcome(outcome.report, err)
        if outcome.exit_code == INTERRUPTED:
            raise typer.Exit(INTERRUPTED)
        if outcome.report is None:
            raise running.no_report(outcome, quiet=quiet)
        failed = failed or outcome.exit_code != 0
    return not failed


def _note_fixed(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Merges issues fixed by runs into `fixed`, of hosts that answered after these."""
    for name, host in after.items():
        remaining = {finding["id"] for finding in host["findings"]}
        old = before.get(name) or {"fixed": [], "findings": []}
        answered = host["status"] not in run.DOCTOR.broken
        host["fixed"] = old["fixed"] + [
            finding["title"]
            for finding in old["findings"]
            if answered and finding["id"] not in remaining
        ]


def _doctor_log(log: str, *, fix: bool, as_json: bool) -> None:
    """Prints the findings in a log; exits with 5 if there are any, else 0."""
    if fix:
        raise InputError("a log can't be fixed", expected="--fix without --log")
    if log == "-":
        data, who = sys.stdin.buffer.read(), "the log"
    else:
        try:
            data, who = Path(log).read_bytes(), Path(log).name
        except OSError as error:
            raise InputError(f"can't be read: {error.strerror}", where=log) from None
    findings = doctor.read_log(data, who)
    if as_json:
        print_json({"format": 1, "findings": findings})
    else:
        for finding in findings:
            for line in doctor.lines(finding, fix=False):
                say(line.removeprefix("  "))
        if not findings:
            say("nothing that is known here: `provision doctor` asks the hosts themselves")
    raise typer.Exit(5 if findings else 0)
