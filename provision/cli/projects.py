"""Reads a project's directory: inventory, discovered.yml, lock; and keeps its former locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from provision import inputs, inventory, rollback, run, tree
from provision import lock as locks
from provision.cli.console import err, say, shell_word
from provision.errors import InputError
from provision.inventory import discover
from provision.inventory.sources import VARIABLES
from provision.inventory.sources import read as read_sources
from provision.render import stacks
from provision.roles import JUDGES, PREFIXES, all_options


def read_fleet(
    project: Path,
    sources: Sequence[str] | None,
    *,
    vault_password_file: Path | None = None,
    quiet: bool,
    discovered: Mapping[str, discover.Seen] | None = None,
) -> inventory.Fleet:
    """The project's hosts with their wishes and facts; warnings go to stderr.

    The facts are discovered.yml's, or `discovered` where that is given. Ansible runs in the
    project, so that its ansible.cfg is used; `sources` are as `run.inventories` finds them.
    """
    if not project.is_dir():
        raise InputError(
            "no such project",
            where=str(project),
            hint=f"`provision init {shell_word(project)}` starts one",
        )
    given = sources or ()
    paths = [path for path in run.inventories(project, given) if isinstance(path, Path)]
    extra = (
        ["--vault-password-file", str(vault_password_file.resolve())] if vault_password_file else []
    )
    # Ansible reads these for a playbook of the project, whatever its inventory.
    paths += [path for name in VARIABLES if (path := project / name).is_dir()]
    inputs.check_inventory(paths)
    files = read_sources(paths)
    listed = run.inventory_sources(project, given)
    export = inventory.read_export(listed, cwd=project, extra=extra, texts=files)
    effective = partial(inventory.read_effective, listed, cwd=project, extra=extra)
    words = inventory.Words(all_options(), PREFIXES, JUDGES)
    fleet = inventory.parse(export, words, files, effective)
    facts = read_discovered(project) if discovered is None else discovered
    fleet = discover.with_facts(fleet, facts)
    if not quiet:
        for warning in fleet.warnings:
            say(f"warning: {warning}", err)
    if not fleet.hosts:
        raise InputError(
            "no host has a gpu_stack",
            where=", ".join(sources or [str(project / "lab")]),
            expected='gpu_stack: {tensorflow: "2.9"} in a group or host',
        )
    return fleet


def read_discovered(project: Path) -> dict[str, discover.Seen]:
    """The answers in discovered.yml; {} without the file."""
    path = project / discover.FILE
    try:
        data = inputs.read(path)
    except FileNotFoundError:
        return {}
    return discover.parse(data, where=str(path))


def read_lock(project: Path) -> locks.Lock:
    """The project's lock. InputError without one."""
    path = project / "lock.yml"
    try:
        data = inputs.read(path)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            "there is no lock yet",
            where=str(path),
            hint=f"`provision lock --project {shell_word(project)}`",
        ) from None
    return locks.parse(data, where=str(path))


def keep_lock(project: Path, former: locks.Lock) -> Path:
    """Keeps a former lock and its rendered stacks for a rollback; returns their folder."""
    folder = rollback.place(project, former.digest)
    files = {"lock.yml": locks.dump(former), **stacks.render(former, folder="")}
    for name, data in files.items():
        if not (folder / name).exists() or inputs.read(folder / name) != data:
            tree.write_file(folder / name, data)
    return folder
