"""A host that Ansible runs on is never rebooted by the run, by whatever address it is reached."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.run import find_program
from tests.collection import ACTIONS, writes_json

ROLE = Path(__file__).parents[2] / "roles" / "nvidia_driver"
BOOT = Path("/proc/sys/kernel/random/boot_id")
HERE = BOOT.read_text("ascii").strip() if BOOT.exists() else ""

# (connection, what `cat boot_id` said on the host; None where it was not asked): Ansible's own?
CASES: list[tuple[str, Any, bool]] = [
    ("local", {"stdout": "another"}, True),
    ("local", None, True),
    ("ssh", {"stdout": HERE}, True),
    ("ssh", {"stdout": "0b7e3c1c-3f0e-4b37-9f52-7f6a1b1d2c3d"}, False),
    ("ssh", {"stdout": ""}, False),
    ("ssh", {"skipped": True}, False),
]


@pytest.mark.skipif(not HERE, reason="no Linux")
def test_who_is_on_this_kernel_is_not_rebooted(tmp_path: Path) -> None:
    expression = yaml.safe_load((ROLE / "vars" / "main.yml").read_text("utf-8"))[
        "__nvidia_driver_own_host"
    ]
    tasks = [
        {
            "name": str(number),
            "ansible.builtin.set_fact": {f"case_{number}": expression},
            "vars": {"ansible_connection": connection, "__nvidia_driver_boot": boot or {}},
        }
        for number, (connection, boot, _) in enumerate(CASES)
    ]
    answers = {str(n): f"{{{{ case_{n} | bool }}}}" for n in range(len(CASES))}
    written = {
        **writes_json(tmp_path / "answers", "{{ answers | to_json }}"),
        "vars": {"answers": answers},
    }
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [*tasks, written]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), "utf-8")
    done = subprocess.run(
        [find_program(), "play.yml"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, **ACTIONS},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "answers").read_text("utf-8"))
    assert [str(found[str(n)]) for n in range(len(CASES))] == [str(own) for *_, own in CASES]
