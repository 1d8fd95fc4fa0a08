"""What the programs must answer at the end of a run; every wrong answer is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.provision.gpu.plugins.module_utils.proof import (
    COMPUTE,
    COMPUTE_PATIENCE,
    DEVICES,
    FIT,
    PATIENCE,
    Proof,
    Result,
)

STACK: dict[str, Any] = {
    "nvidia_driver": {"version": "470.256.02"},
    "cuda": {"release": "11.2"},
    "tensorflow": {"version": "2.9.3"},
    "gpu_env": {"path": ["/usr/local/cuda-11.2/bin"], "xla_cuda_data_dir": "/usr/lib/cuda"},
}
OPTIONS = {
    "cuda_profile": "toolkit",
    "tensorflow_root": "/opt/tensorflow",
    "gpu_env_xla_cuda_data_dir": "",
}
MIG = "--query-gpu=mig.mode.current"
PYTHON = "/opt/tensorflow/current/bin/python"


def seen(**changed: Any) -> str:
    return "noise\n" + json.dumps({"version": "2.9.3", "cuda": True, "gpus": 2} | changed)


RIGHT = {
    "nvidia-smi": Result(0, "470.256.02, T4\n470.256.02, T4\n", ""),
    MIG: Result(0, "[N/A]\n[N/A]\n", ""),
    "nvcc": Result(0, "release 11.2, V11.2.152", ""),
    DEVICES: Result(0, seen(), ""),
    COMPUTE: Result(0, "", ""),
    FIT: Result(0, "", ""),
}


class Programs:
    """Answers as told, and notes how each program was started."""

    def __init__(self, **wrong: Result) -> None:
        names = {
            "smi": "nvidia-smi", "mig": MIG, "devices": DEVICES, "compute": COMPUTE, "fit": FIT,
        }  # fmt: skip
        self.answers = RIGHT | {names.get(name, name): answer for name, answer in wrong.items()}
        self.started: list[tuple[list[str], float, dict[str, str]]] = []

    def __call__(self, argv: list[str], patience: float, environment: dict[str, str]) -> Result:
        self.started.append((argv, patience, environment))
        if MIG in argv:
            return self.answers[MIG]
        return self.answers[argv[-1] if argv[0] == PYTHON else argv[0]]


def proof(programs: Programs, **changed: Any) -> Proof:
    given: dict[str, Any] = {
        "stack": STACK, "left_out": [], "gpus": 2, "simulated_gpu": False, "options": OPTIONS,
    }  # fmt: skip
    return Proof(**given | changed, runner=programs)


def test_a_stack_that_works_has_no_fault() -> None:
    made = proof(Programs())
    assert made.fault() is None
    assert made.asked == ["nvidia-smi", "nvcc", *["python"] * 3]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"smi": Result(0, "535.309.01, T4\n", "")}, "470.256.02 for 2 GPUs. It said (exit 0)"),
        ({"smi": Result(0, "470.256.02, T4\n535.309.01, T4", "")}, "should name driver"),
        ({"smi": Result(9, "", "couldn't communicate")}, "(exit 9): couldn't communicate"),
        ({"smi": Result(0, "", "")}, "should name driver"),
        ({"nvcc": Result(0, "release 11.20, V1", "")}, "should say release 11.2."),
        ({"nvcc": Result(127, "", "no such file")}, "(exit 127): no such file"),
        ({"devices": Result(0, seen(gpus=0), "no libcublas")}, "list 2 GPUs"),
        ({"devices": Result(0, seen(gpus=0), "a\n" * 20 + "no libcublas")}, "no libcublas"),
        ({"devices": Result(0, seen(cuda=False), "")}, "built with CUDA"),
        ({"devices": Result(0, seen(version="2.9.2"), "")}, "TensorFlow 2.9.3, built"),
        ({"devices": Result(1, "", "ImportError")}, "(exit 1): ImportError"),
        ({"devices": Result(0, "", "")}, "should list"),
        ({"devices": Result(0, "goodbye", "")}, "should list"),
        ({"compute": Result(1, "", "a wrong product")}, "a convolution on each failed"),
        ({"compute": Result(124, "", "did not answer within 3600 s")}, "within 3600 s"),
        ({"fit": Result(1, "", "the loss did not fall")}, "the loss did not fall"),
    ],
)
def test_a_wrong_answer_is_refused(wrong: dict[str, Result], words: str) -> None:
    assert words in str(proof(Programs(**wrong)).fault())


# Since R570 a process sees one device of each GPU instance, before that one alone.
@pytest.mark.parametrize(("modes", "listed"), [("Enabled\nEnabled", 1), ("Disabled\nEnabled", 5)])
def test_with_mig_tensorflow_need_not_list_as_many_gpus_as_there_are(
    modes: str, listed: int
) -> None:
    programs = Programs(devices=Result(0, seen(gpus=listed), ""), mig=Result(0, modes, ""))
    assert proof(programs).fault() is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"devices": seen(gpus=0)}, "should list at least one GPU"),
        ({"devices": seen(gpus=1, cuda=False)}, "built with CUDA"),
        ({"devices": seen(gpus=1, version="2.9.2")}, "TensorFlow 2.9.3, built"),
        ({"devices": "goodbye"}, "should list"),
    ],
)
def test_with_mig_every_other_wrong_answer_is_refused(wrong: dict[str, str], words: str) -> None:
    answers = {name: Result(0, text, "") for name, text in wrong.items()}
    fault = proof(Programs(mig=Result(0, "Enabled\nEnabled\n", ""), **answers)).fault()
    assert words in str(fault)


@pytest.mark.parametrize(
    "mode",
    [
        Result(0, "Disabled\n[N/A]\n", ""),
        Result(2, 'Field "mig.mode.current" is not a valid field to query.', ""),
        Result(124, "Enabled", "did not answer within 600 s"),
    ],
)
def test_without_mig_tensorflow_must_list_every_gpu(mode: Result) -> None:
    programs = Programs(devices=Result(0, seen(gpus=1), ""), mig=mode)
    assert "should list 2 GPUs" in str(proof(programs).fault())


def test_memory_that_others_use_is_no_fault() -> None:
    full = Result(1, "", "RESOURCE: ResourceExhaustedError: OOM when allocating")
    assert proof(Programs(compute=full)).fault() is None


def test_only_the_last_lines_of_many_errors_are_reported() -> None:
    errors = "\n".join(str(number) for number in range(100))
    message = str(proof(Programs(fit=Result(1, "", errors))).fault())
    assert message.endswith(": 92 / 93 / 94 / 95 / 96 / 97 / 98 / 99")


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        ({"gpus": 0}, [["nvcc"], DEVICES, FIT]),
        ({"simulated_gpu": True}, [["nvidia-smi"], ["nvcc"], DEVICES, FIT]),
        ({"left_out": ["nvidia_driver"]}, [["nvcc"], FIT]),
        ({"left_out": ["cuda"]}, [["nvidia-smi"], FIT]),
        ({"left_out": ["cudnn"]}, [["nvidia-smi"], ["nvcc"], FIT]),
        ({"left_out": ["tensorflow"]}, [["nvidia-smi"], ["nvcc"]]),
        (
            {"options": OPTIONS | {"cuda_profile": "runtime"}},
            [["nvidia-smi"], DEVICES, COMPUTE, FIT],
        ),
    ],
)
def test_what_a_host_does_not_have_is_not_asked(changed: dict[str, Any], asked: list[Any]) -> None:
    programs = Programs()
    if changed.get("gpus") == 0:
        programs.answers[DEVICES] = Result(0, seen(gpus=0), "")
    assert proof(programs, **changed).fault() is None
    commands = [argv[-1] if argv[0] == PYTHON else argv[:1] for argv, _, _ in programs.started]
    assert commands == asked


def test_each_program_has_an_end_and_root_imports_from_nowhere_else() -> None:
    programs = Programs()
    proof(programs).fault()
    for argv, patience, environment in programs.started:
        assert patience == (COMPUTE_PATIENCE if argv[-1] == COMPUTE else PATIENCE)
        assert environment["PATH"].startswith("/usr/local/cuda-11.2/bin:/usr/local/sbin:")
        if argv[0] == PYTHON:
            assert argv[1:3] == ["-I", "-c"]


def environments(stack: dict[str, Any], **options: str) -> dict[str, dict[str, str]]:
    programs = Programs()
    assert proof(programs, stack=stack, options=OPTIONS | options).fault() is None
    return {argv[-1]: environment for argv, _, environment in programs.started}


def test_xla_is_told_where_libdevice_is() -> None:
    variables = environments(STACK)
    for program in (DEVICES, COMPUTE):
        assert variables[program]["XLA_FLAGS"] == "--xla_gpu_cuda_data_dir=/usr/lib/cuda"
    assert variables[FIT]["CUDA_VISIBLE_DEVICES"] == "-1"


def test_cuda_of_wheels_has_no_such_directory_and_no_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    wheels = {name: part for name, part in STACK.items() if name != "cuda"}
    wheels["gpu_env"] = {"path": [], "xla_cuda_data_dir": ""}
    variables = environments(wheels)
    assert "XLA_FLAGS" not in variables[DEVICES]
    assert "--version" not in variables
    variables = environments(wheels, gpu_env_xla_cuda_data_dir="/opt/cuda")
    assert variables[DEVICES]["XLA_FLAGS"] == "--xla_gpu_cuda_data_dir=/opt/cuda"
