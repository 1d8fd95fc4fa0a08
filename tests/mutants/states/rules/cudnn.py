"""cuDNN's archive is to come from the controller, and is not there; versions in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rule_states import JOB, PRE, State


def bare(found: dict[str, Any]) -> None:
    found["preflight"]["cudnn_users"] = {}


def states() -> Iterator[State]:
    rule, gone = "cudnn-archive", {"cudnn_archive_absent": "/srv/cudnn.tgz"}
    words = ("cudnn_controller_file is /srv/cudnn.tgz", "cuDNN 8.5.0.96 for CUDA 11.2", "SHA-256 ")
    yield State(rule, "the controller has no archive", {"options": gone}, words)
    yield State(rule, "it has", {"options": {"cudnn_archive_absent": ""}})
    yield State(rule, "cuDNN is not changed", {"options": gone}, only=("cuda",))
    bundled = {"options": {**gone, "gpu_bundle": "/srv/lab"}}
    yield State(rule, "a bundle has it", {**bundled, PRE + "bundle": None})
    rule, users = "cudnn-in-use", {PRE + "cudnn_users": {"8.5.0.96-cuda11.2": [JOB]}}
    words = ("uses cuDNN 8.5.0.96-cuda11.2, which would be removed: python", "cudnn_keep_old: true")
    yield State(rule, "a job", users, words)
    yield State(rule, "nobody uses it", {PRE + "cudnn_users": {}})
    yield State(rule, "cuDNN is not changed", users, only=("cuda",))
