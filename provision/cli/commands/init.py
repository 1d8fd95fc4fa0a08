"""`provision init`: starts a project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision import inputs, tree
from provision.cli.console import say, shell_word
from provision.errors import InputError
from provision.render import example


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.")],
) -> None:
    """Start a project: an inventory with everything explained."""
    if (directory / "lab").exists():
        raise InputError(
            "there is a project already; its lab/ is yours and is not written again",
            where=str(directory),
            hint="choose another directory",
        )
    if (directory / "README.md").exists():
        raise InputError(
            "there is a README.md already, and it is not written over",
            where=str(directory),
            hint="choose another directory",
        )
    files = example.render(directory.resolve().name)
    ignored = directory / ".gitignore"
    if ignored.exists():
        files[".gitignore"] = _added(inputs.read(ignored, limit=None), files[".gitignore"])
    with tree.writing(directory, subject="the project"):
        for path, data in files.items():
            tree.write_file(directory / path, data)
    say(f"{directory}/lab/hosts.yml: write your hosts there, then")
    say(f"  provision discover --project {shell_word(directory)}")
    say(f"  provision lock --project {shell_word(directory)}")
    say(f"  provision render {shell_word(directory)}")


def _added(theirs: bytes, ours: bytes) -> bytes:
    """A repository's .gitignore with our line, unless it has that already, with or without "/"."""
    if ours.strip(b"/\n") in (line.strip().strip(b"/") for line in theirs.splitlines()):
        return theirs
    return theirs + (b"" if theirs.endswith(b"\n") or not theirs else b"\n") + ours
