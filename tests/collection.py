"""The checkout as the collection that it is: where its parts are, and how Ansible gets it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision import collection
from provision.run import find_program

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = ROOT / "plugins"
# What the look consists of, and what holds a host for a run.
GPU_STACK = PLUGINS / "module_utils" / "gpu_stack"
# What TensorFlow's own Python runs on hosts for an acceptance.
PROGRAMS = ROOT / "playbooks" / "files" / "acceptance" / "programs"
RUN_LOCK = PLUGINS / "module_utils" / "run_lock"
NAME = "provision.gpu"
# Where Python finds the collection by its name, as Ansible does; scripts/setup makes it.
IMPORTABLE = ROOT / ".venv" / "collections"
# What gives an Ansible the tests' own tasks (`writes_json`).
ACTIONS = {"ANSIBLE_ACTION_PLUGINS": str(ROOT / "tests" / "action_plugins")}
# The oldest ansible-core that we support, which scripts/setup installs beside.
OLDEST = ROOT / ".venv-oldest" / "bin"


def programs(name: str) -> list[Any]:
    """Parameters of a test: the path of a program of the newest and of the oldest ansible-core.

    The oldest's are slow: `make test` tries it on hosts (tests/hosts/test_spine.py).
    """
    newest = pytest.param(str(Path(find_program()).with_name(name)), id="newest")
    oldest = pytest.param(str(OLDEST / name), id="oldest", marks=pytest.mark.slow)
    return [newest, oldest]


def collections(folder: Path) -> Path:
    """`folder` as a collections path in which `provision.gpu` is this checkout."""
    link = folder / "ansible_collections" / "provision" / "gpu"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(ROOT)
    return folder


def writes_json(path: Path, value: Any) -> dict[str, Any]:
    """The task of a play that has ACTIONS: writes a value, or an expression of one, as JSON."""
    return {"write_json": {"path": str(path), "value": value}}


def one_role(role: str, hosts: str = "all", **variables: Any) -> str:
    """A playbook of somebody's with one role of this collection."""
    play = {
        "hosts": hosts, "become": True, "gather_facts": False,
        "roles": [f"provision.gpu.{role}"], "vars": variables,
    }  # fmt: skip
    return yaml.safe_dump([play])


def own_project(folder: Path, inventory: Mapping[str, Any], **roles: str) -> None:
    """Somebody's project with this checkout: hosts.yml, ansible.cfg and a playbook of a role each.

    `roles`: {the playbook's name without its ending: the role}, for the group gpu.
    """
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    (folder / "ansible.cfg").write_text(
        f"[defaults]\ncollections_path = {collections(folder / 'collections')}\n"
        "[ssh_connection]\npipelining = True\n"
        # As in a rendered tree: a virtual machine's network keeps a connection open over a reboot.
        "ssh_args = -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=15\n"
    )
    for name, role in roles.items():
        (folder / f"{name}.yml").write_text(one_role(role, "gpu"), "utf-8")


def tasks_of(play: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tasks of a play in their order, those of its blocks in the place of the block."""
    return [inner for task in play["tasks"] for inner in task.get("block", [task])]


def loaded(path: Path, name: str = "") -> Any:
    """A Python file as a module of its own; `name`: under which it knows itself."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def altered(folder: Path, added: dict[str, str]) -> Path:
    """`folder` as a collections path with a copy of this checkout, and `added` Python.

    `added`: {path below plugins/module_utils: what stands at the file's end}, by which a module
    meets the host that a test says.
    """
    place = folder / "ansible_collections" / "provision" / "gpu"
    place.mkdir(parents=True)
    for path in (ROOT / "galaxy.yml", ROOT / "meta", ROOT / "roles"):
        (place / path.name).symlink_to(path)
    shutil.copytree(PLUGINS, place / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in added.items():
        file = place / "plugins" / "module_utils" / name
        file.write_text(f"{file.read_text('utf-8')}\n\n{text}", "utf-8")
    return folder


def module(
    program: str, name: str, options: dict[str, Any], *more: str, path: Path = IMPORTABLE
) -> tuple[dict[str, Any], str]:
    """(what a module of the collection returns on this machine, all that `program` says).

    `program`: an `ansible`, which gets `more` options.
    """
    done = subprocess.run(
        [program, "localhost", "-m", f"{NAME}.{name}", "-a", json.dumps(options), *more],
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    output = done.stdout + done.stderr
    # Differences stand before the line of the host.
    _before, line, after = done.stdout.partition("localhost | ")
    assert line, output
    answer: dict[str, Any] = json.loads(after.partition("=> ")[2])
    return answer, output


def verify(folder: Path) -> Path:
    """The checks as a project has them, written into it."""
    for path, data in collection.verify().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder / "verify"


def probe() -> str:
    """The probe as a project has it: one program."""
    return collection.verify()["verify/probe.py"].decode()
