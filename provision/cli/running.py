"""Runs the tree's playbook and shows it: live, as a plan, as JSON or as Ansible's output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import typer

from provision import acceptance, inputs, inventory, run
from provision.cli.console import err, out, print_json, say, shell_word
from provision.cli.run_options import RunRequest
from provision.errors import InputError, ProvisionError
from provision.inventory import discover
from provision.report import live, terminal
from provision.roles import ROLES
from provision.run import Mode


def run_and_show(mode: Mode, request: RunRequest, *, former: bool = False) -> None:
    """Runs the tree's playbook in a mode, shows it, and exits with the documented code.

    `former`: for a lock that is not the project's present one.
    """
    project, options = request.project, request.options
    check_tags([*options.tags, *options.skip_tags])
    if not former:
        check_fresh(project)
    reported: Collection[str] = ()
    quiet = request.quiet
    if request.as_json:
        outcome = run.run_playbook(project, options, mode=mode)
        print_json(outcome.report)
    elif not quiet:
        # Ansible's own output, and its prompt for the password.
        outcome = run.run_playbook(project, options, mode=mode, quiet=False)
    else:
        with live.view(err) as view:
            outcome = run.run_playbook(project, options, mode=mode, on_event=view.on_event)
        reported = view.reported if _same_place() else ()
    if outcome.report is None:
        raise no_report(outcome, quiet=quiet)
    if not request.as_json:
        if mode == "plan":
            terminal.plan(outcome.report, out)
        else:
            terminal.outcome(outcome.report, out, reported=reported)
            for line in acceptance.ended(project / "report", outcome.report):
                say(f"acceptance: {line}")
            if outcome.report["hosts"]:
                option = "" if project == Path() else f" --project {shell_word(project)}"
                say(f"As a page to show to others: provision report{option}")
    raise typer.Exit(outcome.exit_code)


def _same_place() -> bool:
    """Whether stdout and stderr are the same file or terminal."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


def examined(
    project: Path, examination: run.Examination, options: run.Options, doing: str, quiet: bool
) -> tuple[dict[str, Any], int]:
    """(the report of a playbook that only asks, the exit code); raises without a reached host."""
    with err.status(doing):
        data, code, log = run.examine(project, examination, options, quiet=quiet)
    if data is None or not data.get("hosts"):
        raise no_report(run.Outcome(None, 0, code, log), quiet=quiet)
    return data, code


def no_report(outcome: run.Outcome, *, quiet: bool) -> ProvisionError:
    """The error for a run that ended before it reached a host.

    Ansible's output is in its log, but of a run that was not `quiet`: that went to the terminal.
    """
    log = outcome.log.read_text(encoding="utf-8", errors="replace") if quiet else ""
    words = r"--limit matches no host of the inventory: (.*?)\. No host"
    unmatched = re.search(words, run.unwrapped(log))
    if unmatched is not None:
        return discover.unmatched_limit(unmatched[1])
    lines = [line for line in log.splitlines() if line.strip()]
    error = InputError(
        "Ansible ended before it reached a host",
        where=str(outcome.log) if log else "",
        got="\n       ".join(lines[-6:]),
    )
    error.exit_code = outcome.exit_code or 1
    return error


def check_tags(tags: list[str]) -> None:
    """InputError for an unknown tag, for which Ansible would run nothing and report success."""
    # The components, site.yml's other tags, and Ansible's own.
    valid = [*(role.name for role in ROLES), "receipt", "verify", "all", "always", "tagged"]
    for tag in tags:
        if tag not in [*valid, "never", "untagged"]:
            near = inventory.did_you_mean(tag, valid)
            raise InputError(
                f"no component {tag!r}",
                where="--tags, --skip-tags",
                expected=", ".join(role.name for role in ROLES),
                hint=near,
            )


def check_fresh(project: Path) -> None:
    """InputError where the tree was rendered from another lock than lock.yml."""
    digests = []
    for path in (project / "lock.yml", project / "stacks" / "gpu_lock.yml"):
        try:
            text = inputs.read(path).decode("utf-8", "replace")
        except OSError:
            return  # no rendered project: the run says so
        digests.append(next((li for li in text.splitlines() if li.startswith("  digest:")), ""))
    if digests[0] != digests[1]:
        raise InputError(
            "the project was rendered from another lock.yml",
            where=str(project),
            hint=f"`provision render {shell_word(project)}`",
        )
