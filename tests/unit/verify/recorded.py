"""A good host as the probe answers it, and the lock's stack it fulfils.

Outputs of nvidia-smi, nvcc and TensorFlow are as the real programs print them on Debian 11.
"""

from __future__ import annotations

import copy
from typing import Any

from provision.verify.checks import Seen
from tests.debian11 import stack

LIBRARY = "/usr/lib/x86_64-linux-gnu/"
SONAMES = {
    "libcudart.so.11.0": ("libcudart11.0", "libcudart.so.11.2.152"),
    "libcusolver.so.11": ("libcusolver11", "libcusolver.so.11.1.0.152"),
    "libcupti.so.11.2": ("libcupti11.2", "libcupti.so.2020.3.1"),
}
ROW: dict[str, Any] = stack(
    nvidia_driver={
        "packages": {
            "userspace": {"libcuda1": "470.256.02-2"},
            "kernel": {"nvidia-kernel-dkms": "470.256.02-2"},
        },
    },
    cuda={
        "packages": {
            "runtime": {"libcusolver11": "11.1.0.152~11.2.2-3+deb11u3"},
            "toolkit": {
                "libcusolver11": "11.1.0.152~11.2.2-3+deb11u3",
                "nvidia-cuda-toolkit": "11.2.2-3+deb11u3",
            },
        },
        "sonames": {soname: package for soname, (package, _) in SONAMES.items()},
        "files": {"ptxas": {"path": "/usr/bin/ptxas", "package": "nvidia-cuda-toolkit"}},
    },
    cudnn={},
    gpu_env={},
    tensorflow={"wheels": {"numpy": "1.26.4", "tensorflow": "2.9.3"}},
)
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "XLA_FLAGS": "--xla_gpu_cuda_data_dir=/usr/lib/cuda"}
NVCC = """\
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2021 NVIDIA Corporation
Built on Sun_Feb_14_21:12:58_PST_2021
Cuda compilation tools, release 11.2, V11.2.152
Build cuda_11.2.r11.2/compiler.29618528_0
"""
PROC_VERSION = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024
GCC version:  gcc version 10.2.1 20210110 (Debian 10.2.1-6)
"""
SMI = """\
470.256.02, Tesla T4, GPU-1ad0b6b1-0000-0000-0000-000000000001, 00000000:01:00.0, [N/A], 15109 MiB
470.256.02, Tesla T4, GPU-1ad0b6b1-0000-0000-0000-000000000002, 00000000:02:00.0, [N/A], 15109 MiB
"""
SMI_LIST = """\
GPU 0: Tesla T4 (UUID: GPU-1ad0b6b1-0000-0000-0000-000000000001)
GPU 1: Tesla T4 (UUID: GPU-1ad0b6b1-0000-0000-0000-000000000002)
"""


def said(stdout: str = "", stderr: str = "", rc: int = 0) -> dict[str, Any]:
    """A command's answer."""
    return {"rc": rc, "stdout": stdout, "stderr": stderr}


def library(path: str, owner: str | None, **more: Any) -> dict[str, Any]:
    """A library that the loader finds."""
    found = {"loaded": path, "real": path, "error": None, "cached": path, "cached_real": path}
    return found | {"owner": owner, "answer": None} | more


def absent(soname: str) -> dict[str, Any]:
    """A library that the loader does not find, in its own words."""
    error = f"OSError: {soname}: cannot open shared object file: No such file or directory"
    return dict.fromkeys(library("", None), None) | {"error": error}


CUDNN = "/opt/nvidia/cudnn/8.1.0.77-cuda11.2/lib64/libcudnn.so.8.1.0"
PROBE: dict[str, Any] = {
    "format": 1,
    "user": "admin",
    "platform": {
        "distribution": "debian",
        "release": "11",
        "architecture": "x86_64",
        "kernel": "5.10.0-32-amd64",
    },
    "container": False,
    "simulated_gpu": False,
    "nvidia_smi": said(SMI),
    "nvidia_smi_list": said(SMI_LIST),
    "module": {"proc": PROC_VERSION, "sys": "470.256.02", "nouveau": False},
    "pci": [
        {"address": "0000:01:00.0", "class": "0x030200", "device": "0x1eb8"},
        {"address": "0000:01:00.1", "class": "0x040300", "device": "0x10f8"},
        {"address": "0000:02:00.0", "class": "0x030200", "device": "0x1eb8"},
    ],
    "packages": {
        "libcuda1": {"version": "470.256.02-2", "status": "hi"},
        "nvidia-kernel-dkms": {"version": "470.256.02-2", "status": "hi"},
        "libcusolver11": {"version": "11.1.0.152~11.2.2-3+deb11u3", "status": "hi"},
        "nvidia-cuda-toolkit": {"version": "11.2.2-3+deb11u3", "status": "ii"},
    },
    "environment": {where: dict(ENVIRONMENT) for where in ("ssh", "login", "cron", "systemd")},
    "nvcc": {where: said(NVCC) for where in ("ssh", "login", "cron", "systemd")},
    "libraries": {
        soname: library(LIBRARY + file, package) for soname, (package, file) in SONAMES.items()
    },
    "libcuda": library(LIBRARY + "nvidia/current/libcuda.so.470.256.02", "libcuda1"),
    "files": {"ptxas": {"path": "/usr/bin/ptxas", "exists": True, "owner": "nvidia-cuda-toolkit"}},
    "receipt": {"lock_digest": "sha256:abc", "stack": "s1", "written": "2026-11-21T12:00:00Z"},
    "cudnn": library(CUDNN, None, answer="8100", headers="8.1.0", root="/opt/nvidia/cudnn"),
    "tensorflow": {
        "python": "/opt/tensorflow/current/bin/python",
        "wheels": {"numpy": ["1.26.4"], "pandas": ["1.5.3"], "tensorflow": ["2.9.3"]},
        "seconds": 6.1,
        "gpus": {
            "rc": 0,
            "log": "",
            "python": "3.9.2",
            "version": "2.9.3",
            "built_with_cuda": True,
            "build": {"cuda_version": "11.2", "cudnn_version": "8"},
            "gpus": ["/physical_device:GPU:0", "/physical_device:GPU:1"],
        },
        "trains": {"rc": 0, "log": "", "first": 2.9, "last": 0.01},
        "computes": {
            "rc": 0,
            "log": "",
            "devices": {
                f"/device:GPU:{n}": {
                    "on": f"/job:localhost/replica:0/task:0/device:GPU:{n}",
                    "error": 0.0,
                }
                for n in range(2)
            },
        },
    },
}


def host(changes: dict[str, Any] | None = None, **more: Any) -> Seen:
    """The good host, with what `changes` says at dotted paths ("module.sys") put in its place.

    A path that the good host does not have is an error: a misspelt one would test nothing.
    """
    probe = copy.deepcopy(PROBE)
    for path, value in (changes or {}).items():
        *parents, last = path.split("/")
        place = probe
        for name in parents:
            place = place[name]
        if last not in place and last not in ("missing", "error"):
            raise KeyError(path)
        place[last] = value
    options = {"row": ROW, "options": {}, "probe": probe, "lock_digest": "sha256:abc"}
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
    seen = host()
    probe = seen.probe
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
    for path, value in (changes or {}).items():
        *parents, last = path.split("/")
        place = probe
        for name in parents:
            place = place[name]
        if last not in place and last != "missing":
            raise KeyError(path)
        place[last] = value
    options = {"row": WHEELS_ROW, "options": {}, "probe": probe, "lock_digest": "sha256:abc"}
    return Seen(**(options | more))
