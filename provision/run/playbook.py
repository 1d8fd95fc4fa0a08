"""Runs a tree's playbooks and returns their outcome."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from provision.errors import DriftError, HostError, InputError, MachineError, ProvisionError
from provision.report import Report, exit_code, load
from provision.run.hosts import answer, limited
from provision.run.options import Mode, Options, arguments, inventory_sources
from provision.run.process import Event, ignore_event, supervise
from provision.run.programs import environment, find_program

INTERRUPTED = 130
# {mode: its name in the report}
MODES = {"plan": "check", "apply": "run", "verify": "verify"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. `report` is None where Ansible ended before it reached a host."""

    report: Report | None
    ansible_exit: int
    exit_code: int
    log: Path


def run_playbook(
    tree: Path,
    options: Options | None = None,
    *,
    mode: Mode = "apply",
    on_event: Callable[[Event], None] | None = None,
    quiet: bool = True,
) -> Outcome:
    """Runs `site.yml` of `tree` in a mode and calls `on_event` with each event as it happens.

    Events are the lines of events.jsonl, and `interrupt` at the first Ctrl-C. `quiet` sends
    Ansible's output to `ansible.log` in the run's folder instead of the terminal.

    Raises InputError (no site.yml, no such inventory), MachineError (no ansible-playbook). Failures
    on hosts raise nothing: they are in the outcome. Ctrl-C is passed on to Ansible, which is waited
    for; the outcome then has exit code 130, and further Ctrl-Cs are ignored.
    """
    tree, options = tree.resolve(), options or Options()
    missing = "is not a rendered project: there is no site.yml"
    with contextlib.ExitStack() as stack:
        if options.hosts:
            options = replace(options, limit=stack.enter_context(limited(options.hosts)))
        argv = command(tree, "site.yml", missing, options, mode)
        folder = run_folder(tree / "report", mode)
        log = folder / "ansible.log"
        env = {**environment(tree), "PROVISION_REPORT_DIR": str(folder)}
        stream = stack.enter_context(log.open("wb"))
        ended, interrupted = supervise(
            argv,
            env,
            stream if quiet else None,
            folder / "events.jsonl",
            on_event or ignore_event,
        )
    report = _written(folder / "report.json")
    if report is None and not quiet:
        _remove_empty(folder)
    return Outcome(report, ended, outcome_code(report, ended, interrupted), log)


@dataclass(frozen=True)
class Examination:
    """A playbook that only asks: its report, and what its statuses mean for the exit code."""

    playbook: str
    report: str
    # Hosts that could not be asked, and those that are not as they should be.
    broken: frozenset[str]
    ill: frozenset[str]
    # Those of them for which Ansible itself ends with an error.
    refused: frozenset[str]


DOCTOR = Examination(
    "doctor",
    "doctor.json",
    broken=frozenset({"failed", "unreachable"}),
    ill=frozenset({"ill", "differs"}),
    refused=frozenset({"ill"}),
)
ACCEPTANCE = Examination(
    "accept",
    "acceptance.json",
    broken=frozenset({"error", "unreachable"}),
    ill=frozenset({"degraded", "failed"}),
    refused=frozenset({"degraded", "failed"}),
)


def examine(
    tree: Path, examination: Examination, options: Options, *, quiet: bool = True
) -> tuple[dict[str, Any] | None, int, Path]:
    """Runs a playbook of `tree` that only asks: (the content of its report, exit code, the log).

    The report is None where Ansible ended before it reached a host. Exit codes: 4 where a host
    failed or was unreachable, 5 where one is not as it should be, 0 where all are. Raises as
    `run_playbook`.
    """
    tree = tree.resolve()
    book = f"{examination.playbook}.yml"
    missing = f"there is no {book}: no project, or rendered by an earlier version"
    argv = command(tree, book, missing, options, "apply")
    folder = report_folder(tree)
    log = folder / "ansible.log"
    path = folder / examination.report
    path.unlink(missing_ok=True)
    with log.open("wb") as stream:
        ended, interrupted = supervise(
            argv,
            environment(tree),
            stream if quiet else None,
            folder / f"{path.stem}-events.jsonl",
            ignore_event,
        )
    report = answer(path)
    if interrupted or ended == 99:
        return report, INTERRUPTED, log
    hosts = (report or {}).get("hosts") or {}
    statuses = {host["status"] for host in hosts.values()}
    if not hosts:
        return report, InputError.exit_code, log
    if statuses & examination.broken or (ended and not statuses & examination.refused):
        return report, HostError.exit_code, log
    return report, DriftError.exit_code if statuses & examination.ill else 0, log


