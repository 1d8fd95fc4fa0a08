"""Before a .run driver nouveau may go by a reboot in the middle of the role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.roles.test_platforms import templated

TASKS = Path(__file__).parents[2] / "roles/nvidia_driver/tasks/runfile/nouveau.yml"


def after_reboot() -> dict[str, Any]:
    """The task behind the reboot."""
    (block,) = [
        task["block"] for task in yaml.safe_load(TASKS.read_text("utf-8")) if "block" in task
    ]
    (place,) = [place for place, task in enumerate(block) if "ansible.builtin.reboot" in task]
    task: dict[str, Any] = block[place + 1]
    return task


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
