"""Finds the project that carries this collection, and reads its lock and its manifest."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.parsing.splitter import parse_kv
from ansible.parsing.utils.yaml import from_yaml

# The collection: <project>/collections/ansible_collections/provision/gpu in a project.
COLLECTION = Path(__file__).resolve().parents[2]
PLAYBOOKS = COLLECTION / "playbooks"
# What `provision render` writes into a project.
STACKS = "stacks"
# ansible-playbook's own exit code for options that are wrong.
BAD_OPTIONS = 5


class NoProjectError(Exception):
    """There is no project for a run's report and lock; the message says how to have one."""


def project_of(folder: str) -> Path:
    """The project of a run whose playbook lies in `folder`: for its report, lock and checks.

    That is the one that carries this collection, else the playbook's folder; of the collection's
    own playbooks, as in `ansible-playbook provision.gpu.accept`, the current directory. Raises
    NoProjectError where that is none.
    """
    # <project>/collections/ansible_collections/provision/gpu; a checkout may lie less deep.
    for carrier in COLLECTION.parents[3:4]:
        if (carrier / STACKS).is_dir():
            return carrier
    started = Path(folder).resolve()
    if started != PLAYBOOKS:
        return started
    here = Path.cwd()
    if not (here / STACKS).is_dir():
        raise NoProjectError(
            f"{here} is no project: there is no {STACKS}/ in it, and a playbook of the collection "
            "itself has no other place for its report. Start it in a project that `provision "
            "render` made, or import it in a playbook of your own: "
            "`- ansible.builtin.import_playbook: provision.gpu.accept`"
        )
    return here


def of_play(task_vars: Mapping[str, Any]) -> Path:
    """The project of the play whose variables these are."""
    return project_of(str(task_vars.get("playbook_dir") or "."))


def of_run(playbook: Any, refuse: Callable[[str], None]) -> Path:
    """The project of the run that begins with this playbook; ends it where there is none.

    `refuse`: shows why. Ansible goes on after any other error of a callback.
    """
    try:
        return project_of(getattr(playbook, "_basedir", None) or "")
    except NoProjectError as error:
        refuse(f"{error}. No host was touched.")
        raise SystemExit(BAD_OPTIONS) from None


def file_name(playbook: Any) -> str:
    """The file that ansible-playbook was started with, without its folder: "site.yml"."""
    return Path(getattr(playbook, "_file_name", None) or "").name


def settle(playbook: Any, project: Path) -> None:
    """Sets `playbook_dir` of this collection's plays to the project.

    Ansible uses the folder of a play's own playbook, which is inside the collection: relative paths
    and the group_vars beside site.yml would be looked up there too.
    """
    with contextlib.suppress(AttributeError):  # not one of Ansible's playbooks
        for play in playbook.get_plays():
            if Path(play._included_path or playbook._basedir).resolve() == PLAYBOOKS:
                play._included_path = str(project)


def lock_file(project: Path, extra_vars: Iterable[Any]) -> Path:
    """The project's lock, or the one that a rollback names in its extra variables."""
    variables: dict[str, Any] = {}
    for given in extra_vars:
        text = str(given)
        if not text.startswith("@"):  # no rollback's
            read = from_yaml if text.startswith("{") else parse_kv
            variables.update(read(text))
    stacks = variables.get("gpu_stacks")
    return Path(stacks) / "gpu_lock.yml" if stacks else project / "lock.yml"


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
