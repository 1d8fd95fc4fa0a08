"""A CUDA that nobody owns, and trees in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rule_states import JOB, PRE, State


def bare(found: dict[str, Any]) -> None:
    found["preflight"]["cuda_users"] = {}


def states() -> Iterator[State]:
    rule = "unowned-cuda"
    path, script = "/usr/local/cuda-10.1", "/etc/profile.d/cuda.sh"
    yield State(
        rule,
        "a CUDA of nobody is put in front",
        {PRE + "usr_local_cuda": {"path": path, "named_in": [script, "/etc/environment"]}},
        (f"({path}) is put in front by {script}, /etc/environment", "move the directory away"),
    )
    lies = {PRE + "usr_local_cuda": {"path": path, "named_in": []}}
    yield State(rule, "it lies there, and nothing names it", lies)
    rule, tree = "cuda-in-use", "/usr/local/cuda-10.2"
    words = (f"pid 4711 of ada uses {tree}, which would be removed: python train.py", "--skip-tags")
    yield State(rule, "a job", {PRE + "cuda_users": {tree: [JOB]}}, words)
    yield State(rule, "nobody uses it", {PRE + "cuda_users": {}})
    yield State(rule, "CUDA is not changed", {PRE + "cuda_users": {tree: [JOB]}}, only=("cudnn",))
