"""A good host as the probe answered it, and the lock's stack it fulfils: few of each kind.

It is the machine of the checks' states (check_states.py), whose lock names two packages of the
driver and of CUDA, three libraries, one file and two wheels, so that a test can count them.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from provision.verify.checks import Seen

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

import check_states
from check_states import LIBRARIES as LIBRARY
from check_states import absent, library, mutated, said

__all__ = ["LIBRARY", "absent", "check_states", "library", "said"]


def only(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """These of what is there."""
    return lambda there: {name: there[name] for name in names}


DRIVER, KERNEL = "libcuda1", "nvidia-kernel-dkms"
CUDA = ("libcusolver11", "nvidia-cuda-toolkit")
SONAMES = ("libcudart.so.11.0", "libcusolver.so.11", "libcupti.so.11.2")
GOOD = mutated(
    check_states.machine(),
    {
        "row/nvidia_driver/packages": only("userspace", "kernel"),
        "row/nvidia_driver/packages/userspace": only(DRIVER),
        "row/nvidia_driver/packages/kernel": only(KERNEL),
        "row/cuda/packages/runtime": only("libcusolver11"),
        "row/cuda/packages/toolkit": only(*CUDA),
        "row/cuda/sonames": only(*SONAMES),
        "row/cuda/files": only("ptxas"),
        "row/tensorflow/wheels": only("numpy", "tensorflow"),
        "probe/packages": only(DRIVER, KERNEL, *CUDA),
        "probe/libraries": only(*SONAMES),
        "probe/files": only("ptxas"),
    },
)
ROW: dict[str, Any] = GOOD["row"]
PROBE: dict[str, Any] = GOOD["probe"]
DIGEST: str = GOOD["lock_digest"]
SMI: str = PROBE["nvidia_smi"]["stdout"]
SMI_LIST: str = PROBE["nvidia_smi_list"]["stdout"]
NVCC: str = PROBE["nvcc"]["ssh"]["stdout"]


def host(changes: dict[str, Any] | None = None, **more: Any) -> Seen:
    """The good host, with what `changes` says at paths of the probe ("module/sys")."""
    probe = mutated(copy.deepcopy(PROBE), changes or {})
    options = {"row": ROW, "options": {}, "probe": probe, "lock_digest": DIGEST}
    return Seen(**(options | more))


# The same host with a stack whose CUDA and cuDNN are wheels of TensorFlow's.
WHEELS_ROW: dict[str, Any] = {
    "nvidia_driver": ROW["nvidia_driver"],
    "gpu_env": {"xla_cuda_data_dir": "", "path": [], "library": []},
    "tensorflow": {
        "version": "2.20.0",
        "python": "3.13",
        "cuda_source": "wheels",
        "sonames": {
            "libcudart.so.12": "nvidia-cuda-runtime-cu12",
            "libcudnn.so.9": "nvidia-cudnn-cu12",
            "libcusolver.so.11": "nvidia-cusolver-cu12",
        },
        "wheels": {"nvidia-cudnn-cu12": "9.3.0.75", "tensorflow": "2.20.0"},
    },
}
NVIDIA = "/opt/tensorflow/current/lib/python3.13/site-packages/nvidia/"


def wheels_host(changes: dict[str, Any] | None = None, **more: Any) -> Seen:
    """The good host of that stack, changed as in `host`."""
    probe = host().probe
    for part in ("cudnn", "libraries", "files"):
        del probe[part]
    for where in probe["nvcc"]:
        probe["nvcc"][where] = said("", "nvcc: command not found", 127)
        probe["environment"][where] = {"PATH": "/usr/bin:/bin", "XLA_FLAGS": None}
    tensorflow = probe["tensorflow"]
    tensorflow["wheels"] = {"nvidia-cudnn-cu12": ["9.3.0.75"], "tensorflow": ["2.20.0"]}
    tensorflow["gpus"] |= {
        "python": "3.13.5",
        "version": "2.20.0",
        "build": {"cuda_version": "12.5.1", "cudnn_version": "9"},
    }
    tensorflow["cuda_wheels"] = {
        "rc": 0,
        "log": "",
        "libraries": {
            soname: {"path": f"{NVIDIA}{folder}/lib/{soname}", "error": None}
            for soname, folder in (
                ("libcudart.so.12", "cuda_runtime"),
                ("libcudnn.so.9", "cudnn"),
                ("libcusolver.so.11", "cusolver"),
            )
        },
    }
    return host(**({"row": WHEELS_ROW, "probe": mutated(probe, changes or {})} | more))
