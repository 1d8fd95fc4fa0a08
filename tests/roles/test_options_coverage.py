"""Every public option of every role runs on a host at another value than its default.

The scenarios `options`, `options_desktop` and, for their own roles, `nvidia_container_toolkit`,
`gpu_workspace`, `gpu_front_door`, `gpu_serving` and `slurm` are where: this test computes from the
Python roles what they must set, so an option added tomorrow is missing here tomorrow. An option
that can have no meaning on a local host stands in left_out.yml with its reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.roles import all_options

MOLECULE = Path(__file__).parents[2] / "molecule"
SCENARIOS = (
    *("options", "options_desktop", "nvidia_container_toolkit", "gpu_workspace", "gpu_serving"),
    *("gpu_front_door", "slurm"),
)
PUBLIC = {name: option for name, option in all_options().items() if option.public}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def values() -> dict[str, list[Any]]:
    """{option: its values in the scenarios}."""
    found: dict[str, list[Any]] = {}
    files = [file for name in SCENARIOS for file in MOLECULE.glob(f"{name}/lab/host_vars/*.yml")]
    files.append(MOLECULE / "options" / "before.yml")
    for path in sorted(files):
        for name, value in load(path).items():
            found.setdefault(name, []).append(value)
    return found


def left_out() -> dict[str, str]:
    """{option: why no local host can show it}."""
    found: dict[str, str] = load(MOLECULE / "options" / "left_out.yml")["options_left_out"]
    return found


def effects() -> set[str]:
    """Options whose effect is looked at on the host."""
    return {
        name
        for scenario in SCENARIOS
        for entry in load(MOLECULE / scenario / "effects.yml")["options_effects"]
        for name in entry["options"]
    }


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_option_runs_on_a_host_at_another_value_than_its_default(name: str) -> None:
    option = PUBLIC[name]
    given = values().get(name, [])
    # A template says what is not known before the lab is up; it is another value for certain.
    others = [value for value in given if value != option.default]
    if name in left_out():
        assert not others, f"{name} is set in a scenario, so it is not left out"
        return
    assert others, f"{name} has its default ({option.default!r}) in every scenario"
    assert all("{{" in str(value) or option.fault(value) is None for value in others), others


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_option_is_seen_to_have_its_effect(name: str) -> None:
    assert (name in effects()) != (name in left_out()), (
        f"{name} needs either a command in molecule/*/effects.yml that sees its effect, "
        "or a reason in molecule/options/left_out.yml"
    )


def test_what_is_left_out_is_an_option_and_has_a_reason() -> None:
    for name, reason in left_out().items():
        assert name in PUBLIC, name
        assert len(reason) > 30, f"{name}: {reason!r} is no reason"


def test_effects_are_of_options() -> None:
    assert effects() <= set(PUBLIC)
