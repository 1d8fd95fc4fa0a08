"""What an inventory can't say of served models, beside workspaces, the front door and Slurm."""

from __future__ import annotations

from typing import Any

import pytest

from provision.models import Wish
from provision.roles import gpu_serving

MNIST = {"name": "mnist", "models": "/srv/models/mnist", "gpus": "none", "port": 8501}
DOOR = {"gpu_front_door_name": "gpu07.example.org"}
SLURM = {"slurm_state": "present", "gpu_count": 2}


def fault(model: dict[str, Any], **values: Any) -> str | None:
    given = {
        "gpu_servings": [{**MNIST, **model}],
        "gpu_serving_image": "docker.io/tensorflow/serving@sha256:" + "a" * 64,
        **values,
    }
    wish = Wish(tensorflow="2.9", own={"container_toolkit": True})
    found = gpu_serving.Servings().fault(given, wish, lambda _text: "")
    return found and found.message


@pytest.mark.parametrize(
    ("model", "values", "words"),
    [
        ({"port": 443}, DOOR, "port 443 is said twice (the front door and model mnist)"),
        ({"port": 80}, {**DOOR, "gpu_front_door_redirect": True}, "port 80 is said twice"),
        ({"port": 80}, {**DOOR, "gpu_front_door_tls": "acme"}, "port 80 is said twice"),
        ({"name": "door"}, {}, "door names what leads to the models"),
        (
            {},
            {**DOOR, "gpu_workspaces": [{"name": "serving", "gpus": "none", "port": 8801}]},
            "the front door has /serving/ for models",
        ),
        ({"gpus": [0]}, SLURM, "Slurm gives out all GPUs of the host, and model mnist would"),
        ({"gpus": [1]}, {**SLURM, "slurm_gpus": 1}, "GPU 1 is promised twice, to Slurm and"),
        (
            {"gpus": [0]},
            {
                **SLURM,
                "slurm_gpus": 1,
                "gpu_workspaces": [{"name": "ada", "gpus": 1, "port": 8801}],
            },
            "ada, model mnist are promised 2 GPUs, and Slurm leaves 1 of 2",
        ),
    ],
)
def test_what_others_have_is_refused(
    model: dict[str, Any], values: dict[str, Any], words: str
) -> None:
    assert words in (fault(model, **values) or "")


@pytest.mark.parametrize(
    ("model", "values"),
    [
        ({"port": 80}, DOOR),
        ({"port": 443}, {}),
        ({"port": 8443}, {**DOOR, "gpu_front_door_port": "{{ port }}"}),
        ({}, SLURM),
        ({"gpus": [0]}, {**SLURM, "slurm_gpus": 1}),
        ({"gpus": [1]}, {**SLURM, "slurm_gpus": 1, "slurm_compute": False}),
        # Judged on the host.
        ({"gpus": [1]}, {**SLURM, "slurm_gpus": "{{ theirs }}"}),
        ({"gpus": [1]}, {**SLURM, "slurm_gpus": 1, "gpu_count": "{{ count }}"}),
        # Slurm's own rule's.
        ({"gpus": [0]}, {**SLURM, "slurm_gpus": [7]}),
    ],
)
def test_what_nobody_else_has_is_a_models(model: dict[str, Any], values: dict[str, Any]) -> None:
    assert fault(model, **values) is None
