"""The command line, called in this process."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from provision import cli


def provision(*arguments: str | Path) -> tuple[int, str]:
    """(exit code, standard output) of `provision ...`; raises its error."""
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout
