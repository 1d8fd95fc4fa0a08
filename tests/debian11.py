"""The stack that the tests' hosts are to have: TensorFlow 2.9 on Debian 11, as a lock has it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

COMMON: dict[str, dict[str, Any]] = {
    "nvidia_driver": {"branch": "470", "version": "470.256.02"},
    "cuda": {"release": "11.2", "version": "11.2.2"},
    "cudnn": {"version": "8.1.0.77", "cuda": "11.2", "soname": "libcudnn.so.8", "minimum": "8.1.0"},
    "gpu_env": {"xla_cuda_data_dir": "/usr/lib/cuda", "path": [], "library": []},
    "tensorflow": {"version": "2.9.3", "python": "3.9"},
}


def stack(**parts: Mapping[str, Any]) -> dict[str, Any]:
    """The named parts of the stack, each with more than what all tests agree on."""
    return {name: copy.deepcopy({**COMMON[name], **part}) for name, part in parts.items()}
