"""Packs the look's sources for a host's standard input: the modules of `gpu_stack` it imports."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "module_utils" / "gpu_stack"
FIRST = "gpu_stack.look"
# `from ..host import dpkg, regular`: in the package only relative imports reach into it.
IMPORT = re.compile(r"^ *from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.M)
# What annotations alone need; hosts skip it. Its lines stay, for tracebacks.
TYPES = re.compile(r"^if TYPE_CHECKING:\n(?: +.*\n|\n)*", re.M)


def sources(doctor: bool = False) -> dict[str, str]:
    """{module: source text} of what the look imports; a package's own name ends in __init__.

    The doctor's modules only with `doctor`.
    """
    texts: dict[str, str] = {}
    names = [FIRST]
    while names:
        name = names.pop()
        path = PACKAGE.parent.joinpath(*name.split("."))
        package = path.is_dir()
        module = name + ".__init__" if package else name
        file = path / "__init__.py" if package else path.with_suffix(".py")
        needed = doctor or not any(part.startswith("doctor") for part in name.split("."))
        if module in texts or not needed or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8")
        texts[module] = TYPES.sub(lambda block: "\n" * block[0].count("\n"), text)
        names += [name.rpartition(".")[0], *_imported(name, package, texts[module])]
    return texts


def _imported(name: str, package: bool, text: str) -> list[str]:
    """Full names of a module's relative imports: modules, and names that may be modules."""
    imported = []
    for dots, base, words in IMPORT.findall(text):
        parts = name.split(".")
        parts = parts[: len(parts) - len(dots) + (1 if package else 0)]
        start = ".".join([*parts, *([base] if base else [])])
        imported += [start, *(f"{start}.{word}" for word in re.findall(r"\w+", words))]
    return imported


def packed(doctor: bool = False) -> str:
    """The sources as base64 of deflated JSON."""
    data = json.dumps(sources(doctor)).encode("utf-8")
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")
