"""The checks of what is on a host for its people: good ones pass, and none is asked for nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

import check_states
from states.checks import gpu_front_door, gpu_serving, gpu_workspace

# {component: (a good host, what its checks say, a host without it, why it is not asked)}
GOOD: dict[str, tuple[Callable[[], Any], dict[str, str], Callable[[], Any], str]] = {
    "gpu_workspace": (
        gpu_workspace.shared,
        {
            "runs": "active: ada, bob",
            "jupyter": "refused without a token: ada",
            "ssh": "by key, or by a wished password: bob",
            "tensorboard": "answers: ada",
            "gpus": "nvidia-smi: ada 1, bob 0; TensorFlow 1",
            "limits": "as wished: ada, bob",
        },
        check_states.machine,
        "nobody has a workspace here",
    ),
    "gpu_front_door": (
        gpu_front_door.doored,
        {
            "answers": "TLSv1.3, a certificate for gpu01.example.org",
            "page": "lists ada, bob",
            "strangers": "refused: /ada/api/status, /ada/tensorboard/, /bob/",
        },
        gpu_workspace.shared,
        "there is no front door here",
    ),
    "gpu_serving": (
        gpu_serving.served,
        {
            "runs": "mnist: active",
            "available": "mnist: AVAILABLE",
            "strangers": "mnist: 401 without a token",
        },
        gpu_front_door.doored,
        "no model is served here",
    ),
}


@pytest.mark.parametrize("component", GOOD)
def test_a_good_one_passes(component: str) -> None:
    good, details, _none, _reason = GOOD[component]
    found = check_states.of_component(component, good())
    assert {name: (one.result, one.detail) for name, one in found.items()} == {
        f"{component}.{name}": ("passed", detail) for name, detail in details.items()
    }


@pytest.mark.parametrize("component", GOOD)
def test_where_there_is_none_it_is_not_asked(component: str) -> None:
    _good, details, none, reason = GOOD[component]
    assert check_states.of_component(component, none()) == {}
    check = check_states.BY_ID[f"{component}.{next(iter(details))}"]
    one = check(check_states.seen_of(none()))
    assert (one.result, one.detail) == ("not_applicable", reason)
