"""Runs a tree's train.yml: starts a job, follows one, asks about it, stops it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.errors import HostError, InputError, ProofError
from provision.run.hosts import answer
from provision.run.options import Options
from provision.run.playbook import INTERRUPTED, command, report_folder
from provision.run.process import Event, supervise
from provision.run.programs import environment

BOOK, REPORT, EVENTS = "train.yml", "training.json", "training-events.jsonl"
# How a job ends, and what that is as an exit code: outcome.py in the collection.
CODES = {
    "complete": 0,
    "running": 0,
    "stopped": 0,
    "ended": ProofError.exit_code,
    "failed": HostError.exit_code,
    "lost": HostError.exit_code,
    "unknown": InputError.exit_code,
}


@dataclass(frozen=True)
class Training:
    """What a run of train.yml said.

    `report` is None where Ansible ended before it wrote one, for the reasons in `log`.
    """

    report: dict[str, Any] | None
    exit_code: int
    interrupted: bool
    log: Path


def train(
    tree: Path, options: Options, on_event: Callable[[Event], None], *, quiet: bool = True
) -> Training:
    """Runs train.yml of `tree` and calls `on_event` with each line that a worker prints.

    Raises as `run_playbook`. Ctrl-C ends the watching and not the job.
    """
    tree = tree.resolve()
    missing = f"there is no {BOOK}: no project, or rendered by an earlier version"
    argv = command(tree, BOOK, missing, options, "apply")
    # Of its own: one job is watched for days while another is started in the same project.
    folder = Path(tempfile.mkdtemp(prefix="training-", dir=report_folder(tree)))
    log = folder / "ansible.log"
    variables = {**environment(tree), "PROVISION_REPORT_DIR": str(folder)}
    with log.open("wb") as stream:
        ended, interrupted = supervise(
            argv, variables, stream if quiet else None, folder / EVENTS, on_event
        )
    report = answer(folder / REPORT)
    if report is not None or interrupted:
        shutil.rmtree(folder, ignore_errors=True)
    interrupted = interrupted or ended == INTERRUPTED or ended == 99
    code = INTERRUPTED if interrupted else exit_code(report, ended)
    return Training(report, code, interrupted, log)


def exit_code(report: dict[str, Any] | None, ansible_exit: int) -> int:
    """The documented exit code of what train.yml reports."""
    if not report or not report["hosts"]:
        return InputError.exit_code
    if report["refused"]:
        # By what was asked, before any host was, or by what the hosts said.
        return HostError.exit_code if report["asked"] else InputError.exit_code
    if report["outcome"]:
        if report["outcome"]["state"] == "unknown" and _is_away(report["hosts"]):
            return HostError.exit_code
        return CODES.get(report["outcome"]["state"], HostError.exit_code)
    return HostError.exit_code if ansible_exit else 0


def _is_away(hosts: dict[str, Any]) -> bool:
    """Whether a host could not be asked, on which a job may be that the others don't know."""
    return any(host["status"] != "ok" for host in hosts.values())
