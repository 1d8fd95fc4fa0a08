"""The checks of a stack whose CUDA and cuDNN are wheels in TensorFlow's environment."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from recorded import NVIDIA, ROW, WHEELS_ROW, host, wheels_host

from provision.verify.checks import CHECKS, Seen, beside, facts

BY_ID = {check.id: check for check in CHECKS}
LIBRARIES = BY_ID["tensorflow.cuda_wheels"]
ITS_CHECKS = [check for check in CHECKS if check.only(wheels_host())]
OWN = "CUDA comes with TensorFlow's wheels"


@pytest.mark.parametrize("check", ITS_CHECKS, ids=lambda check: check.id)
def test_a_good_host_passes_what_it_has(check: Any) -> None:
    verdict = check(wheels_host())
    component = check.id.partition(".")[0]
    if component in ("cuda", "cudnn"):
        assert (verdict.result, verdict.detail) == ("not_applicable", OWN)
    elif check.id == "gpu_env.variables":
        assert verdict.result == "not_applicable"
        assert "by itself" in verdict.detail
    else:
        assert verdict.result == "passed", verdict


def test_what_a_stack_has_not_is_said_of_it() -> None:
    row = {name: value for name, value in WHEELS_ROW.items() if name != "gpu_env"}
    verdict = BY_ID["gpu_env.variables"](wheels_host(row=row))
    assert (verdict.result, verdict.detail) == ("not_applicable", "the stack has no gpu_env")


def test_what_is_wished_away_is_judged_by_nobody() -> None:
    seen = host(options={"cuda_state": "absent", "tensorflow_state": "present"})
    verdict = BY_ID["cuda.packages"](seen)
    assert (verdict.result, verdict.detail) == ("not_applicable", "cuda_state is absent")
    assert BY_ID["tensorflow.imports"](seen).result == "passed"


def test_good_libraries_are_counted() -> None:
    count = len(WHEELS_ROW["tensorflow"]["sonames"])
    assert LIBRARIES(wheels_host()).detail == f"{count} libraries"


def test_the_check_belongs_to_such_stacks_alone() -> None:
    assert LIBRARIES.only(wheels_host())
    assert not LIBRARIES.only(host())
    assert not LIBRARIES.only(host(row={}))
    assert LIBRARIES(host()).detail == "CUDA does not come with TensorFlow's wheels"


def test_the_users_own_variables_are_judged() -> None:
    check = BY_ID["gpu_env.variables"]
    options = {"gpu_env_variables": {"A": "1"}}
    assert "lacks A" in check(wheels_host(options=options)).diagnosis
    options = {"gpu_env_xla_cuda_data_dir": "/opt/cuda"}
    assert "lacks XLA_FLAGS" in check(wheels_host(options=options)).diagnosis
    options = {"gpu_env_path": ["/opt/tools"]}
    assert "lacks /opt/tools in PATH" in check(wheels_host(options=options)).diagnosis


def library(path: str | None, error: str | None = None) -> dict[str, str | None]:
    return {"path": path, "error": error}


AT = "tensorflow/cuda_wheels/"
CUDNN = NVIDIA + "cudnn/lib/libcudnn.so.9"
RED: list[tuple[dict[str, Any], list[str]]] = [
    (
        {AT + "libraries/libcudnn.so.9": library(None)},
        ["libcudnn.so.9 (wheel nvidia-cudnn-cu12) is missing"],
    ),
    (
        {AT + "libraries/libcudnn.so.9": library(CUDNN, f"{CUDNN}: file too short")},
        ["libcudnn.so.9 (wheel nvidia-cudnn-cu12) can't be loaded", "file too short"],
    ),
    (
        {AT + "libraries/libcudnn.so.9": library(CUDNN, "libcudnn.so.9: no such symbol")},
        ["(wheel nvidia-cudnn-cu12) can't be loaded: no such symbol"],
    ),
    (
        {
            AT + "libraries": {
                "libcudart.so.12": library(None),
                "libcudnn.so.9": library(CUDNN),
            }
        },
        ["libcudart.so.12 (wheel nvidia-cuda-runtime-cu12) is missing; libcusolver.so.11 (wheel"],
    ),
    (
        {AT + "libraries": {}, AT + "log": "Traceback\nOSError: no memory\n", AT + "rc": 1},
        ["can't load libraries: OSError: no memory"],
    ),
    ({AT + "libraries": {}, AT + "rc": -9}, ["its process ended with -9"]),
]


@pytest.mark.parametrize(("changes", "words"), RED)
def test_a_bad_environment_fails_with_what_is_missing(
    changes: dict[str, Any], words: list[str]
) -> None:
    verdict = LIBRARIES(wheels_host(changes))
    assert verdict.result == "failed"
    for word in words:
        assert word in verdict.diagnosis
    assert "run the playbook again" in verdict.hint


def test_all_that_is_wrong_is_reported_in_order() -> None:
    sonames = {"libz.so.1": "nvidia-z", "libc.so.2": "nvidia-c", "liba.so.3": "nvidia-a"}
    row = WHEELS_ROW | {"tensorflow": WHEELS_ROW["tensorflow"] | {"sonames": sonames}}
    assert LIBRARIES(wheels_host(row=row)).detail == (
        "liba.so.3 (wheel nvidia-a) is missing; libc.so.2 (wheel nvidia-c) is missing; "
        "libz.so.1 (wheel nvidia-z) is missing"
    )


@pytest.mark.parametrize(
    ("changes", "row", "words"),
    [
        ({"tensorflow/missing": True}, WHEELS_ROW, "there is no TensorFlow environment"),
        (
            {},
            WHEELS_ROW | {"tensorflow": WHEELS_ROW["tensorflow"] | {"sonames": {}}},
            "the lock names no libraries",
        ),
    ],
)
def test_what_cannot_be_judged_is_not_applicable(
    changes: dict[str, Any], row: dict[str, Any], words: str
) -> None:
    verdict = LIBRARIES(wheels_host(changes, row=row))
    assert (verdict.result, verdict.detail) == ("not_applicable", words)


def test_found_tells_what_answered() -> None:
    seen = facts(wheels_host())
    assert seen["tensorflow"] == "2.20.0"
    assert "cudnn" not in seen
    assert "nvcc" not in seen


def two() -> Seen:
    """The good host of Debian's CUDA, with the environment of wheels beside its own."""
    seen = host(row=ROW | {"beside": [WHEELS_ROW["tensorflow"]]})
    seen.probe["beside"] = [wheels_host().probe["tensorflow"]]
    return seen


