"""`provision accept`: whether every GPU is well, and what to do about one that is not."""

from __future__ import annotations

import enum
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from provision import acceptance, run, tree
from provision.cli import running
from provision.cli.console import print_json, say
from provision.cli.run_options import RunRequest, takes_run_options
from provision.errors import InputError


class Level(str, enum.Enum):
    """How much is asked of the cards: acceptance/levels.py in the collection."""

    quick = "quick"
    normal = "normal"
    long = "long"


class InUse(str, enum.Enum):
    """What is loaded where somebody computes: acceptance/levels.py too."""

    others = "others"
    nothing = "nothing"


@takes_run_options(without={"tags", "skip_tags", "deep"})
def accept(
    *,
    html_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the verdicts as a page.")
    ] = None,
    junit_file: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write the checks as JUnit XML."),
    ] = None,
    level: Annotated[
        Level,
        typer.Option(help="quick loads no GPU; normal computes on free ones; long burns them in."),
    ] = Level.quick,
    minutes: Annotated[
        float | None,
        typer.Option(metavar="N", help="How long --level long burns in.  [default: 60]", min=1),
    ] = None,
    in_use: Annotated[
        InUse | None,
        typer.Option(
            help="Where somebody computes on a host: load its other GPUs, or nothing of it. "
            "Else as gpu_accept_in_use says, others by default."
        ),
    ] = None,
    request: RunRequest,
) -> None:
    """Judge every GPU, and name faulty ones with the next action.

    Reads what the PCI bus, the driver and the kernel's log say; with --level normal TensorFlow
    computes on every GPU that nobody uses. Changes nothing and disturbs nobody.
    Exit code 5 where a host is degraded or failed, 4 where one could not be asked.
    """
    project = request.project
    options = replace(
        request.options, extra_vars=[*request.options.extra_vars, *_asked(level, minutes, in_use)]
    )
    running.check_fresh(project)
    quiet = request.quiet
    data, code = running.examined(project, run.ACCEPTANCE, options, "asking every GPU", quiet=quiet)
    if html_file is not None:
        past = acceptance.history(project / "report")
        _write(html_file, acceptance.page(data, past), "--html")
    if junit_file is not None:
        _write(junit_file, acceptance.junit(data), "--junit")
    if request.as_json:
        print_json(data)
    else:
        for line in acceptance.lines(data):
            say(line)
    raise typer.Exit(code)


def _asked(level: Level, minutes: float | None, in_use: InUse | None) -> list[str]:
    """The playbook's variables. Raises InputError for what says nothing of this level."""
    asked = [f"gpu_accept_level={level.value}"]
    if in_use is not None and level is Level.quick:
        raise InputError(
            "--in-use is what is loaded, and --level quick loads nothing",
            where="--in-use",
            got=f"--level {level.value}",
            hint=f"--level normal --in-use {in_use.value}",
        )
    if in_use is not None:
        asked.append(f"gpu_accept_in_use={in_use.value}")
    if minutes is None:
        return asked
    if level is not Level.long:
        raise InputError(
            "--minutes is how long --level long burns in",
            where="--minutes",
            got=f"--level {level.value}",
            hint=f"--level long --minutes {minutes:g}",
        )
    return [*asked, f"gpu_accept_minutes={minutes:g}"]


def _write(path: Path, data: bytes, option: str) -> None:
    with tree.writing(path, f"{option} names the file"):
        tree.write_file(path, data)
