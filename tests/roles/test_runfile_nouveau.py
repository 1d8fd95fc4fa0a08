"""Before a .run driver nouveau may go by a reboot in the middle of the role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.roles.test_platforms import templated

TASKS = Path(__file__).parents[2] / "roles/nvidia_driver/tasks/runfile/nouveau.yml"


KERNELS = TASKS.parents[1] / "kernel/reboot.yml"
ASKS, ANNOUNCES = "people/processes.yml", "people/announce.yml"


def reboot_block(path: Path = TASKS) -> tuple[list[dict[str, Any]], int]:
    """The block of a file of tasks that reboots, and the place of the reboot in it."""
    (block,) = [
        task["block"] for task in yaml.safe_load(path.read_text("utf-8")) if "block" in task
    ]
    (place,) = [place for place, task in enumerate(block) if "ansible.builtin.reboot" in task]
    return block, place


def after_reboot() -> dict[str, Any]:
    """The task behind the reboot."""
    block, place = reboot_block()
    return block[place + 1]


@pytest.mark.parametrize("path", [TASKS, KERNELS], ids=lambda path: path.stem)
def test_people_are_told_of_a_reboot_when_nothing_is_waited_for_any_more(path: Path) -> None:
    block, place = reboot_block(path)
    included = [task.get("ansible.builtin.include_tasks") for task in block[:place]]
    assert [file for file in included if file] == [ASKS, ANNOUNCES]
    words = block[included.index(ANNOUNCES)]["vars"]["__nvidia_driver_announced"]
    said = templated(words, __nvidia_driver_people={"clock": "Sat 01:00"})
    assert said == "(Rebooting now, at Sat 01:00.)"


def test_the_host_is_held_again_before_the_driver_is_installed() -> None:
    """The reboot ends what held it: another run could begin beside the installer."""
    role = after_reboot()["ansible.builtin.include_role"]
    assert (role["name"], role["tasks_from"]) == ("provision.gpu.gpu_state", "hold")


@pytest.mark.parametrize(
    ("held", "holds"),
    [
        ({"__gpu_state_held": {"held": True}}, True),
        ({"__gpu_state_held": {"held": False}}, False),
        ({}, False),
    ],
    ids=["a run", "a run that could not", "the role alone"],
)
def test_only_what_the_run_held_is_held_again(held: dict[str, Any], holds: bool) -> None:
    assert templated("{{ " + str(after_reboot()["when"]) + " }}", **held) is holds
