"""`provision roles sync`: writes the generated files of this repository."""

from __future__ import annotations

from typing import Annotated

import typer

from provision import catalog, collection, tree
from provision.cli.console import say
from provision.render import collection as rendered
from provision.render import example, host_tables, registered, shipped_files, spec
from provision.roles import ALL

roles_app = typer.Typer(hidden=True, no_args_is_help=True)


@roles_app.command("sync")
def roles_sync(
    check: Annotated[bool, typer.Option("--check", help="Exit 5 if anything differs.")] = False,
) -> None:
    """Write what is rendered of the collection, and inventories/lab."""
    base = collection.root()
    generated = rendered.generated() | host_tables.render(catalog.load())
    generated |= registered.render() | shipped_files.render(base)
    generated[f"provision/{rendered.CHECKS_OPTIONS}"] = generated[rendered.OPTIONS]
    generated |= {
        f"inventories/{path}": data
        for path, data in example.render("lab").items()
        if path.startswith("lab/")
    }
    for role in ALL:
        files = spec.render(role)
        page = f"roles/{role.name}/README.md"
        text = (base / page).read_text(encoding="utf-8") if (base / page).exists() else ""
        files[page] = spec.readme(role, text or f"# {role.name}\n").encode()
        generated |= files
    stale = []
    for path, data in generated.items():
        target = base / path
        if not target.exists() or target.read_bytes() != data:
            stale.append(path)
            if not check:
                tree.write_file(target, data)
    for path in stale:
        say(path)
    if check and stale:
        raise typer.Exit(5)