def outcome_code(report: Report | None, ansible_exit: int, interrupted: bool) -> int:
    """The documented exit code of a run: the report's, or an error where only Ansible reports one.

    Ansible's exit codes: 0 ok, 1 error, 2 failed hosts, 4 unreachable or parser error, 99
    interrupted, 250 crash.
    """
    if interrupted or ansible_exit == 99:
        return INTERRUPTED
    if report is not None and not report["hosts"] and ansible_exit == 0:
        # A pattern, a --limit or a misspelt gpu_stack matched no host: no success.
        return InputError.exit_code
    code = exit_code(report) if report is not None else 0
    if code == 0 and ansible_exit != 0:
        hosts = (report or {}).get("hosts") or {}
        return HostError.exit_code if hosts else InputError.exit_code
    return code


def command(tree: Path, playbook: str, missing: str, options: Options, mode: Mode) -> Sequence[str]:
    """ansible-playbook's command for a playbook of the tree; `missing`: the error without it."""
    path = tree / playbook
    if not path.is_file():
        first = "" if (tree / "lock.yml").is_file() else "`provision lock`, then "
        raise InputError(missing, where=str(tree), hint=f"{first}`provision render` makes it")
    sources = inventory_sources(tree, options.inventory)
    return [find_program(), str(path), *arguments(replace(options, inventory=sources), mode)]


def run_folder(home: Path, mode: Mode) -> Path:
    """Creates a folder in `home` for a run's report, named as the tree's callback names it.

    Raises MachineError where it can't: a run without a place for its report does not start.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"{moment}-{MODES[mode]}"
    try:
        home.mkdir(exist_ok=True)
        for count in itertools.count(2):
            folder = home / name
            try:
                folder.mkdir()
            except FileExistsError:
                name = f"{moment}-{MODES[mode]}-{count}"
            else:
                return folder
    except OSError as error:
        raise _no_report(home, error) from None
    raise AssertionError


def report_folder(tree: Path) -> Path:
    """`report/`, created if missing. Raises MachineError where it isn't writable."""
    folder = tree / "report"
    try:
        folder.mkdir(exist_ok=True)
        # An earlier run by root may have left a folder that this user can't write.
        probe = folder / "ansible.log"
        probe.touch()
    except OSError as error:
        raise _no_report(folder, error) from None
    return folder


def _no_report(folder: Path, error: OSError) -> MachineError:
    reason, hint = error.strerror, "make the project's folder writable, or copy it"
    if folder.is_symlink() and not folder.exists():
        reason = f"it is a link to {os.readlink(folder)}, which is not there"
        hint = "make that folder, or remove the link"
    elif folder.exists() and not folder.is_dir():
        reason, hint = "it is a file", "move it away: reports are kept in a folder of this name"
    return MachineError(f"the report can't be written: {reason}", where=str(folder), hint=hint)


def _written(path: Path) -> Report | None:
    """The report that the run wrote; None without a valid one."""
    try:
        return load(path)
    except ProvisionError:
        return None


def _remove_empty(folder: Path) -> None:
    """Removes a run's folder with nothing in it: Ansible's output went to the terminal."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == ["ansible.log"]:
            (folder / "ansible.log").unlink()
            folder.rmdir()
