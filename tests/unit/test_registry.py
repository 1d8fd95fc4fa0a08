"""The registry of components: one order, and everybody's."""

from __future__ import annotations

import gpu_stack.plan
import pytest
from gpu_stack.components import COMPONENTS, NAMES, Component, planned_steps, run_steps

from provision import registry
from provision.roles import ROLES
from tests.collection import ROOT


def test_a_run_takes_these_steps_in_this_order() -> None:
    """What needs others goes before these and comes after them."""
    assert [step["name"] for step in run_steps()] == [
        *("tensorflow:remove", "nvidia_container_toolkit:remove", "gpu_env:remove"),
        *("cudnn:remove", "cuda:remove", "nvidia_driver:remove"),
        *("cuda:begin", "cudnn:begin", "nvidia_driver:bring", "nvidia_driver:hold"),
        # The driver may reboot, and puts apt in order.
        *("tensorflow:begin", "cuda:bring", "cudnn:bring", "gpu_env:bring"),
        *("nvidia_container_toolkit:bring", "tensorflow:bring", "tensorflow:beside"),
        *("gpu_workspace:bring", "gpu_front_door:bring", "gpu_serving:bring", "slurm:bring"),
    ]


@pytest.mark.parametrize("step", run_steps(), ids=lambda step: str(step["name"]))
def test_each_step_is_tasks_that_a_role_has(step: dict[str, str]) -> None:
    tasks = ROOT / "roles" / step["role"] / "tasks"
    assert (tasks / (step["tasks_from"] + ".yml")).is_file()
    assert step["component"] in step["title"] or step["kind"] == "hold"


@pytest.mark.parametrize(
    ("changed", "absent", "options", "steps"),
    [
        ([], [], {}, []),
        (["receipt"], [], {}, []),
        (["cuda"], [], {}, ["cuda:bring"]),
        (["cuda", "cudnn"], [], {}, ["cudnn:begin", "cuda:bring", "cudnn:bring"]),
        (["cuda", "cudnn"], ["cuda"], {}, ["cuda:remove", "cudnn:begin", "cudnn:bring"]),
        (["cuda", "cudnn"], ["cuda", "cudnn"], {}, ["cudnn:remove", "cuda:remove"]),
        (["nvidia_driver"], [], {"nvidia_driver_reboot": False}, ["nvidia_driver:bring"]),
        (
            ["nvidia_driver"],
            [],
            {"nvidia_driver_reboot": True},
            ["nvidia_driver:bring", "nvidia_driver:hold"],
        ),
        (["nvidia_driver"], ["nvidia_driver"], {"nvidia_driver_reboot": True},
         ["nvidia_driver:remove"]),
        (["gpu_env"], ["cuda"], {}, ["gpu_env:bring"]),
        (["tensorflow"], [], {}, ["tensorflow:bring", "tensorflow:beside"]),
    ],
)  # fmt: skip
def test_a_plan_names_the_steps_that_it_needs(
    changed: list[str], absent: list[str], options: dict[str, bool], steps: list[str]
) -> None:
    assert planned_steps(changed, absent, options) == steps


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_what_a_component_needs_stands_before_it(component: Component) -> None:
    before = NAMES[: NAMES.index(component.name)]
    assert set(component.needs) | set(component.behind) <= set(before)


def test_who_may_reboot_has_an_option_for_it() -> None:
    options = {role.name: {option.name for option in role.options} for role in ROLES}
    for component in COMPONENTS:
        assert component.reboots == (f"{component.name}_reboot" in options[component.name])


def test_the_look_and_the_generator_know_the_same_ones() -> None:
    assert [component.NAME for component in gpu_stack.plan.COMPONENTS] == list(NAMES)
    assert [role.name for role in ROLES] == list(NAMES)
    assert [component.name for component in registry.COMPONENTS] == list(NAMES)
