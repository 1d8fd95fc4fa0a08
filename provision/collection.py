"""Reads the files that every tree gets as they are: the Ansible collection and the checks.

In a checkout the collection `provision.gpu` is the repository's root, in a wheel it lies in
`provision/_collection`. A tree carries it where Ansible looks for collections.
"""

from __future__ import annotations

from pathlib import Path

from provision import joined
from provision.errors import MachineError

_PACKAGE = Path(__file__).parent
_SKIP = {"__pycache__", ".pytest_cache"}

# What of the repository is the collection; pyproject.toml puts the same into the wheel.
PARTS = ("galaxy.yml", "meta", "playbooks", "plugins", "roles")
# Where it lies in a tree.
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


def roles_directory() -> Path:
    """Where the Ansible roles are."""
    return root() / "roles"


def module_utils() -> Path:
    """Where the Python that runs on hosts is, and `gpu_stack` in it."""
    return root() / "plugins" / "module_utils"


def read() -> dict[str, bytes]:
    """Path in the tree -> bytes."""
    files: dict[str, bytes] = {}
    start = root()
    for part in PARTS:
        files |= _read(start / part, IN_TREE + part)
    return files | verify()


def verify() -> dict[str, bytes]:
    """The checks of a tree: path in it -> bytes. Its probe is one file, to be piped to hosts."""
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
    found = {}
    for path in sorted(start.rglob("*")):
        relative = path.relative_to(start)
        if path.is_file() and not _SKIP & set(relative.parts) and path.suffix != ".pyc":
            found[f"{prefix}/{relative.as_posix()}"] = path.read_bytes()
    return found
