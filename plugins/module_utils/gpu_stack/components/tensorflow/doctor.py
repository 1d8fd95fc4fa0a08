"""What goes wrong in TensorFlow's environments: wheels that break it, GPUs it has no code for."""

from __future__ import annotations

import re

from ...doctor.case import RUN, Case, clue, run_of
from ...host import gpu_models
from ...tables import TENSORFLOW_TRANSLATED, TENSORFLOW_WITHOUT_CODE
from ...type_checking import TYPE_CHECKING
from .. import tensorflow
from . import rules as tensorflow_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...shapes import Clues, Facts

# Bounds that the wheels of a TensorFlow before this one need, and its wheels' own metadata only
# later say: (before TensorFlow, package, first version that breaks it).
BREAKERS = (
    ((2, 18), "numpy", (2,)),
    ((2, 12), "protobuf", (3, 20)),
    ((2, 18), "protobuf", (5,)),
    ((2, 20), "protobuf", (6,)),
)

CASES = (
    Case(
        "numpy-2",
        "this TensorFlow was built for NumPy 1, and its environment has NumPy 2",
        ("tensorflow/tensorflow#90245",),
        "a run of tensorflow makes the environment what the lock says; by hand, below",
        (
            "provision apply --limit {host} --tags tensorflow",
            "python -m pip install 'numpy<2'",
        ),
        (
            r"_ARRAY_API not found",
            r"A module that was compiled using NumPy 1\.x cannot be run in",
            r"Unable to convert function return value to a Python type",
            r"numpy\.core\.multiarray failed to import",
        ),
        RUN,
    ),
    Case(
        "protobuf",
        "the environment's protobuf is newer than this TensorFlow's generated code",
        ("tensorflow/tensorflow#56266",),
        "a run of tensorflow makes the environment what the lock says; by hand, below",
        (
            "provision apply --limit {host} --tags tensorflow",
            "python -m pip install 'protobuf{bound}'",
        ),
        (
            r"Descriptors cannot (?:not )?be created directly",
            r"cannot import name 'builder' from 'google\.protobuf",
        ),
        RUN,
    ),
    Case(
        "ptx-jit",
        "this TensorFlow has no code for this GPU: its first run compiles for half an hour",
        ("tensorflow/tensorflow#60739", "tensorflow/tensorflow#62320"),
        "wish for TensorFlow 2.16 or newer for this host; the wait comes back whenever the cache "
        "(~/.nv/ComputeCache) is lost or too small",
        ("provision catalog --gpu '{gpu}'", "export CUDA_CACHE_MAXSIZE=4294967296"),
        (
            r"CUDA kernels will be jit-compiled from PTX, which could take 30 minutes or longer",
            r"not built with CUDA kernel binaries compatible with compute capability",
        ),
        "",
    ),
    Case(
        "no-code-for-gpu",
        "this TensorFlow has no code for this GPU, and the driver can't translate what it has",
        (
            "tensorflow/tensorflow#89272",
            "tensorflow/tensorflow#101746",
            "tensorflow/tensorflow#111958",
        ),
        "wish for an older TensorFlow where the GPU is an old one; no wheel up to TensorFlow 2.21 "
        "runs on Blackwell: take such a host out of the group, NVIDIA's own container has code",
        ("provision catalog --gpu '{gpu}'",),
        (
            r"CUDA_ERROR_INVALID_PTX",
            r"PTX version [\d.]+ does not support target 'sm_\d+",
        ),
        "",
    ),
)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _environments(facts: Facts) -> dict[str, dict[str, list[str]]]:
    """{where: {wheel: [versions]}} of the environments of this stack that have a TensorFlow."""
    state = facts["found"]["state"].get("tensorflow") or {}
    environments = {"the current environment": state.get("wheels") or {}}
    for name, venv in (state.get("beside") or {}).items():
        environments[name] = venv.get("wheels") or {}
    return {name: wheels for name, wheels in environments.items() if wheels.get("tensorflow")}


def _broken_wheels(facts: Facts, package: str) -> Clues:
    """Clues of environments whose version of this package is too new for their TensorFlow."""
    clues = []
    for where, wheels in sorted(_environments(facts).items()):
        release = _numbers(wheels["tensorflow"][0])
        bounds = [first for before, name, first in BREAKERS if name == package and release < before]
        for version in wheels.get(package) or []:
            if bounds and _numbers(version) >= bounds[0]:
                evidence = (
                    f"{where} has TensorFlow {wheels['tensorflow'][0]} and {package} {version}"
                )
                bound = "<" + ".".join(map(str, bounds[0]))
                clues.append(clue(evidence, bound=bound))
    return clues


def numpy_2(facts: Facts) -> Clues:
    """Clues of environments with NumPy 2 under a TensorFlow built for NumPy 1."""
    return _broken_wheels(facts, "numpy")


def protobuf(facts: Facts) -> Clues:
    """Clues of environments whose protobuf is newer than TensorFlow's generated code."""
    return _broken_wheels(facts, "protobuf")


def ptx_jit(facts: Facts) -> Clues:
    """Clues of GPUs for which TensorFlow's PTX is translated at the first run."""
    return _code_clues(facts, tensorflow_rules.gpu_translated, TENSORFLOW_TRANSLATED)


def no_code_for_gpu(facts: Facts) -> Clues:
    """Clues of GPUs that TensorFlow's wheel does not run on."""
    return _code_clues(facts, tensorflow_rules.gpu_without_code, TENSORFLOW_WITHOUT_CODE)


def _code_clues(
    facts: Facts,
    rule: Callable[..., Iterable[tuple[str, str]]],
    table: tensorflow_rules.Windows,
) -> Clues:
    """A preflight rule's reasons as clues, for the locked TensorFlow, or else the installed one."""
    state = facts["found"]["state"].get("tensorflow") or {}
    row = facts["row"] or {}
    if not row.get("cuda") and state.get("version"):
        row = {tensorflow.NAME: {"version": state["version"]}, "cuda": {"release": "11.2"}}
    if not row.get(tensorflow.NAME) or not row.get("cuda"):
        return []
    reasons = rule(facts["found"], [], facts["options"], row)
    generations = tensorflow_rules.within(table, facts["found"], row[tensorflow.NAME]["version"])
    devices = [gpu.get("device") for gpu in facts["found"]["gpus"]]
    concerned = [device for device in devices if gpu_models.generation(device) in generations]
    # As `provision catalog --gpu` takes it: "10de:2330" of "0x2330".
    gpu = "10de:" + concerned[0][2:] if concerned else None
    return [clue(message, gpu=gpu) for message, _hint in reasons]


CHECKS = {
    "numpy-2": numpy_2,
    "protobuf": protobuf,
    "ptx-jit": ptx_jit,
    "no-code-for-gpu": no_code_for_gpu,
}
FIXES = {
    "numpy-2": run_of("tensorflow"),
    "protobuf": run_of("tensorflow"),
}
