"""`provision report`: the last run as a web page and as JUnit XML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision import tree
from provision.cli.console import print_json, say
from provision.cli.options import JsonOption, ProjectOption
from provision.errors import InputError, MachineError
from provision.report import html, junit
from provision.report import load as load_report


def write_report(
    project: ProjectOption = Path(),
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="A report.json.  [default: report/report.json]"
        ),
    ] = None,
    html_file: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="The page.  [default: beside the report]"),
    ] = None,
    junit_file: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="JUnit XML.  [default: beside the report]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a web page and JUnit XML of the last run's report.

    The page needs no network and no script. Exit code 0 whatever the report says.
    """
    path = source or project / "report" / "report.json"
    loaded = load_report(path)
    page = html_file or path.with_name("report.html")
    xml = junit_file or path.with_name("junit.xml")
    if len({file.resolve() for file in (path, page, xml)}) < 3:
        raise InputError(
            "one file can't hold two of the report, the page and the XML", where=str(path)
        )
    for target, data in ((page, html.render(loaded)), (xml, junit.render(loaded))):
        try:
            tree.write_file(target, data)
        except OSError as error:
            raise MachineError("it cannot be written", where=str(target), got=str(error)) from None
    if as_json:
        print_json({"html": str(page), "junit": str(xml)})
        return
    say(f"page:   {page}")
    say(f"JUnit:  {xml}")
