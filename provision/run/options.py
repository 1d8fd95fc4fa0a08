"""What a run is asked for, as arguments of ansible-playbook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from provision.errors import InputError

Mode = Literal["plan", "apply", "verify"]


@dataclass(frozen=True)
class Options:
    """What a command hands through to `ansible-playbook`, under its names; `deep` is ours.

    `inventory`: without any, the tree's `lab`. Relative paths are relative to where the user is.
    """

    inventory: Sequence[str] = ()
    limit: str | None = None
    tags: Sequence[str] = ()
    skip_tags: Sequence[str] = ()
    extra_vars: Sequence[str] = ()
    ask_become_pass: bool = False
    forks: int | None = None
    vault_password_file: Path | None = None
    deep: bool = False
    extra_args: Sequence[str] = ()


def arguments(options: Options, mode: Mode) -> list[str]:
    """ansible-playbook's arguments behind the playbook's name. Pure."""
    found: list[str] = []
    for source in options.inventory:
        found += ["-i", source]
    found += _of_mode(options, mode)
    if options.limit:
        found += ["--limit", options.limit]
    if options.tags:
        found += ["--tags", ",".join(options.tags)]
    if options.skip_tags:
        found += ["--skip-tags", ",".join(options.skip_tags)]
    if options.deep:
        found += ["-e", "gpu_deep=true"]
    for pair in options.extra_vars:
        found += ["-e", pair]
    if options.ask_become_pass:
        found.append("--ask-become-pass")
    if options.forks is not None:
        found += ["--forks", str(options.forks)]
    if options.vault_password_file is not None:
        found += ["--vault-password-file", str(options.vault_password_file)]
    return [*found, *options.extra_args]


def _of_mode(options: Options, mode: Mode) -> list[str]:
    if mode == "plan":
        return ["--check"]
    if mode == "apply":
        return []
    if options.tags:
        got = ",".join(options.tags)
        raise InputError("verify checks whole hosts, it takes no tags", got=got)
    return ["--tags", "verify", "-e", "gpu_verify=always"]


def inventory_sources(tree: Path, inventory: Sequence[str]) -> list[str]:
    """The sources as Ansible gets them: absolute paths, or host lists ("a,b") as they are.

    Ansible only warns about a source that isn't there and then finds no host to work on.
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
    found = []
    for source in sources:
        path = Path(source).expanduser()
        # What is not where the user is may be in the project: `-i lab` from anywhere.
        candidates = [path] if path.is_absolute() else [Path.cwd() / path, tree / path]
        there = [candidate for candidate in candidates if candidate.exists()]
        if not there and "," in source:
            found.append(source)
            continue
        if not there:
            raise InputError(
                "there is no such inventory",
                where=source,
                expected="a file or folder that Ansible reads as an inventory",
            )
        found.append(str(there[0]))
    return found
