"""Finds the project that carries this collection, and reads its lock and its manifest."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

# The collection: <project>/collections/ansible_collections/provision/gpu in a project.
COLLECTION = Path(__file__).resolve().parents[2]


def project_of(playbook: Any) -> Path:
    """The project that carries this collection, else the folder of the playbook started."""
    return carrier() or Path(getattr(playbook, "_basedir", None) or "").resolve()


def carrier() -> Path | None:
    """The project that carries this collection; None where it is installed by itself."""
    # <project>/collections/ansible_collections/provision/gpu; a checkout may lie less deep.
    for path in COLLECTION.parents[3:4]:
        if (path / "stacks").is_dir():
            return path
    return None


def file_name(playbook: Any) -> str:
    """The file that ansible-playbook was started with, without its folder: "site.yml"."""
    return Path(getattr(playbook, "_file_name", None) or "").name


def settle(playbook: Any, project: Path) -> None:
    """Sets `playbook_dir` of this collection's plays to the project.

    Ansible uses the folder of an imported playbook, which is inside the collection: relative paths
    and the group_vars beside site.yml would be looked up there too.
    """
    with contextlib.suppress(AttributeError):  # not one of Ansible's playbooks
        for play in playbook.get_plays():
            if (
                play._included_path
                and Path(play._included_path).resolve() == COLLECTION / "playbooks"
            ):
                play._included_path = str(project)


def lock_file(project: Path, extra_vars: Iterable[Any]) -> Path:
    """The project's lock, or the one that a rollback names in its extra variables."""
    for text in extra_vars:
        match = re.search(r"(?:^|\s)gpu_stacks=(\S+)|\"gpu_stacks\": \"([^\"]+)\"", str(text))
        if match is not None:
            return Path(match.group(1) or match.group(2)) / "gpu_lock.yml"
    return project / "lock.yml"


def read_lock(path: Path) -> dict[str, Any]:
    """The `gpu_lock` of a lock's file; {} where it can't be read."""
    try:
        with path.open("rb") as stream:
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            lock = yaml.load(stream, loader).get("gpu_lock")  # noqa: S506 (both are safe)
    except (OSError, yaml.YAMLError, ValueError, AttributeError):
        return {}
    return lock if isinstance(lock, dict) else {}


def rendered_by(project: Path) -> str | None:
    """The version of provision that rendered this project; None where it is unknown."""
    try:
        text = (project / ".provision-manifest.json").read_text(encoding="utf-8")
        version = json.loads(text).get("provision")
    except (OSError, ValueError, AttributeError):
        return None
    return version if isinstance(version, str) else None
