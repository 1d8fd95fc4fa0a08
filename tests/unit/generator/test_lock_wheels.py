"""Stacks whose CUDA and cuDNN come as wheels of TensorFlow: what is locked and rendered."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml

from provision import collection
from provision import lock as locks
from provision.catalog import load
from provision.catalog.rows import TensorflowRow
from provision.errors import UnsatisfiableError
from provision.render import render, stacks
from tests.unit.generator import recorded

WISH = {"tensorflow": "2.20"}
SONAMES = {
    "libcudart.so.12": "nvidia-cuda-runtime-cu12",
    "libcublas.so.12": "nvidia-cublas-cu12",
    "libcublasLt.so.12": "nvidia-cublas-cu12",
    "libcufft.so.11": "nvidia-cufft-cu12",
    "libcusolver.so.11": "nvidia-cusolver-cu12",
    "libcusparse.so.12": "nvidia-cusparse-cu12",
    "libcudnn.so.9": "nvidia-cudnn-cu12",
}


def made() -> locks.Lock:
    return recorded.lock(WISH)


def stack(platform: str = "debian13") -> tuple[str, Any]:
    (name,) = [name for name in made().stacks if name.startswith(platform)]
    return name, made().stacks[name]


def row(release: str) -> TensorflowRow:
    (found,) = [row for row in load().tensorflow if row.release == release]
    return found


def test_what_comes_as_wheels_is_no_part_of_its_own() -> None:
    name, part = stack()
    assert list(part) == ["nvidia_driver", "gpu_env", "tensorflow"]
    assert part["gpu_env"] == {"xla_cuda_data_dir": "", "path": [], "library": []}
    assert part["tensorflow"]["cuda_source"] == "wheels"
    assert "cudawheels12.5.82-cudnn9.3.0.75" in name
    named = {p for group in part["nvidia_driver"]["packages"].values() for p in group}
    assert set(made().details["packages"][name]) == named


def test_each_library_that_tensorflow_opens_has_its_wheel() -> None:
    part = stack()[1]["tensorflow"]
    assert part["sonames"] == SONAMES
    assert set(part["sonames"].values()) <= set(part["wheels"])


def test_a_library_that_no_wheel_brings_is_an_error() -> None:
    """The extra of another patch, or one that the index has no longer, must not lock a stack."""
    chosen = recorded.choices(WISH)
    text = recorded.WHEELS.replace("nvidia-cufft-cu12", "nvidia-other-cu12")
    with pytest.raises(UnsatisfiableError, match=r"no wheel brings libcufft\.so\.11"):
        locks.make(
            chosen,
            {c.platform.id: recorded.indices(platform=c.platform.id) for c in chosen},
            {c.stack.id: text for c in chosen},
        )


def test_a_library_of_nobody_is_an_error() -> None:
    chosen = [
        dataclasses.replace(
            choice,
            stack=dataclasses.replace(
                choice.stack, row=row("2.20").model_copy(update={"sonames": ["libother.so.1"]})
            ),
        )
        for choice in recorded.choices(WISH)
    ]
    with pytest.raises(UnsatisfiableError, match=r"no wheel brings libother\.so\.1"):
        locks.make(
            chosen,
            {c.platform.id: recorded.indices(platform=c.platform.id) for c in chosen},
            {c.stack.id: recorded.WHEELS for c in chosen},
        )


def test_a_stack_with_cuda_of_the_platform_says_nothing_of_wheels() -> None:
    (part,) = recorded.lock().stacks.values()
    assert list(part["tensorflow"]) == ["version", "python", "wheels", "requirements_sha256"]


def test_the_index_is_asked_for_exact_wheels() -> None:
    """From 2.20 on the extra is a list of ranges: their lowest are what it was built with."""
    (chosen,) = [c for c in recorded.choices(WISH) if c.platform.id == "debian13"]
    assert locks.wanted(chosen.stack) == ["tensorflow[and-cuda]==2.20.0"]
    assert "nvidia-cuda-runtime-cu12==12.5.82" in chosen.stack.constraints


def test_a_stack_of_the_platform_asks_for_tensorflow_alone() -> None:
    (chosen,) = recorded.choices()
    assert locks.wanted(chosen.stack) == ["tensorflow==2.9.3"]


def test_a_lock_of_wheels_survives_its_file() -> None:
    read = locks.parse(locks.dump(made()), where="lock.yml")
    assert locks.dump(read) == locks.dump(made())


def test_a_stack_file_has_variables_of_its_own_parts_alone() -> None:
    name, _part = stack()
    variables = stacks.stack_variables(made(), name)
    roles = {key.split("_")[0] for key in variables}
    assert roles == {"nvidia", "gpu", "tensorflow"}
    assert variables["gpu_env_stack_xla_cuda_data_dir"] == ""
    files = render(made(), collection.read())
    slim = yaml.safe_load(files["stacks/gpu_lock.yml"])["gpu_lock"]
    assert "cuda" not in slim["stacks"][name]
    assert b"nvidia-cudnn-cu12==9.3.0.75" in files[f"stacks/{name}.requirements.txt"]
