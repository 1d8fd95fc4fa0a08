"""`provision catalog`: which TensorFlow runs where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from provision import catalog
from provision.catalog import gpus as known_gpus
from provision.cli.console import out, print_json, say
from provision.cli.options import JsonOption
from provision.resolve import matrix


def show_catalog(
    gpu: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only what serves this GPU; may be given again."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what runs where: TensorFlow releases by platforms."""
    facts = catalog.load()
    gpus = tuple(known_gpus.gpu(word, where="--gpu") for word in gpu or ())
    lines = matrix.lines(facts, gpus)
    titles = {platform.id: platform.title for platform in facts.platforms}
    if as_json:
        print_json(
            [
                {
                    "tensorflow": line.release,
                    "newest": line.patch,
                    "pythons": line.pythons,
                    "cuda": line.cuda,
                    "cudnn": line.cudnn,
                    "driver_minimum": line.driver,
                    "platforms": {
                        name: {"how": cell.how, "text": cell.text}
                        for name, cell in zip(titles, line.cells, strict=True)
                    },
                }
                for line in lines
            ]
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("TensorFlow", "Python", "CUDA", "cuDNN", "driver", *titles.values()):
        table.add_column(title.partition(" (")[0], overflow="fold")
    styles = {"debs": "green", "wheels": "green", "nvidia": "green", "known": "dim", "no": "dim"}
    for line in lines:
        cells = [f"[{styles[c.how]}]{escape(matrix.shown(c))}[/]" for c in line.cells]
        table.add_row(line.patch, line.pythons, line.cuda, line.cudnn, line.driver, *cells)
    # Never a table that is cut off: a pipe gets all of it, a narrow terminal a list.
    wide = out if out.is_terminal else Console(width=240, highlight=False)
    if Measurement.get(wide, wide.options.update(max_width=999), table).minimum <= wide.width:
        wide.print(table)
    else:
        _tell_catalog(lines, list(titles.values()))
    for card in gpus:
        end = f" to {card.driver_last}" if card.driver_last else " or newer"
        say(f"{card.name}: {card.generation}, compute capability {card.capability}, "
             f"driver branches {card.driver_first}{end}")  # fmt: skip
    say("(in brackets): known, and not installed by this version; no: what is in the way")


def _tell_catalog(lines: Sequence[matrix.Line], titles: Sequence[str]) -> None:
    """Prints the catalog's table as a list, for a terminal that is too narrow for it."""
    for line in lines:
        say(f"TensorFlow {line.patch}: Python {line.pythons}, CUDA {line.cuda}, "
             f"cuDNN {line.cudnn}, driver {line.driver}")  # fmt: skip
        for title, cell in zip(titles, line.cells, strict=True):
            say(f"  {title.partition(' (')[0]}: {matrix.shown(cell)}")
