"""Where the project is that carries this collection, and what it says of itself."""

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
    # <project>/collections/ansible_collections/provision/gpu; a checkout may lie less deep.
    for carrier in COLLECTION.parents[3:4]:
        if (carrier / "stacks").is_dir():
            return carrier
    return Path(getattr(playbook, "_basedir", None) or "").resolve()


def settle(playbook: Any, project: Path) -> None:
    """Makes the project the home of this collection's plays.

    Ansible takes the folder of an imported playbook for that, which here is inside the collection:
    `playbook_dir`, relative paths and the group_vars beside site.yml would all lead there.
    """
    with contextlib.suppress(AttributeError):  # of a playbook that is none of Ansible's
        for play in playbook.get_plays():
            if (
                play._included_path
                and Path(play._included_path).resolve() == COLLECTION / "playbooks"
            ):
                play._included_path = str(project)


def lock_file(project: Path, extra_vars: Iterable[Any]) -> Path:
    """The project's lock, or the one that a rollback names in its extra variables."""
    for text in extra_vars:
        found = re.search(r"(?:^|\s)gpu_stacks=(\S+)|\"gpu_stacks\": \"([^\"]+)\"", str(text))
        if found is not None:
            return Path(found.group(1) or found.group(2)) / "gpu_lock.yml"
    return project / "lock.yml"


def read_lock(path: Path) -> dict[str, Any]:
    """What a lock's file says; {} where it can't be read."""
    try:
        with path.open("rb") as stream:
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            lock = yaml.load(stream, loader).get("gpu_lock")  # noqa: S506 (both are safe)
    except (OSError, yaml.YAMLError, ValueError, AttributeError):
        return {}
    return lock if isinstance(lock, dict) else {}


def rendered_by(project: Path) -> str | None:
    """The version of provision that rendered this project."""
    try:
        text = (project / ".provision-manifest.json").read_text(encoding="utf-8")
        version = json.loads(text).get("provision")
    except (OSError, ValueError, AttributeError):
        return None
    return version if isinstance(version, str) else None
