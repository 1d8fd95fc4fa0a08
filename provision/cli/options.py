"""Options that several commands have, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ProjectOption = Annotated[
    Path,
    typer.Option(
        "--project", "-p", metavar="DIR", help="The project's directory.", file_okay=False
    ),
]
InventoryOption = Annotated[
    list[str] | None,
    typer.Option("--inventory", "-i", metavar="PATH", help="As with Ansible.  [default: lab]"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
VaultOption = Annotated[
    Path | None,
    typer.Option("--vault-password-file", metavar="FILE", help="As with Ansible.", dir_okay=False),
]
NoPrefixWarnings = Annotated[
    bool,
    typer.Option("--no-prefix-warnings", help="Say nothing of variables that only look like ours."),
]
LimitOption = Annotated[
    str | None,
    typer.Option("--limit", "-l", metavar="HOSTS", help="Only these hosts, as with Ansible."),
]
TagsOption = Annotated[
    list[str] | None, typer.Option("--tags", "-t", metavar="NAMES", help="Only these components.")
]
SkipTagsOption = Annotated[
    list[str] | None, typer.Option("--skip-tags", metavar="NAMES", help="All but these components.")
]
ExtraVarsOption = Annotated[
    list[str] | None, typer.Option("--extra-vars", "-e", metavar="VARS", help="As with Ansible.")
]
AskOption = Annotated[
    bool, typer.Option("--ask-become-pass", "-K", help="Ask for the sudo password.")
]
ForksOption = Annotated[
    int | None,
    typer.Option("--forks", "-f", metavar="N", help="Hosts at once, as with Ansible.", min=1),
]
DeepOption = Annotated[
    bool,
    typer.Option("--deep", help="Read and hash every file of the stack: slow, for suspicion."),
]
VerboseOption = Annotated[
    bool,
    typer.Option("--ansible-output", help="Show Ansible's own output instead of the live view."),
]


def split(values: list[str] | None) -> list[str]:
    return [part for value in values or [] for part in value.split(",") if part]
