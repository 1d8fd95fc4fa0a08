"""Imports inside `provision` point one way: errors <- models, catalog, inventory <- ... <- cli."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "provision"

# What each part may import of its own package, besides itself. `tree` and `run` know none of the
# generator: they work on any tree of files. `cli` knows all. A module of a package that needs more
# than the rest of it, or that others may import alone, has a line of its own.
ALLOWED: dict[str, set[str]] = {
    "__init__": set(),
    "errors": set(),
    "models": {"errors"},
    # Reading and writing files of some size, for whoever has them.
    "yaml_text": set(),
    "inputs": {"errors", "yaml_text"},
    # Which components there are, as the collection says it.
    "registry": {"collection"},
    "locales": {"errors"},
    "ending": {"errors"},
    # Where the user's own files are.
    "home": {"errors"},
    # The registry names the components whose facts have files of their own.
    "catalog": {"errors", "models", "yaml_text", "registry"},
    # What a host is, is said in the catalog's words: ids of platforms, names of GPUs.
    "inventory": {"errors", "models", "catalog", "inputs", "locales", "registry"},
    # Asks hosts with the Ansible that `run` finds.
    "inventory.discover": {
        *("errors", "models", "catalog", "inputs", "inventory", "run", "yaml_text"),
    },
    # Some judge several words of an inventory together.
    "roles": {"errors", "models", "catalog", "inventory", "lock", "collection", "registry"},
    # The registry names the components whose candidates have files of their own.
    "resolve": {"errors", "models", "catalog", "inventory", "registry"},
    # Pure, given fetched indices.
    "lock": {
        *("errors", "models", "catalog", "inventory", "resolve", "inputs", "yaml_text"),
        *("registry", "upstream.packages", "upstream.closure", "upstream.mirrors"),
    },
    # The index of wheels, asked of several stacks at once.
    "lock.requirements": {"errors", "resolve", "lock", "upstream"},
    # Asks a host with the Ansible that `run` finds.
    "lock.from_host": {"errors", "models", "lock", "run"},
    # The one place beside `cli` that brings the network and the pure parts together.
    "lock.update": {
        *("errors", "models", "catalog", "inventory", "resolve", "lock", "lock.requirements"),
        *("upstream", "upstream.packages", "upstream.mirrors", "home"),
    },
    # Which hosts the installed ansible-core can't manage.
    "ansible_core": {
        *("errors", "models", "catalog", "inventory", "resolve", "lock", "collection"),
    },
    # What a lock is made of, from the network or a mirror.
    "upstream": {
        *("__init__", "errors", "catalog"),
        *("upstream.packages", "upstream.closure", "upstream.mirrors", "upstream.keys"),
    },
    # Pure: parsed indices in, versions out.
    "upstream.packages": {"catalog", "errors"},
    "upstream.closure": {"errors", "upstream.packages"},
    # Pure but for the keys that it reads; what helps where the archive has moved on. How a login is
    # taken out of an address, hosts know too.
    "upstream.mirrors": {"errors", "catalog", "collection", "upstream.keys"},
    "upstream.keys": {"errors"},
    # Asks hosts with the Ansible that `run` finds.
    "rollback": {"errors", "inputs", "lock", "run"},
    "render": {
        *("__init__", "errors", "models", "catalog", "inventory"),
        *("resolve", "lock", "registry", "roles", "collection", "yaml_text"),
    },
    # Modules that are piped to hosts are joined into one program.
    "joined": set(),
    "collection": {"errors", "joined"},
    # A log is judged by the rules that lie in the collection.
    "doctor": {"collection", "report"},
    # Reads the verdicts that a run left in its project.
    "acceptance": {"collection", "errors", "inputs", "report"},
    # Text for people; its scripts run on hosts.
    "examples": {"errors"},
    # Reads what accept and the runs left in a project; names are compared as an inventory's.
    "evidence": {
        *("__init__", "errors", "inputs", "inventory", "lock", "report", "acceptance", "signing"),
    },
    # Files by their hashes, from wherever they are at hand.
    "bundle": {
        *("errors", "inputs", "catalog", "collection", "lock"),
        *("upstream", "upstream.packages"),
    },
    # Pure: files for a cluster, from the lock. What an image needs is known where it was before:
    # packages of a Python, sources of apt, options and their defaults.
    "kubernetes": {
        *("errors", "catalog", "collection", "lock", "bundle", "render", "roles", "yaml_text"),
    },
    # By ssh-keygen, for whoever has bytes to sign.
    "signing": {"errors", "inputs"},
    "tree": {"errors", "inputs"},
    # What cures a host that can not be reached stands in the collection, which ends a run with it.
    "report": {"__init__", "errors", "inputs", "registry", "collection"},
    "run": {"errors", "home", "locales", "report"},
    "verify": set(),
    "locallab": {"__init__", "errors", "home"},
}


def part_of(pieces: Sequence[str]) -> str:
    """The part that a module (without `provision`) belongs to: its own line, or its package's."""
    for length in range(len(pieces), 0, -1):
        name = ".".join(pieces[:length])
        if name in ALLOWED:
            return name
    name = pieces[0] if pieces else "__init__"
    return "__init__" if name.startswith("__") and name != "__main__" else name


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that a statement imports; a name from a module stands behind it."""
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names]


def edges() -> set[tuple[str, str]]:
    """Every (importing part, imported part) inside the package, from the sources' own imports."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] == "_collection":
            continue  # shipped to the tree or to hosts; not part of the program
        part = part_of(relative.with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            if isinstance(node, ast.ImportFrom) and node.level:
                if part == "verify":
                    continue  # its package is called `verify` in the tree
                pytest.fail(f"{relative}: relative import; write it absolute")
            for module in imported(node):
                pieces = module.split(".")
                target = part_of(pieces[1:])
                if pieces[0] == "provision" and target != part:
                    found.add((part, target))
    return found


def test_only_allowed_edges_exist() -> None:
    """A new edge is a decision: it belongs into ALLOWED, with a reason, or it is a mistake."""
    wrong = sorted(
        f"{a} -> {b}" for a, b in edges() if a not in {"cli", "__main__"} and b not in ALLOWED[a]
    )
    assert not wrong, wrong


def test_nothing_imports_the_command_line() -> None:
    """`cli` is the only place that prints and exits; nobody may depend on it."""
    assert not [a for a, b in edges() if b == "cli" and a != "__main__"]


def test_only_the_command_line_prints() -> None:
    """print() elsewhere would break `--json` and the live view."""
    for path in PACKAGE.rglob("*.py"):
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] in {"cli", "_collection", "verify"} or "scripts" in relative.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in {"print", "input", "exit"}
            ), f"{relative}:{node.lineno}"
