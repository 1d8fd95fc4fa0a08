"""A run's options, and ansible-playbook's arguments for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from provision import home
from provision.errors import InputError

Mode = Literal["plan", "apply", "verify"]


@dataclass(frozen=True)
class Options:
    """Options of `ansible-playbook` under its own names, and our `deep`.

    `inventory`: the tree's `lab` by default. Relative paths start at the working directory.
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


def inventory_sources(tree: Path, inventory: Sequence[str]) -> list[str]:
    """The inventory sources for Ansible: absolute paths, or host lists ("a,b") unchanged.

    Raises InputError for a missing source; Ansible only warns about it and then runs on no host.
    """
    sources = list(inventory)
    if not sources:
        if not (tree / "lab").exists():
            raise InputError(
                "the project has no inventory of its own",
                where=str(tree / "lab"),
                hint="name yours with -i",
            )
        return [str(tree / "lab")]
    resolved = []
    for source in sources:
        path = home.expanded(Path(source))
        # Not in the working directory: perhaps in the project (`-i lab` from anywhere).
        candidates = [path] if path.is_absolute() else [Path.cwd() / path, tree / path]
        existing = [candidate for candidate in candidates if candidate.exists()]
        if not existing and "," in source:
            resolved.append(source)
            continue
        if not existing:
            raise InputError(
                "there is no such inventory",
                where=source,
                expected="a file or folder that Ansible reads as an inventory",
            )
        resolved.append(str(existing[0]))
    return resolved
