"""A CUDA that nobody owns."""

from __future__ import annotations

from collections.abc import Iterator

from rule_states import PRE, State


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
