"""What the role asks right before it changes the driver or reboots, by Ansible itself.

The host is this machine, looked at and not touched; who is logged in is told by a python3 of ours.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.run import find_program
from tests.collection import collections

ROLE = Path(__file__).parents[2] / "roles" / "nvidia_driver"
OLDEST = Path(__file__).parents[2] / ".venv-oldest" / "bin" / "ansible-playbook"
PROGRAMS = [find_program(), *([str(OLDEST)] if OLDEST.exists() else [])]
IDS = ["newest", "oldest"][: len(PROGRAMS)]
QUIET = {"users": [], "open": True, "clock": "Sat 01:00", "until": "Sat 01:30"}
ADA = {**QUIET, "users": ["ada on pts/0"]}
REBOOT = "reboot"
CHANGE = "change the driver"
LOADED = Path("/sys/module/nvidia/version").exists()


def ask(
    folder: Path, program: str, before: str, answers: list[dict[str, Any]], **options: Any
) -> tuple[bool, str]:
    """(does it go on, what it says), with one answer per look; the last one stays."""
    for number, answer in enumerate(answers):
        (folder / f"answer{number}").write_text(json.dumps(answer), "utf-8")
    python = folder / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(
        f"#!/bin/sh\ncat > {folder}/program\necho \"$3\" > {folder}/asked\n"
        f'n=$(cat {folder}/n 2>/dev/null || echo 0); [ -e {folder}/answer$((n + 1)) ]'
        f" && echo $((n + 1)) > {folder}/n\ncat {folder}/answer$n\n",
        "utf-8",
    )  # fmt: skip
    python.chmod(0o755)
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"nvidia_driver_announce": "", "__nvidia_driver_before": before} | options,
        "tasks": [
            {
                "ansible.builtin.include_role": {
                    "name": "provision.gpu.nvidia_driver",
                    "tasks_from": "people.yml",
                    "rolespec_validate": False,
                },
                "vars": {"__nvidia_driver_python": str(python)},
            },
            {"ansible.builtin.debug": {"msg": "GOES ON"}},
        ],
    }
    (folder / "play.yml").write_text(yaml.safe_dump([play]), "utf-8")
    done = subprocess.run(
        [program, "play.yml"],
        cwd=folder,
        env={
            **os.environ, "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(collections(folder / "collections")),
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (folder / "program").read_text("utf-8").startswith('"""Who is at work on this host')
    return "GOES ON" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_nobody_is_there_and_the_window_is_handed_over(tmp_path: Path, program: str) -> None:
    window = ["Sat 00:00-04:00", "Sun 00:00-04:00"]
    goes_on, said = ask(tmp_path, program, REBOOT, [QUIET], gpu_maintenance_window=window)
    assert goes_on, said
    asked = json.loads((tmp_path / "asked").read_text("utf-8"))
    assert asked == {"window": window, "wait": 1800}


def test_outside_the_window_nothing_is_begun(tmp_path: Path) -> None:
    closed = {**QUIET, "open": False}
    window = {"gpu_maintenance_window": "Sat 22:00-04:00"}
    goes_on, said = ask(tmp_path, PROGRAMS[0], CHANGE, [closed], **window)
    assert not goes_on
    expected = (
        "Not going to change the driver outside the maintenance window (Sat 22:00-04:00); it is"
    )
    assert expected in said


def test_a_window_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    goes_on, said = ask(tmp_path, PROGRAMS[0], REBOOT, [{"error": "'x' is no maintenance window"}])
    assert not goes_on
    assert "gpu_maintenance_window: 'x' is no maintenance window" in said


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_people_are_in_the_way_of_a_reboot(tmp_path: Path, program: str) -> None:
    goes_on, said = ask(tmp_path, program, REBOOT, [ADA])
    assert not goes_on
    assert "Not going to reboot while people are logged in: ada on pts/0." in " ".join(said.split())


@pytest.mark.skipif(LOADED, reason="this machine has a driver loaded")
def test_people_are_in_nobodys_way_at_a_first_installation(tmp_path: Path) -> None:
    goes_on, said = ask(tmp_path, PROGRAMS[0], CHANGE, [ADA])
    assert goes_on, said


def test_people_may_be_left_to_themselves(tmp_path: Path) -> None:
    mode = {"nvidia_driver_logged_in_users": "ignore"}
    goes_on, said = ask(tmp_path, PROGRAMS[0], REBOOT, [ADA], **mode)
    assert goes_on, said


WAIT = {"nvidia_driver_logged_in_users": "wait", "nvidia_driver_wait_for_users": 10}


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_people_are_waited_for(tmp_path: Path, program: str) -> None:
    goes_on, said = ask(tmp_path, program, REBOOT, [ADA, ADA, QUIET], **WAIT)
    assert goes_on, said


def test_people_are_not_waited_for_without_end(tmp_path: Path) -> None:
    goes_on, said = ask(tmp_path, PROGRAMS[0], REBOOT, [ADA], **WAIT)
    assert not goes_on
    expected = "while people are logged in (waited 10 s): ada on pts/0."
    assert expected in " ".join(said.split())


def test_a_window_that_closes_meanwhile_is_seen(tmp_path: Path) -> None:
    closed = {**QUIET, "open": False}
    window = {"gpu_maintenance_window": "Sat 00:00-01:00"}
    goes_on, said = ask(tmp_path, PROGRAMS[0], REBOOT, [ADA, ADA, closed], **WAIT, **window)
    assert not goes_on
    assert "has closed while people were waited for" in " ".join(said.split())
