"""Shells' files that can't be written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_stack.components import gpu_env
from rule_states import State


def bare(found: dict[str, Any]) -> None:
    found["state"]["gpu_env"]["left"] = {}


def states() -> Iterator[State]:
    left, rule = "found/state/gpu_env/left", "bashrc-user"
    words = ("gpu_env_bashrc_users names ada: this host has no such user", "make the account")
    yield State(rule, "a user who is not there", {left: {"ada": gpu_env.NO_USER}}, words)
    yield State(rule, "everybody's is as it should be", {left: {}})
    yield State(rule, "the environment is not changed", {left: {"ada": gpu_env.NO_USER}},
                only=("cuda",))  # fmt: skip
    rule, why = "bashrc-left", "it is not a regular file"
    words = ("~ada/.bashrc is left alone: it is not a regular file", "let ada see to it")
    yield State(rule, "a named pipe in its place", {left: {"ada": why}}, words)
    yield State(rule, "a file", {left: {}})
