"""The checks of what is on a host for its people: good ones pass, and none is asked for nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

import check_states
from states.checks import gpu_front_door, gpu_serving, gpu_workspace, slurm

# {component: (a good host, what its checks say, a host without it)}
GOOD: dict[str, tuple[Callable[[], Any], dict[str, str], Callable[[], Any]]] = {
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
    ),
    "gpu_front_door": (
        gpu_front_door.doored,
        {
            "answers": "TLSv1.3, a certificate for gpu01.example.org",
            "page": "lists ada, bob",
            "strangers": "refused: /ada/api/status, /ada/tensorboard/, /bob/",
        },
        gpu_workspace.shared,
    ),
    "gpu_serving": (
        gpu_serving.served,
        {
            "runs": "mnist: active",
            "available": "mnist: AVAILABLE",
            "strangers": "mnist: 401 without a token",
        },
        gpu_front_door.doored,
    ),
    "slurm": (
        slurm.clustered,
        {
            "answers": "Slurmctld(primary) at gpu01 is UP",
            "ready": "idle",
            "gpus": "2 of 2",
        },
        check_states.machine,
    ),
}


@pytest.mark.parametrize("component", GOOD)
def test_a_good_one_passes(component: str) -> None:
    good, details, _without = GOOD[component]
    verdicts = check_states.of_component(component, good())
    assert {name: (verdict.result, verdict.detail) for name, verdict in verdicts.items()} == {
        f"{component}.{name}": ("passed", detail) for name, detail in details.items()
    }


@pytest.mark.parametrize("component", GOOD)
def test_where_there_is_none_it_is_not_asked(component: str) -> None:
    _good, _details, without = GOOD[component]
    assert check_states.of_component(component, without()) == {}
