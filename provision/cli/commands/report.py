"""`provision report`: a run as a web page and as JUnit XML, and the runs that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision import tree
from provision.cli.console import print_json, say
from provision.cli.options import JsonOption, ProjectOption
from provision.errors import InputError
from provision.report import load as load_report
from provision.report import runs


def write_report(
    project: ProjectOption = Path(),
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A report.json.  [default: the last run's]"),
    ] = None,
    run_name: Annotated[
        str | None,
        typer.Option("--run", metavar="NAME", help="An earlier run, as --list names it."),
    ] = None,
    list_runs: Annotated[bool, typer.Option("--list", help="List the runs that are kept.")] = False,
    html_file: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="The page.  [default: beside the report]"),
    ] = None,
    junit_file: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="JUnit XML.  [default: beside the report]"),
    ] = None,
    history: Annotated[
        int,
        typer.Option("--history", metavar="N", min=0, help="Earlier runs to show on the page."),
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Make a web page and JUnit XML of a run's report.

    Without --run it is the last run. The page needs no network, and can be read without a script.
    Exit code 0 whatever the report says.
    """
    if (source is not None) + (run_name is not None) + list_runs > 1:
        raise InputError("--from, --run and --list exclude each other")
    if list_runs:
        _list(project, as_json=as_json)
        return
    path, folder = _chosen(project, source, run_name)
    loaded = load_report(path)
    page = html_file or folder / "report.html"
    xml = junit_file or folder / "junit.xml"
    if len({file.resolve() for file in (path, page, xml)}) < 3:
        raise InputError(
            "one file can't hold two of the report, the page and the XML", where=str(path)
        )
    # Jinja and XML take long to import, and every other command does without.
    from provision.report import html, junit

    # A report from elsewhere has no history here.
    before = [] if source is not None else runs.earlier(project, loaded, history)
    for target, data in ((page, html.render(loaded, before)), (xml, junit.render(loaded))):
        with tree.writing(target, "--html and --junit name other places"):
            tree.write_file(target, data)
    if as_json:
        print_json({"html": str(page), "junit": str(xml)})
        return
    say(f"page:   {page}")
    say(f"JUnit:  {xml}")


def _chosen(project: Path, source: Path | None, run_name: str | None) -> tuple[Path, Path]:
    """(the requested report, the folder for its page and XML)."""
    if source is not None:
        return source, source.parent
    if run_name is not None:
        path = runs.named(project, run_name)
        return path, path.parent
    # Web servers and CI look there, whichever run is the last.
    return runs.last(project), project / "report"


def _list(project: Path, *, as_json: bool) -> None:
    """Prints the runs that are kept, newest first."""
    newest_first = list(reversed(runs.kept(project)))
    if as_json:
        print_json({"runs": [_described(project, run) for run in newest_first]})
        return
    if not newest_first:
        say("no run yet")
    width = max((len(run.name) for run in newest_first), default=0)
    for run in newest_first:
        say(f"{run.name:<{width}}  {run.state}")


def _described(project: Path, run: runs.Run) -> dict[str, object]:
    keys = ("mode", "started", "finished", "seconds", "interrupted", "unfinished")
    return {
        "name": run.name,
        "file": str(project / "report" / run.name / runs.REPORT),
        "state": run.state,
        **{key: run.report.get(key) for key in keys if run.report},
    }
