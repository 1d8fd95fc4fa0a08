"""A cache that can't be reached is said; it ends its own playbook, and no run of other hosts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from provision.run import find_program
from tests.collection import IMPORTABLE, ROOT

# Port 9 of this machine: nobody listens there.
CACHE = {"gpu_cache": {"hosts": {"cache01": {"ansible_host": "127.0.0.1", "ansible_port": 9}}}}
OTHERS = {"others": {"hosts": {"gpu01": {"ansible_connection": "local"}}}}
ALONE: dict[str, Any] = {"ansible.builtin.import_playbook": "provision.gpu.cache"}
BEFORE_HOSTS = {**ALONE, "vars": {"__gpu_cache_before_hosts": True}}
TURN = {
    "hosts": "others",
    "gather_facts": False,
    "tasks": [{"ansible.builtin.debug": {"msg": "gpu01 has its turn"}}],
}


def played(
    folder: Path, inventory: dict[str, Any], *plays: dict[str, Any]
) -> subprocess.CompletedProcess[str]:
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), "utf-8")
    (folder / "play.yml").write_text(yaml.safe_dump(list(plays)), "utf-8")
    (folder / "ansible.cfg").write_text(f"[defaults]\ncollections_path = {IMPORTABLE}\n", "utf-8")
    return subprocess.run(
        [find_program(), "-i", "hosts.yml", "play.yml"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_its_own_playbook_fails(tmp_path: Path) -> None:
    done = played(tmp_path, CACHE, ALONE)
    assert done.returncode == 2, done.stdout
    assert "the fleet's cache can't be reached" in done.stdout


def test_hosts_that_come_after_it_have_their_turn(tmp_path: Path) -> None:
    done = played(tmp_path, {**CACHE, **OTHERS}, BEFORE_HOSTS, TURN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The run goes on" in done.stdout
    assert "gpu01 has its turn" in done.stdout


def test_hosts_have_their_turn_where_it_is_lost_in_the_middle(tmp_path: Path) -> None:
    """As with a full disk: Ansible says unreachable, which no rescue catches, and not failed."""
    (tmp_path / "gpu_cache.yml").write_text(
        yaml.safe_dump(
            {"artifact_cache_contents": {"lock": "sha256:x", "archives": ["http://x/debian"]}}
        ),
        "utf-8",
    )
    lost = {
        "ansible_connection": "local", "ansible_become": False, "ansible_pipelining": False,
        # Nobody can make a folder there; the first task needs none.
        "ansible_remote_tmp": "/proc/nothing", "gpu_stacks": str(tmp_path),
    }  # fmt: skip
    done = played(
        tmp_path, {"gpu_cache": {"hosts": {"cache01": lost}}, **OTHERS}, BEFORE_HOSTS, TURN
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "this host could not be reached" in done.stdout
    assert "The run goes on" in done.stdout
    assert "gpu01 has its turn" in done.stdout


def test_a_run_of_hosts_names_itself_so() -> None:
    first = yaml.safe_load((ROOT / "playbooks/site.yml").read_text("utf-8"))[0]
    assert first["ansible.builtin.import_playbook"] == "cache.yml"
    assert first["vars"] == BEFORE_HOSTS["vars"]


def test_without_such_a_group_nothing_is_done_or_warned_of(tmp_path: Path) -> None:
    done = played(tmp_path, OTHERS, BEFORE_HOSTS, TURN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    assert "Cache |" not in done.stdout
