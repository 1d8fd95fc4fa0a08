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
from provision.errors import InputError
from provision.report import terminal


@takes_run_options(without={"tags", "skip_tags", "deep"})
def ask_doctor(
    *,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Do what is safe: no process is ended, nothing rebooted."),
    ] = False,
    log: Annotated[
        str | None,
        typer.Option(
            "--log", metavar="FILE", help="Judge a log instead of hosts; - for what is piped in."
        ),
    ] = None,
    request: RunRequest,
) -> None:
    """Say what is wrong, why that is believed, and what cures it.

    Exit code 5 if something was found, 4 if a host could not be asked.
    """
    if log is not None:
        _doctor_log(log, fix=fix, as_json=request.as_json)
        return
    project, options = request.project, request.options
    running.check_fresh(project)
    quiet = not (request.verbose or options.ask_become_pass) or request.as_json
    steps = ["gpu_doctor_fix=true"] if fix else []
    told = dataclasses.replace(options, extra_vars=[*options.extra_vars, *steps])
    report = _doctor(project, told, quiet=quiet)
    before = report[0]["hosts"]
    if fix and doctor.components(report[0]):
        _doctor_runs(project, options, report[0], quiet=quiet)
        report = _doctor(project, options, quiet=quiet)
        _note_fixed(before, report[0]["hosts"])
    data, code = report
    if request.as_json:
        print_json(data)
    else:
        for line in doctor.tell(data, fix=not fix):
            say(line)
    raise typer.Exit(code)


def _doctor(project: Path, options: run.Options, *, quiet: bool) -> tuple[dict[str, Any], int]:
    """Asks the hosts: (the report, the exit code)."""
    with err.status("asking the hosts what is wrong"):
        data, code, log = run.ask_doctor(project, options, quiet=quiet)
    if data is None or not data.get("hosts"):
        words = log.read_text(encoding="utf-8", errors="replace")
        raise running.no_report(run.Outcome(None, 0, code, log), words)
    return data, code


def _doctor_runs(
    project: Path, options: run.Options, report: Mapping[str, Any], *, quiet: bool
) -> None:
    """The runs that fix what a run can: one per set of components, and never a reboot."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, names in doctor.components(report).items():
        alike.setdefault(tuple(names), []).append(host)
    for tags, hosts in alike.items():
        say(f"{', '.join(hosts)}: runs {', '.join(tags)}", err)
        narrowed = dataclasses.replace(
            options,
            limit=",".join(hosts),
            tags=tags,
            extra_args=("-e", "nvidia_driver_reboot=false"),
        )
        outcome = run.run_playbook(project, narrowed, quiet=quiet)
        if outcome.exit_code and outcome.report is not None:
            terminal.outcome(outcome.report, err)


def _note_fixed(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """What the runs have put right stands in the report beside what the steps have."""
    for name, host in after.items():
        known = {one["id"] for one in host["findings"]}
        old = before.get(name) or {"fixed": [], "findings": []}
        host["fixed"] = old["fixed"] + [
            one["title"] for one in old["findings"] if one["id"] not in known
        ]


def _doctor_log(log: str, *, fix: bool, as_json: bool) -> None:
    """Judges a log: exit code 5 if it says something that is known, 0 if not."""
    if fix:
        raise InputError("a log can't be fixed", expected="--fix without --log")
    if log == "-":
        data, who = sys.stdin.buffer.read(), "the log"
    else:
        try:
            data, who = Path(log).read_bytes(), Path(log).name
        except OSError as error:
            raise InputError(f"can't be read: {error.strerror}", where=log) from None
    found = doctor.read_log(data, who)
    if as_json:
        print_json({"format": 1, "findings": found})
    else:
        for one in found:
            for line in doctor.lines(one, fix=False):
                say(line.removeprefix("  "))
        if not found:
            say("nothing that is known here: `provision doctor` asks the hosts themselves")
    raise typer.Exit(5 if found else 0)
