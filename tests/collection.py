"""The checkout as the collection that it is: where its parts are, and how Ansible gets it."""

from __future__ import annotations

from pathlib import Path

from provision import collection

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = ROOT / "plugins"
# What the look consists of, and what holds a host for a run.
GPU_STACK = PLUGINS / "module_utils" / "gpu_stack"
RUN_LOCK = PLUGINS / "module_utils" / "run_lock"
NAME = "provision.gpu"
# Where Python finds the collection by its name, as Ansible does; scripts/setup makes it.
IMPORTABLE = ROOT / ".venv" / "collections"


def collections(folder: Path) -> Path:
    """`folder` as a collections path in which `provision.gpu` is this checkout."""
    link = folder / "ansible_collections" / "provision" / "gpu"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(ROOT)
    return folder


def verify(folder: Path) -> Path:
    """The checks as a project has them, written into it."""
    for path, data in collection.verify().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder / "verify"


def probe() -> str:
    """The probe as a project has it: one program."""
    return collection.verify()["verify/probe.py"].decode()
