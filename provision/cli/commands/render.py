"""`provision render`: writes the Ansible project that the lock describes."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from provision import __version__, ansible_core, collection, tree
from provision import lock as locks
from provision.cli import projects
from provision.cli.console import err, print_json, say, shell_word
from provision.cli.options import InventoryOption, JsonOption, NoPrefixWarnings, VaultOption
from provision.render import render as render_tree
from provision.upstream import nvidia


def render(
    project: Annotated[
        Path, typer.Argument(metavar="DIR", help="The project's directory.")
    ] = Path(),
    inventories: InventoryOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 5 if the tree would change.")
    ] = False,
    vault_password_file: VaultOption = None,
    no_prefix_warnings: NoPrefixWarnings = False,
    as_json: JsonOption = False,
) -> None:
    """Write the Ansible project that the lock describes."""
    made = projects.read_lock(project)
    fleet = projects.read_fleet(
        project, inventories, vault_password_file=vault_password_file, quiet=no_prefix_warnings
    )
    where = str(project / "lock.yml")
    locks.check_fits(made, fleet, where=where)
    ansible_core.check_manages(ansible_core.installed(), made, fleet, where=where)
    nvidia.check_locked_keys(made.stacks, where=where)
    files = render_tree(made, collection.read())
    if check:
        what = tree.difference(project, files)
    else:
        what = tree.write(project, files, version=__version__)
    if as_json:
        print_json(
            {
                "new": what.new,
                "changed": what.changed,
                "removed": what.removed,
                "edited": what.edited,
            }
        )
    else:
        for path in what.edited:
            say(f"warning: {path} was edited; your version is {path}.yours", err)
        verb = "would be " if check else ""
        say(
            f"{project}: {len(what.new)} files {verb}new, {len(what.changed)} {verb}changed, "
            f"{len(what.removed)} {verb}removed"
        )
        if not check:
            there = "" if project == Path() else f"cd {shell_word(project)} && "
            say(f"  {there}ansible-playbook site.yml {_sources_from(project, inventories)}")
    if check and not what.empty:
        raise typer.Exit(5)


def _sources_from(project: Path, sources: list[str] | None) -> str:
    """The -i arguments that name, from inside the project, what the user named from here."""
    if not sources:
        return "-i lab"
    paths = [
        source if "," in source and not Path(source).exists() else os.path.relpath(source, project)
        for source in sources
    ]
    return " ".join(f"-i {shlex.quote(path)}" for path in paths)
