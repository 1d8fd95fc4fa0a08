"""`provision render`: writes the Ansible project that the lock describes."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from provision import __version__, ansible_core, collection, run, tree
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
    lock = projects.read_lock(project)
    fleet = projects.read_fleet(
        project, inventories, vault_password_file=vault_password_file, quiet=no_prefix_warnings
    )
    where = str(project / "lock.yml")
    locks.check_fits(lock, fleet, where=where)
    ansible_core.check_manages(ansible_core.installed(), lock, fleet, where=where)
    nvidia.check_locked_keys(lock.stacks, where=where)
    files = render_tree(lock, collection.read())
    if check:
        changes = tree.difference(project, files)
    else:
        changes = tree.write(project, files, version=__version__)
    if as_json:
        print_json(
            {
                "new": changes.new,
                "changed": changes.changed,
                "removed": changes.removed,
                "edited": changes.edited,
            }
        )
    else:
        for path in changes.edited:
            say(f"warning: {path} was edited; your version is {path}.yours", err)
        verb = "would be " if check else ""
        say(
            f"{project}: {len(changes.new)} files {verb}new, {len(changes.changed)} {verb}changed, "
            f"{len(changes.removed)} {verb}removed"
        )
        if not check:
            enter = "" if project == Path() else f"cd {shell_word(project)} && "
            say(f"  {enter}ansible-playbook site.yml {_sources_from(project, inventories)}")
    if check and not changes.empty:
        raise typer.Exit(5)


def _sources_from(project: Path, sources: list[str] | None) -> str:
    """The user's inventories as -i arguments for a command inside the project."""
    paths = [
        os.path.relpath(found, project) if isinstance(found, Path) else found
        for found in run.inventories(project, sources or ())
    ]
    return " ".join(f"-i {shlex.quote(path)}" for path in paths)
