"""`provision discover`: asks the hosts what they are, for the lock."""

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
from provision.errors import MachineError
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
        seen={},
    )
    path = project / discover.FILE
    before = inputs.read(path) if path.exists() else b""
    known = discover.parse(before, where=str(path)) if before else {}
    with err.status(f"asking {len(fleet.hosts)} hosts"):
        seen, failed = discover.ask(
            project,
            run.inventory_sources(project.resolve(), inventories or ()),
            list(fleet.hosts),
            catalog=catalog.load(),
            limit=limit,
            forks=forks,
            vault_password_file=vault_password_file,
        )
    data = discover.dump(known | seen)
    changed = data != before
    if changed and seen:
        try:
            tree.write_file(path, data)
        except OSError as error:
            raise MachineError("it cannot be written", where=str(path), got=str(error)) from None
    if as_json:
        hosts = {host: dataclasses.asdict(one) for host, one in seen.items()}
        print_json({"changed": changed and bool(seen), "hosts": hosts, "failed": failed})
    else:
        _tell_discovered(path, seen, failed, known)
        say(f"{path}: {'written' if changed and seen else 'unchanged'}")
    # What the inventory declares is held against it now rather than by the next `lock`.
    discover.with_facts(fleet, seen)
    if failed:
        raise typer.Exit(4)


def _tell_discovered(
    path: Path,
    seen: Mapping[str, discover.Seen],
    failed: Mapping[str, str],
    known: Mapping[str, discover.Seen],
) -> None:
    """The hosts by what they are, then what the catalog doesn't know, then those not reached."""
    alike: dict[str, list[str]] = {}
    for host, one in seen.items():
        alike.setdefault(f"{one.platform or one.system}, {discover.shown(one.gpus)}", []).append(
            host
        )
    for what, hosts in alike.items():
        say(f"{', '.join(hosts)}: {what}")
    for host, one in seen.items():
        if one.platform is None:
            say(f"warning: {host}: the catalog doesn't know {one.system}", err)
        for gpu in one.gpus:
            if gpu.name is None:
                say(f"warning: {host}: the catalog doesn't know the GPU {gpu.id}", err)
    for host, why in failed.items():
        stays = f"; {path.name} keeps what it had" if host in known else ""
        say(f"{host}: not asked{stays}: {why}", err)
