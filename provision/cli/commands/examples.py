"""`provision examples`: scripts and notebooks for the people who work on the hosts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from provision import examples, inputs, tree
from provision.cli.console import print_json, say
from provision.cli.options import JsonOption
from provision.errors import InputError


def give_examples(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The one to print; none: all are listed.")
    ] = "",
    notebook: Annotated[
        bool, typer.Option("--notebook", help="As a notebook for Jupyter, not as a script.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write it there; without NAME, all."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print examples of TensorFlow on GPUs, as scripts or notebooks.

    They run in the environment of a host, on its GPUs or, saying so, without one, and load nothing
    from a network.
    """
    chosen = [examples.named(name)] if name else examples.every()
    if output is not None:
        _write(output, dict(example.file(notebook=notebook) for example in chosen), as_json)
    elif as_json:
        print_json(
            {"examples": [{"name": example.name, "title": example.title} for example in chosen]}
        )
    elif name:
        # As it is: `say` would break lines.
        sys.stdout.write(chosen[0].file(notebook=notebook)[1])
    elif notebook:
        raise InputError("--notebook needs NAME or --output DIR")
    else:
        width = max(len(example.name) for example in chosen)
        for example in chosen:
            say(f"{example.name:<{width}}  {example.title}")


def _write(folder: Path, files: dict[str, str], as_json: bool) -> None:
    """Writes all or none: InputError for a file that is there and differs, as somebody's work."""
    elsewhere = "--output names another folder"
    new = {}
    for name, text in files.items():
        path = folder / name
        try:
            present = inputs.read(path)
        except NotADirectoryError:
            raise InputError("a file is where a folder should be", where=str(folder)) from None
        except FileNotFoundError:
            new[path] = text.encode()
            continue
        if present != text.encode():
            raise InputError(
                "the file is there already, and differs; nothing is written",
                where=str(path),
                hint=elsewhere,
            )
    for path, data in new.items():
        with tree.writing(path, elsewhere):
            tree.write_file(path, data)
    written = [str(folder / name) for name in files]
    if as_json:
        print_json({"files": written})
    else:
        say("\n".join(written))
