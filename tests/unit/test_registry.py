"""The registry of components: one order, and everybody's."""

from __future__ import annotations

import gpu_stack
import pytest
from gpu_stack.components import COMPONENTS, NAMES, Component

from provision import registry
from provision.roles import ROLES


def test_a_run_takes_these_steps_in_this_order() -> None:
    steps = [(one["component"], one["role"], one["tasks_from"]) for one in registry.run_steps()]
    assert steps == [
        ("cuda", "cuda", "begin"),
        ("cudnn", "cudnn", "begin"),
        ("nvidia_driver", "nvidia_driver", "main"),
        ("nvidia_driver", "gpu_state", "hold"),
        ("tensorflow", "tensorflow", "begin"),
        ("cuda", "cuda", "main"),
        ("cudnn", "cudnn", "main"),
        ("gpu_env", "gpu_env", "main"),
        ("nvidia_container_toolkit", "nvidia_container_toolkit", "main"),
        ("tensorflow", "tensorflow", "main"),
        ("gpu_workspace", "gpu_workspace", "main"),
        ("gpu_front_door", "gpu_front_door", "main"),
    ]


def test_what_begins_beside_others_names_them() -> None:
    beside = {s["component"]: s["behind"] for s in registry.run_steps() if "behind" in s}
    assert beside == {
        "cuda": ["nvidia_driver"],
        "cudnn": ["nvidia_driver", "cuda"],
        "tensorflow": ["cuda", "cudnn"],
    }


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_what_a_component_needs_stands_before_it(component: Component) -> None:
    before = NAMES[: NAMES.index(component.name)]
    assert set(component.needs) | set(component.behind) <= set(before)


def test_who_may_reboot_has_an_option_for_it() -> None:
    options = {role.name: {option.name for option in role.options} for role in ROLES}
    for component in COMPONENTS:
        assert component.reboots == (f"{component.name}_reboot" in options[component.name])


def test_the_look_and_the_generator_know_the_same_ones() -> None:
    assert [component.NAME for component in gpu_stack.COMPONENTS] == list(NAMES)
    assert [role.name for role in ROLES] == list(NAMES)
    assert [component.name for component in registry.COMPONENTS] == list(NAMES)
