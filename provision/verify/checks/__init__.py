"""What must be true of a proven host: each check turns a probe into a verdict.

Pure functions of the probe's answer and the lock, so that each is tested on recorded good and bad
outputs. A check returns `passed`, `failed` (what is wrong, what cures it) or `not_applicable` with
a reason: a host that can't show something is never counted as passed. What can't be judged because
an earlier check failed is not applicable too: one cause, one failure.

A file holds the checks of one component. They run in the order of the imports here.
"""

from __future__ import annotations

# isort: off
from . import host, nvidia_driver, cuda, cudnn, gpu_env, nvidia_container_toolkit, tensorflow
from . import gpu_workspace, gpu_front_door, receipt

# isort: on
from .answers import facts
from .beside import beside
from .check import CHECKS, Check, Seen, Verdict, failed, not_applicable, passed

__all__ = [
    "CHECKS",
    "Check",
    "Seen",
    "Verdict",
    "beside",
    "cuda",
    "cudnn",
    "facts",
    "failed",
    "gpu_env",
    "gpu_front_door",
    "gpu_workspace",
    "host",
    "not_applicable",
    "nvidia_container_toolkit",
    "nvidia_driver",
    "passed",
    "receipt",
    "tensorflow",
]
