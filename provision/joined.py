"""Joins the modules of a package into one program that is piped to a host's Python.

`python3 -` reads one file, and no package is installed on a host to look at it. The modules are
written one below the other, each with its comments, without their relative imports.
"""

from __future__ import annotations

import ast
from pathlib import Path


def join(package: Path) -> str:
    """The modules of a package as one program, each behind those that it imports from.

    Its docstring is the package's. ValueError for a relative import of anything but a module's
    names, and for one name in two modules.
    """
    sources = {path.stem: path.read_text(encoding="utf-8") for path in package.glob("*.py")}
    docstring = ast.get_docstring(ast.parse(sources.pop("__init__")), clean=False)
    imports: set[str] = set()
    bodies: list[str] = []
    owners: dict[str, str] = {}
    for name in _in_order({name: _needs(name, text) for name, text in sources.items()}):
        own, body = _parts(sources[name])
        imports |= own
        for defined in _names(ast.parse(body)):
            if owners.setdefault(defined, name) != name:
                raise ValueError(f"{defined} is in {owners[defined]} and {name}")
        bodies.append(f"\n\n# --- {name}\n\n{body}")
    head = f'"""{docstring}"""\n\nfrom __future__ import annotations\n\n'
    return head + "\n".join(sorted(imports)) + "\n" + "".join(bodies)


def _needs(name: str, text: str) -> list[str]:
    """The modules of the package that a module imports names from."""
    needed = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            if node.level != 1 or not node.module or any(alias.asname for alias in node.names):
                raise ValueError(f"{name}: can't be joined: {ast.unparse(node)}")
            needed.append(node.module)
    return needed


def _in_order(needs: dict[str, list[str]]) -> list[str]:
    """The modules by name, each behind those that it needs; `look`, which calls all, is last."""
    order: list[str] = []

    def add(name: str) -> None:
        if name not in order:
            for needed in sorted(needs[name]):
                add(needed)
            order.append(name)

    for name in sorted(needs, key=lambda name: (name == "look", name)):
        add(name)
    return order


def _parts(text: str) -> tuple[set[str], str]:
    """(a module's absolute imports, the text behind all its imports)."""
    imports = set()
    end = 0
    body = ast.parse(text).body
    for node in body:
        is_docstring = node is body[0] and isinstance(node, ast.Expr)
        if not is_docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            break
        end = node.end_lineno or 0
        if isinstance(node, ast.Import) or (
            isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__"
        ):
            imports.add(ast.unparse(node))
    return imports, "\n".join(text.splitlines()[end:]).strip("\n") + "\n"


def _names(tree: ast.Module) -> list[str]:
    """The names that a module defines."""
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names
