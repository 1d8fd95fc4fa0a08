"""A run's options, and ansible-playbook's arguments for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from provision.errors import InputError

Mode = Literal["plan", "apply", "verify"]


@dataclass(frozen=True)
class Options:
    """Options of `ansible-playbook` under its own names, and our `deep`.

    `inventory`: the tree's `lab` by default, else as `inventories` finds it.
    `hosts`: these alone, however many, whatever `limit` says.
    """

    inventory: Sequence[str] = ()
    limit: str | None = None
    hosts: Sequence[str] = ()
    tags: Sequence[str] = ()
    skip_tags: Sequence[str] = ()
    extra_vars: Sequence[str] = ()
    ask_become_pass: bool = False
    forks: int | None = None
    vault_password_file: Path | None = None
    deep: bool = False
    extra_args: Sequence[str] = ()


def arguments(options: Options, mode: Mode) -> list[str]:
    """ansible-playbook's arguments after the playbook's name. Pure."""
    command_line: list[str] = []
    for source in options.inventory:
        command_line += ["-i", source]
    command_line += _mode_arguments(options, mode)
    if options.limit:
        command_line += ["--limit", options.limit]
    if options.tags:
        command_line += ["--tags", ",".join(options.tags)]
    if options.skip_tags:
        command_line += ["--skip-tags", ",".join(options.skip_tags)]
    if options.deep:
        command_line += ["-e", "gpu_deep=true"]
    for pair in options.extra_vars:
        command_line += ["-e", pair]
    if options.ask_become_pass:
        command_line.append("--ask-become-pass")
    if options.forks is not None:
        command_line += ["--forks", str(options.forks)]
    if options.vault_password_file is not None:
        command_line += ["--vault-password-file", str(options.vault_password_file)]
    return [*command_line, *options.extra_args]


def _mode_arguments(options: Options, mode: Mode) -> list[str]:
    if mode == "plan":
        return ["--check"]
    if mode == "apply":
        return []
    if options.tags:
        got = ",".join(options.tags)
        raise InputError("verify checks whole hosts, it takes no tags", got=got)
    return ["--tags", "verify", "-e", "gpu_verify=always"]


def inventories(project: Path, given: Sequence[str]) -> list[Path | str]:
    """What -i names, by default the project's `lab`: existing paths, and lists of hosts ("a,b").

    Raises InputError for a missing one; Ansible only warns about it and then runs on no host.
    """
    if given:
        return [_inventory(project, source) for source in given]
    if not (project / "lab").exists():
        raise InputError(
            "the project has no inventory of its own",
            where=str(project / "lab"),
            hint="name yours with -i; `provision init DIRECTORY` writes an example",
        )
    return [project / "lab"]


def _inventory(project: Path, source: str) -> Path | str:
    # By os.path, where a name too long and a person unknown are no errors, as they are with Path.
    path = Path(os.path.expanduser(source))
    # Not in the working directory: perhaps in the project (`-i lab` from anywhere).
    for candidate in (path, project / path):
        if source and os.path.exists(candidate):  # "" would be the current directory
            return candidate
    # A folder may have a comma in its name; what does not exist is a list of hosts.
    if "," in source:
        return source
    raise InputError(
        "there is no such inventory",
        where=source or "-i ''",
        expected="a file or folder that Ansible reads as an inventory",
        hint="`provision init DIRECTORY` writes an example",
    )


def inventory_sources(project: Path, given: Sequence[str]) -> list[str]:
    """`inventories` for an Ansible that runs in another folder: absolute paths, or host lists.

    Links are not resolved: Ansible reads group_vars beside the link.
    """
    found = inventories(project, given)
    return [os.path.abspath(one) if isinstance(one, Path) else one for one in found]
