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
# Of commands that sign files, or check signatures.
KeyOption = Annotated[
    Path,
    typer.Option(
        "--key", metavar="FILE", help="Signs: a private SSH key, or KEY.pub of an agent's."
    ),
]
KEY_HINT = "set HOME, or name a key: --key FILE"
AllowedOption = Annotated[
    Path | None,
    typer.Option(
        "--allowed-signers", metavar="FILE", help="Who may sign, as ssh-keygen's file of that name."
    ),
]
IdentityOption = Annotated[
    str | None,
    typer.Option(
        "--identity", metavar="NAME", help="Who must have signed.  [default: any allowed one]"
    ),
]
