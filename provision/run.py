"""Runs a tree's playbook and tells what came of it.

`ansible-playbook` runs as a process of its own, with the terminal's prompts (-K) left to it: its
exit code alone can't say whether a host failed, was blocked or drifted, so the report that the
tree's callback wrote says that. Knows nothing of the generator: any rendered tree will do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

from provision import locales
from provision.errors import DriftError, HostError, InputError, MachineError, ProvisionError
from provision.report import Report, exit_code, load

Event = dict[str, Any]
Mode = Literal["plan", "apply", "verify"]

INTERRUPTED = 130
# Ctrl-C, what CI and a shutdown send, and a terminal that is closed.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Fast enough for the eye; one stat call each.
POLL_SECONDS = 0.1
# ansible-core waits up to 10 s for its workers.
PATIENCE_SECONDS = 12


@dataclass(frozen=True)
class Outcome:
    """What came of a run. `report` is None where Ansible ended before it saw a host."""

    report: Report | None
    ansible_exit: int
    exit_code: int
    log: Path


@dataclass(frozen=True)
class Options:
    """What a command hands through to `ansible-playbook`, under its names; `deep` is ours.

    `inventory`: without any, the tree's `lab`. Relative paths are relative to where the user is.
    """

    inventory: Sequence[str] = ()
    limit: str | None = None
    tags: Sequence[str] = ()
    skip_tags: Sequence[str] = ()
    extra_vars: Sequence[str] = ()
    ask_become_pass: bool = False
    forks: int | None = None
    vault_password_file: Path | None = None
    deep: bool = False
    extra_args: Sequence[str] = ()


def run_playbook(
    tree: Path,
    options: Options | None = None,
    *,
    mode: Mode = "apply",
    on_event: Callable[[Event], None] | None = None,
    quiet: bool = True,
) -> Outcome:
    """Runs `site.yml` of `tree` in a mode; events arrive at `on_event` as they happen.

    They are the lines of events.jsonl, and one of our own: `interrupt`, at the first Ctrl-C.
    `quiet` sends Ansible's own output to `report/ansible.log` instead of the terminal.

    Raises InputError (no site.yml, no such inventory), MachineError (no ansible-playbook). What
    happens on hosts raises nothing: it is in the outcome. Ctrl-C is passed on to Ansible, which
    is waited for, and gives an outcome with exit code 130; it is ignored from then on.
    """
    tree = tree.resolve()
    missing = "is not a rendered project: there is no site.yml"
    command = _command(tree, "site.yml", missing, options or Options(), mode)
    folder = report_folder(tree)
    log = folder / "ansible.log"
    started = time.time()
    with log.open("wb") as stream:
        ended, interrupted = _run(
            command,
            environment(tree),
            stream if quiet else None,
            folder / "events.jsonl",
            on_event or _unseen,
        )
    report = _fresh_report(folder / "report.json", started)
    return Outcome(report, ended, outcome_code(report, ended, interrupted), log)


def ask_doctor(
    tree: Path, options: Options, *, quiet: bool = True
) -> tuple[dict[str, Any] | None, int, Path]:
    """Runs `doctor.yml` of `tree`: (what report/doctor.json says, the exit code, Ansible's log).

    The report is None where Ansible ended before it saw a host. Exit codes: 4 where a host failed
    or was not reached, 5 where something was found or differs, 0 where all are healthy. Raises as
    `run_playbook`.
    """
    tree = tree.resolve()
    missing = "there is no doctor.yml: no project, or rendered by an earlier version"
    command = _command(tree, "doctor.yml", missing, options, "apply")
    folder = report_folder(tree)
    log = folder / "ansible.log"
    path = folder / "doctor.json"
    path.unlink(missing_ok=True)
    with log.open("wb") as stream:
        ended, interrupted = _run(
            command,
            environment(tree),
            stream if quiet else None,
            folder / "doctor-events.jsonl",
            _unseen,
        )
    report = answer(path)
    if interrupted or ended == 99:
        return report, INTERRUPTED, log
    hosts = (report or {}).get("hosts") or {}
    found = {host["status"] for host in hosts.values()}
    if not hosts:
        return report, InputError.exit_code, log
    if found & {"failed", "unreachable"} or (ended and "ill" not in found):
        return report, HostError.exit_code, log
    return report, DriftError.exit_code if found & {"ill", "differs"} else 0, log


def outcome_code(report: Report | None, ansible_exit: int, interrupted: bool) -> int:
    """The documented exit code.

    Ansible's own: 0 ok, 1 error, 2 failed hosts, 4 unreachable or parser error, 99 interrupted,
    250 crash. The report decides; where it sees nothing wrong and Ansible does, Ansible is right.
    """
    if interrupted or ansible_exit == 99:
        return INTERRUPTED
    if report is not None and not report["hosts"] and ansible_exit == 0:
        # A pattern, a --limit or a misspelt gpu_stack that leaves no host is no success.
        return InputError.exit_code
    code = exit_code(report) if report is not None else 0
    if code == 0 and ansible_exit != 0:
        hosts = (report or {}).get("hosts") or {}
        return HostError.exit_code if hosts else InputError.exit_code
    return code


def _command(
    tree: Path, playbook: str, missing: str, options: Options, mode: Mode
) -> Sequence[str]:
    """ansible-playbook for a playbook of the tree; `missing` is said where the tree has it not."""
    path = tree / playbook
    if not path.is_file():
        raise InputError(missing, where=str(tree), hint="`provision render` makes it")
    sources = inventory_sources(tree, options.inventory)
    return [find_program(), str(path), *arguments(replace(options, inventory=sources), mode)]


def arguments(options: Options, mode: Mode) -> list[str]:
    """ansible-playbook's arguments behind the playbook's name. Pure."""
    found: list[str] = []
    for source in options.inventory:
        found += ["-i", source]
    if mode == "plan":
        found.append("--check")
    elif mode == "verify":
        if options.tags:
            got = ",".join(options.tags)
            raise InputError("verify checks whole hosts, it takes no tags", got=got)
        found += ["--tags", "verify", "-e", "gpu_verify=always"]
    if options.limit:
        found += ["--limit", options.limit]
    if options.tags:
        found += ["--tags", ",".join(options.tags)]
    if options.skip_tags:
        found += ["--skip-tags", ",".join(options.skip_tags)]
    if options.deep:
        found += ["-e", "gpu_deep=true"]
    for pair in options.extra_vars:
        found += ["-e", pair]
    if options.ask_become_pass:
        found.append("--ask-become-pass")
    if options.forks is not None:
        found += ["--forks", str(options.forks)]
    if options.vault_password_file is not None:
        found += ["--vault-password-file", str(options.vault_password_file)]
    return [*found, *options.extra_args]


def inventory_sources(tree: Path, inventory: Sequence[str]) -> list[str]:
    """The sources as Ansible gets them: absolute paths, or host lists ("a,b") as they are.

    Ansible only warns about a source that isn't there and then finds no host to work on.
    """
    sources = list(inventory)
    if not sources:
        if not (tree / "lab").exists():
            raise InputError(
                "the project has no inventory of its own",
                where=str(tree / "lab"),
                hint="name yours with -i",
            )
        return [str(tree / "lab")]
    found = []
    for source in sources:
        path = Path(source).expanduser()
        # What is not where the user is may be in the project: `-i lab` from anywhere.
        candidates = [path] if path.is_absolute() else [Path.cwd() / path, tree / path]
        there = [candidate for candidate in candidates if candidate.exists()]
        if not there and "," in source:
            found.append(source)
            continue
        if not there:
            raise InputError(
                "there is no such inventory",
                where=source,
                expected="a file or folder that Ansible reads as an inventory",
            )
        found.append(str(there[0]))
    return found


def find_program(name: str = "ansible-playbook") -> str:
    """ansible-playbook of the Python that runs this, else of PATH."""
    own = Path(sys.executable).parent / name
    program = str(own) if own.is_file() else shutil.which(name)
    if program is None:
        raise MachineError(
            f"{name} is not installed",
            where=sys.executable,
            hint=f"{sys.executable} -m pip install 'ansible-core>=2.17,<2.20'",
        )
    return program


def environment(tree: Path) -> dict[str, str]:
    """The user's environment with the tree's own configuration.

    The user's is needed whole: ssh-agent, proxies, cloud inventories' credentials.
    """
    found = dict(os.environ)
    config = tree / "ansible.cfg"
    if config.is_file():
        found.setdefault("ANSIBLE_CONFIG", str(config))
    # The report is wanted in this tree, whatever a Molecule run or a shell has left behind.
    found.pop("PROVISION_REPORT_DIR", None)
    # The callback's own table is for people who run ansible-playbook themselves.
    found["PROVISION_LIVE"] = "1"
    return locales.with_utf8(found)


def ansible(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Ansible's program for a single task, in a folder; its answer is for us, not for a person.

    MachineError where it can't be started.
    """
    try:
        return subprocess.run(
            [find_program("ansible"), "--playbook-dir", str(folder.absolute()), *arguments],
            cwd=folder,
            env={
                **environment(folder.resolve()),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_DEPRECATION_WARNINGS": "0",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise MachineError("Ansible can't be started", got=str(error)) from None


def answer(path: Path) -> dict[str, Any] | None:
    """A host's result as Ansible's --tree writes it; None where there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def ask(
    project: Path,
    sources: Sequence[str],
    hosts: Sequence[str],
    script: str,
    *,
    vault_password_file: Path | None = None,
    forks: int | None = None,
) -> tuple[dict[str, dict[str, Any] | None], str]:
    """What a shell script that only reads prints on hosts: (each host's result, Ansible's errors).

    No rights are taken, and so no password is asked for. MachineError as `ansible`.
    """
    with tempfile.TemporaryDirectory(prefix="provision-") as folder:
        names = Path(folder) / "hosts"
        names.write_text("".join(f"{host}\n" for host in hosts), encoding="utf-8")
        answers = Path(folder) / "answers"
        command = ["all", *sourced(sources, vault_password_file), "--limit", f"@{names}"]
        command += ["--tree", str(answers), "-m", "ansible.builtin.raw", "-a", script]
        command += ["-e", "ansible_become=false"]
        done = ansible(project, command + (["--forks", str(forks)] if forks else []))
        return {host: answer(answers / host) for host in hosts}, done.stderr


def sourced(sources: Sequence[str], vault_password_file: Path | None) -> list[str]:
    """Ansible's arguments for inventories, and for the file that opens them."""
    found = [argument for source in sources for argument in ("-i", source)]
    if vault_password_file is not None:
        found += ["--vault-password-file", str(vault_password_file.resolve())]
    return found


def report_folder(tree: Path) -> Path:
    """`report/`, made where it isn't."""
    folder = tree / "report"
    try:
        folder.mkdir(exist_ok=True)
        # A report from an earlier run by root must not stop an ordinary user with a traceback.
        probe = folder / "ansible.log"
        probe.touch()
    except OSError as error:
        raise MachineError(
            f"the report can't be written: {error.strerror}",
            where=str(folder),
            hint="make the project's folder writable, or copy it",
        ) from None
    return folder


def _unseen(event: Event) -> None:
    """Where nobody looks on."""


def _run(
    command: Sequence[str],
    env: dict[str, str],
    output: IO[bytes] | None,
    events: Path,
    on_event: Callable[[Event], None],
) -> tuple[int, bool]:
    """(exit code, was it interrupted). Output None is the terminal."""
    events.unlink(missing_ok=True)
    interrupts: list[int] = []
    main = threading.current_thread() is threading.main_thread()

    def interrupt(number: int, frame: Any) -> None:  # noqa: ARG001 (the handler's signature)
        interrupts.append(number)
        # A Ctrl-C at the terminal reaches Ansible too, for it is in the same process group; a
        # signal sent to this process alone does not.
        if number != signal.SIGINT or not _at_terminal():
            process.send_signal(signal.SIGINT)

    try:
        process = subprocess.Popen(list(command), env=env, stdout=output, stderr=output)
    except OSError as error:
        raise MachineError(
            f"can't be started: {error.strerror}", where=command[0], hint="install ansible-core"
        ) from None
    before = {number: signal.signal(number, interrupt) for number in (ENDINGS if main else ())}
    tail = Tail(events)
    told = False
    try:
        while process.poll() is None:
            for event in tail.read():
                on_event(event)
            if interrupts and not told:
                told = True
                on_event({"event": "interrupt"})
            time.sleep(POLL_SECONDS)
        for event in tail.read():
            on_event(event)
    finally:
        if process.poll() is None:  # on_event failed: no orphan may go on changing hosts unseen
            _end(process)
        for number, handler in before.items():
            # After Ctrl-C the rest of this process tells what came of it; an impatient second one
            # would take just that away.
            signal.signal(number, signal.SIG_IGN if interrupts else handler)
    return process.returncode, bool(interrupts)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends Ansible as gently as it lets itself be ended."""
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return


def _at_terminal() -> bool:
    """Is this process in the foreground of a terminal, whose Ctrl-C reaches the whole group?"""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


class Tail:
    """Whole new lines of a growing file of JSON lines; half a line waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Event]:
        """Events since the last call."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        found = []
        for line in whole.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                found.append(event)
        return found


def _fresh_report(path: Path, started: float) -> Report | None:
    """The report of this run; None where it wrote none. An older one would tell a lie."""
    try:
        # File times may lag behind the clock by a kernel tick.
        if path.stat().st_mtime < started - 0.05:
            return None
        return load(path)
    except (OSError, ProvisionError):
        return None
