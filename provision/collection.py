"""Reads what lies beside the program and goes elsewhere unchanged: collection, checks, pages.

In a checkout the collection `provision.gpu` is the repository's root, in a wheel it is in
`provision/_collection`. A tree has it where Ansible looks for collections.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from provision import joined
from provision.errors import MachineError

_PACKAGE = Path(__file__).parent
_SKIP = {"__pycache__", ".pytest_cache"}

# The collection's parts of the repository; pyproject.toml puts the same into the wheel.
PARTS = ("galaxy.yml", "meta", "playbooks", "plugins", "roles")
# The collection's folder in a tree.
IN_TREE = "collections/ansible_collections/provision/gpu/"


def root() -> Path:
    """The root of the collection; MachineError when this installation has none."""
    for candidate in (_PACKAGE / "_collection", _PACKAGE.parent):
        if (candidate / "galaxy.yml").is_file() and (candidate / "roles").is_dir():
            return candidate
    raise MachineError(
        "this installation of provision has no Ansible collection",
        where=str(_PACKAGE),
        hint="install it again: pip install --force-reinstall provision",
    )


def module_utils() -> Path:
    """The folder of the Python that runs on hosts, with `gpu_stack` in it."""
    return root() / "plugins" / "module_utils"


def module(*path: str) -> ModuleType:
    """One module of the collection's `plugins`, without its package: that would load much more."""
    file = (root() / "plugins").joinpath(*path)
    spec = importlib.util.spec_from_file_location("provision_collection_" + "_".join(path), file)
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def stack_module(name: str) -> Any:
    """A module of `gpu_stack`, with its package, as hosts import it: "doctor.findings"."""
    place = str(module_utils())
    if place not in sys.path:
        sys.path.append(place)
    return importlib.import_module(f"gpu_stack.{name}")


def documented_options(documentation: Mapping[str, Any]) -> dict[str, Any]:
    """A module's options as its documentation describes them, with those of its fragments."""
    options: dict[str, Any] = {}
    for name in documentation.get("extends_documentation_fragment") or ():
        fragment = module("doc_fragments", name.rpartition(".")[2] + ".py").ModuleDocFragment
        options |= yaml.safe_load(fragment.DOCUMENTATION).get("options", {})
    return options | (documentation.get("options") or {})


def read() -> dict[str, bytes]:
    """Path in the tree -> bytes, of the collection and the checks."""
    files: dict[str, bytes] = {}
    start = root()
    for part in PARTS:
        files |= _read(start / part, IN_TREE + part)
    return files | verify()


def documentation() -> dict[str, bytes]:
    """Path -> bytes, of the pages in docs. In a wheel they are in `provision/_docs`."""
    folder = _PACKAGE / "_docs"
    return _read(folder if folder.is_dir() else _PACKAGE.parent / "docs", "")


def verify() -> dict[str, bytes]:
    """Path in the tree -> bytes, of the checks. The probe is one file, which is piped to hosts."""
    folder = _PACKAGE / "verify"
    files = {
        path: data
        for path, data in _read(folder, "verify").items()
        if not path.startswith("verify/probe/")
    }
    return files | {"verify/probe.py": joined.join(folder / "probe").encode()}


def _read(start: Path, prefix: str) -> dict[str, bytes]:
    if start.is_file():
        return {prefix: start.read_bytes()}
    files = {}
    for path in sorted(start.rglob("*")):
        relative = path.relative_to(start)
        if path.is_file() and not _SKIP & set(relative.parts) and path.suffix != ".pyc":
            files[f"{prefix}/{relative.as_posix()}".lstrip("/")] = path.read_bytes()
    return files
