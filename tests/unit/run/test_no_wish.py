"""`gpu_stack: null`, which takes one host out of a group's wish, is no wish in a run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from ansible_collections.provision.gpu.plugins.plugin_utils import hosts

from tests.collection import ROOT, collections

WISHES: dict[str, Any] = {
    "gpu01": {"gpu_stack": {"tensorflow": "2.9"}},
    "out": {"gpu_stack": None},
    "desk": {},
}


def wished(play: dict[str, Any]) -> list[dict[str, Any]]:
    """The tasks of a play that ask whether a host has a wish."""
    return [task for task in play.get("tasks", []) if "gpu_stack" in str(task.get("when", ""))]


def plays() -> list[dict[str, Any]]:
    """Of each playbook the play that ends a host without a wish, to that task."""
    made = []
    for name in ("site", "accept", "doctor"):
        read = yaml.safe_load((ROOT / "playbooks" / f"{name}.yml").read_text("utf-8"))
        found = [(play, wished(play)) for play in read]
        play, ends = next((play, ends) for play, ends in found if ends)
        said = f"{{{{ '{name} ' ~ inventory_hostname ~ ' ' ~ __gpu_wished | default('') }}}}"
        left = {"name": "What is left", "ansible.builtin.debug": {"msg": said}}
        changed = {"hosts": "all", "serial": "100%", "become": False, "tasks": [*ends, left]}
        made.append({**play, **changed})
    return made


def test_the_playbooks_leave_such_a_host_alone(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": WISHES}}))
    (tmp_path / "site.yml").write_text(yaml.safe_dump(plays()))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", "hosts.yml", "site.yml"],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(collections(tmp_path / "collections")),
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    went_on = re.findall(r'"msg": "(.*)"', done.stdout)
    assert went_on == ["site gpu01 ['gpu01']", "accept gpu01 ", "doctor gpu01 "], done.stdout


def test_it_is_none_of_the_hosts_that_were_not_begun() -> None:
    known = [SimpleNamespace(get_name=lambda name=name: name) for name in WISHES]
    inventory = SimpleNamespace(get_hosts=lambda *_a, **_k: known)
    manager = SimpleNamespace(
        _inventory=inventory, get_vars=lambda host, **_k: WISHES[host.get_name()]
    )
    play = SimpleNamespace(hosts="all", get_variable_manager=lambda: manager)
    assert hosts.not_begun(play, set()) == ["gpu01"]