def test_each_environment_beside_has_tensorflows_checks() -> None:
    seen = two()
    made = {check.id: check(seen) for check in beside(seen)}
    own = [check.id for check in CHECKS if check.id.startswith("tensorflow.")]
    assert list(made) == [f"{name}@2.20.0" for name in own]
    assert {verdict.result for verdict in made.values()} == {"passed"}
    assert all(check(seen).result == "passed" for check in CHECKS if check.only(seen))
    assert beside(host()) == []
    assert all(check.only(seen) for check in beside(seen))
    assert {check.title.rpartition(" ")[2] for check in beside(seen)} == {"(2.20.0)"}


def test_a_fault_of_one_is_no_fault_of_the_other() -> None:
    seen = two()
    seen.probe["beside"][0]["cuda_wheels"]["libraries"]["libcudnn.so.9"] = library(None)
    seen.probe["beside"][0]["gpus"]["gpus"] = []
    made = {check.id: check(seen).result for check in beside(seen)}
    red = {name for name, result in made.items() if result == "failed"}
    assert red == {"tensorflow.cuda_wheels@2.20.0", "tensorflow.gpus@2.20.0"}
    assert BY_ID["tensorflow.gpus"](seen).result == "passed"


def test_an_environment_that_shares_cuda_is_judged_by_it() -> None:
    part = ROW["tensorflow"] | {"version": "2.8.4"}
    seen = host(row=ROW | {"beside": [part]})
    seen.probe["beside"] = [seen.probe["tensorflow"]]
    made = {check.id: check(seen).result for check in beside(seen)}
    assert "tensorflow.cuda_wheels@2.8.4" not in made
    assert made["tensorflow.version@2.8.4"] == "failed"
    assert made["tensorflow.built_with_cuda@2.8.4"] == "passed"
    seen.probe["beside"] = [copy.deepcopy(seen.probe["tensorflow"])]
    seen.probe["beside"][0]["gpus"]["build"]["cuda_version"] = "10.1"
    made = {check.id: check(seen).result for check in beside(seen)}
    assert made["tensorflow.built_with_cuda@2.8.4"] == "failed"


def test_a_host_that_does_not_answer_says_so_of_none_of_them() -> None:
    seen = host(row=ROW | {"beside": [WHEELS_ROW["tensorflow"]]}, probe={}, error="no route")
    assert {check(seen).detail for check in beside(seen)} == {"the host did not answer"}
