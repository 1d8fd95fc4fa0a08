"""The options that every command has which runs the tree's playbook."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from provision.cli.run_options import RunRequest, takes_run_options


@pytest.fixture
def app() -> typer.Typer:
    """A command with an option of its own, that prints what it was asked for."""
    app = typer.Typer()

    @app.command()
    @takes_run_options(without={"limit", "deep"})
    def command(
        *, colour: Annotated[str, typer.Option("--colour")] = "red", request: RunRequest
    ) -> None:
        """What it does."""
        options = request.options
        shown = [colour, request.project, options.limit, options.tags, options.extra_vars]
        typer.echo(" ".join(map(str, shown)))
        shown = [request.verbose, request.as_json, options.inventory, options.forks]
        typer.echo(" ".join(map(str, shown)))

    return app


def test_the_command_gets_one_request_and_its_own_options(app: typer.Typer, tmp_path: Path) -> None:
    arguments = ["--colour", "blue", "-p", str(tmp_path), "-t", "cuda,cudnn", "-t", "tensorflow"]
    arguments += ["-e", "a=1", "-e", "b=2", "--json", "-i", "lab", "-i", "more", "-f", "3"]
    done = CliRunner().invoke(app, arguments)
    assert done.output.splitlines() == [
        f"blue {tmp_path} None ['cuda', 'cudnn', 'tensorflow'] ['a=1', 'b=2']",
        "False True ['lab', 'more'] 3",
    ]


def test_what_is_not_asked_for_has_its_default(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, [])
    assert done.output.splitlines() == ["red . None [] ()", "False False () None"]


@pytest.mark.parametrize("option", ["--limit=a", "--deep"])
def test_an_option_that_a_command_does_without_is_refused(app: typer.Typer, option: str) -> None:
    done = CliRunner().invoke(app, [option])
    assert done.exit_code == 2
    assert "No such option" in done.output


def test_help_shows_the_options_where_the_request_stands(app: typer.Typer) -> None:
    lines = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    assert "What it does." in lines
    places = [lines.index(word) for word in ("--colour", "--project", "--tags", "--json")]
    assert places == sorted(places)
