"""The program: its commands in the order of `--help`, and its exit codes.

Every ProvisionError is caught here: its message is printed and its code is the exit code. Anything
else is a bug, reported in one line with the place of its traceback.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Annotated

import typer

from provision import __version__, ending
from provision.cli.commands import (
    accept,
    bundle,
    catalog,
    discover,
    doctor,
    evidence,
    examples,
    explain,
    init,
    kubernetes,
    lab,
    lock,
    render,
    report,
    roles,
    rollback,
    runs,
    train,
)
from provision.cli.console import err, say
from provision.errors import ProvisionError

app = typer.Typer(
    name="provision",
    help="An inventory in, a locked Ansible project out, and hosts that are proven.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

COMMANDS: dict[str, Callable[..., None]] = {
    "init": init.init,
    "discover": discover.discover_hosts,
    "lock": lock.lock,
    "render": render.render,
    "bundle": bundle.make_bundle,
    "kubernetes": kubernetes.write_manifests,
    "plan": runs.plan,
    "apply": runs.apply,
    "verify": runs.verify,
    "doctor": doctor.ask_doctor,
    "accept": accept.accept,
    "train": train.train,
    "evidence": evidence.give_evidence,
    "rollback": rollback.go_back,
    "report": report.write_report,
    "explain": explain.explain,
    "examples": examples.give_examples,
    "catalog": catalog.show_catalog,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(lab.lab_app, name="lab")
# For whoever changes this repository.
app.add_typer(roles.roles_app, name="roles")


def _version(value: bool) -> None:
    if value:
        say(f"provision {__version__}")
        raise typer.Exit(0)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """An inventory in, a locked Ansible project out, and hosts that are proven."""


def main() -> None:
    """Runs the program: one message and the documented exit code for every failure."""
    ending.prepare()
    ending.leave(_run_app())


def _run_app() -> int:
    """Runs the command, prints its error, and returns the exit code."""
    arguments = [a for a in sys.argv[1:] if a != "--traceback"]
    try:
        code = app(args=arguments, prog_name="provision", standalone_mode=False)
    except ProvisionError as error:
        return _refuse(error)
    except KeyboardInterrupt:
        err.print("interrupted", markup=False)
        return ending.INTERRUPTED
    except Exception as error:
        cause = ending.cause(error)
        if cause is not None and "--traceback" not in sys.argv:
            return _refuse(cause)
        return _bug(error, shown="--traceback" in sys.argv)
    return code if isinstance(code, int) else 0


def _refuse(error: ProvisionError) -> int:
    say(f"error: {error}", err)
    return error.exit_code


def _bug(error: Exception, *, shown: bool) -> int:
    """Prints an unexpected error; usage errors exit 2, bugs exit 1."""
    if type(error).__name__ == "Abort":
        err.print("interrupted", markup=False)
        return ending.INTERRUPTED
    # Errors of typer are click's or, in newer versions, copies: recognised by their method.
    show = getattr(error, "show", None)
    if callable(show):
        show()
        return 2
    text = "".join(traceback.format_exception(error))
    if shown:
        err.print(text, markup=False)
        return 1
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="provision-", suffix=".traceback", delete=False, encoding="utf-8"
        ) as handle:
            handle.write(text)
        place = f"the traceback is in {handle.name}"
    except OSError:
        place = f"the traceback can't be written to a file:\n{text}"
    err.print(
        f"error: a fault of provision itself ({type(error).__name__}: {error}); {place}",
        markup=False,
    )
    return 1
