"""The role nvidia_driver waits for programs that use a GPU, by Ansible itself.

The host is this machine, looked at and not touched; who holds a device file is said by the test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.run import find_program
from tests.collection import module, programs
from tests.module_play import drivers_tasks

NEWEST = find_program()
TRAINS = {"pid": 7, "user": "ada", "command": "python3 train.py"}
SERVES = {"pid": 12, "user": "bob", "command": "jupyter"}
# At its end, in place of who holds a device file; one answer per look, the last one stays.
SAID = """

def holders(context):
    import json, os
    folder = {folder!r}
    looks = [name for name in os.listdir(folder) if name.startswith("looked")]
    open(os.path.join(folder, "looked%d" % len(looks)), "w").close()
    with open(os.path.join(folder, "answers")) as stream:
        answers = json.load(stream)
    return answers[min(len(looks), len(answers) - 1)]
"""


def ask(
    folder: Path, program: str, answers: list[list[dict[str, Any]]], **options: Any
) -> tuple[int, str, int]:
    """(exit code, what Ansible says, how often the host was looked at)."""
    said = folder / "said"
    said.mkdir()
    (said / "answers").write_text(json.dumps(answers), "utf-8")
    done = drivers_tasks(
        folder, program, "people/processes.yml",
        {"gpu_stack/host/processes.py": SAID.format(folder=str(said))},
        {
            "nvidia_driver_logged_in_users": "ignore", "__nvidia_driver_before": "reboot",
            **options,
        },
    )  # fmt: skip
    output = " ".join((done.stdout + done.stderr).split())
    return done.returncode, output, len(list(said.glob("looked*")))


def test_nobody_is_waited_for_where_no_gpu_is_used(tmp_path: Path) -> None:
    code, output, looks = ask(tmp_path, NEWEST, [[]], nvidia_driver_wait_for_gpu_processes=10)
    assert (code, looks) == (0, 1), output


def test_who_uses_a_gpu_is_named_and_nothing_is_begun(tmp_path: Path) -> None:
    code, output, looks = ask(tmp_path, NEWEST, [[TRAINS, SERVES]])
    assert (code, looks) == (2, 2), output
    assert (
        "Not going to reboot while GPU processes run (waited 0 s): pid 7 of ada: python3 "
        "train.py; pid 12 of bob: jupyter. Run again when they have ended, or set "
        "nvidia_driver_wait_for_gpu_processes."
    ) in output


@pytest.mark.parametrize("program", programs("ansible-playbook"))
def test_they_are_waited_for(tmp_path: Path, program: str) -> None:
    wait = {"nvidia_driver_wait_for_gpu_processes": 10}
    code, output, looks = ask(tmp_path, program, [[TRAINS], [TRAINS], []], **wait)
    assert (code, looks) == (0, 3), output


def test_they_are_not_waited_for_without_end(tmp_path: Path) -> None:
    wait = {"nvidia_driver_wait_for_gpu_processes": 10}
    code, output, looks = ask(tmp_path, NEWEST, [[TRAINS]], **wait)
    assert (code, looks) == (2, 3), output
    assert "(waited 10 s): pid 7 of ada: python3 train.py. Run again" in output


@pytest.mark.parametrize("program", programs("ansible"))
def test_the_module_looks_at_this_machine(program: str) -> None:
    answer, _said = module(program, "gpu_processes", {"before": "reboot"})
    assert answer["changed"] is False
    assert isinstance(answer["processes"], list)
