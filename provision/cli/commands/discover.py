"""`provision discover`: asks the hosts for their system and GPUs, for the lock."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from provision import catalog, inputs, run, tree
from provision.cli import projects
from provision.cli.console import err, print_json, say
from provision.cli.options import (
    InventoryOption,
    JsonOption,
    NoPrefixWarnings,
    ProjectOption,
    VaultOption,
)
from provision.inventory import discover


def discover_hosts(
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    limit: Annotated[
        str | None, typer.Option("--limit", "-l", metavar="PATTERN", help="As with Ansible.")
    ] = None,
    forks: Annotated[
        int | None, typer.Option("--forks", "-f", metavar="N", help="As with Ansible.", min=1)
    ] = None,
    vault_password_file: VaultOption = None,
    no_prefix_warnings: NoPrefixWarnings = False,
    as_json: JsonOption = False,
) -> None:
    """Ask the hosts what they are: discovered.yml, for the lock.

    Changes nothing on them. Exit code 4 if a host could not be asked; what was known of it stays.
    """
    fleet = projects.read_fleet(
        project,
        inventories,
        vault_password_file=vault_password_file,
        quiet=no_prefix_warnings,
        discovered={},
    )
    path = project / discover.FILE
    before = inputs.read(path) if path.exists() else b""
    former = discover.parse(before, where=str(path)) if before else {}
    with err.status(f"asking {len(fleet.hosts)} hosts"):
        answers, failed = discover.ask(
            project,
            run.inventory_sources(project.resolve(), inventories or ()),
            list(fleet.hosts),
            catalog=catalog.load(),
            limit=limit,
            forks=forks,
            vault_password_file=vault_password_file,
        )
    data = discover.dump(former | answers)
    changed = data != before
    if changed and answers:
        with tree.writing(path):
            tree.write_file(path, data)
    if as_json:
        hosts = {host: dataclasses.asdict(answer) for host, answer in answers.items()}
        print_json({"changed": changed and bool(answers), "hosts": hosts, "failed": failed})
    else:
        _tell_discovered(path, answers, failed, former)
        say(f"{path}: {'written' if changed and answers else 'unchanged'}")
    # Compared with the inventory's declarations now, before the next `lock` does.
    discover.with_facts(fleet, answers)
    if failed:
        raise typer.Exit(4)


def _tell_discovered(
    path: Path,
    answers: Mapping[str, discover.Seen],
    failed: Mapping[str, str],
    former: Mapping[str, discover.Seen],
) -> None:
    """Prints the hosts by system and GPUs, what the catalog doesn't know, and the failures."""
    alike: dict[str, list[str]] = {}
    for host, answer in answers.items():
        system = answer.platform or answer.system
        alike.setdefault(f"{system}, {discover.shown(answer.gpus)}", []).append(host)
    for description, hosts in alike.items():
        say(f"{', '.join(hosts)}: {description}")
    for host, answer in answers.items():
        if answer.platform is None:
            say(f"warning: {host}: the catalog doesn't know {answer.system}", err)
        for gpu in answer.gpus:
            if gpu.name is None:
                say(f"warning: {host}: the catalog doesn't know the GPU {gpu.id}", err)
    for host, why in failed.items():
        stays = f"; {path.name} keeps what it had" if host in former else ""
        say(f"{host}: not asked{stays}: {why}", err)
