"""What stands in the way of an environment, of apt's keys and of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rule_states import PRE, State


def bare(found: dict[str, Any]) -> None:
    around = {"sshd_without_pam": None, "trusted_gpg": False, "system_tensorflow": []}
    found["preflight"].update(around)


def states() -> Iterator[State]:
    rule, config = "sshd-pam", "/etc/ssh/sshd_config.d/50-cloud.conf"
    closed = {PRE + "sshd_without_pam": config}
    words = (f"sshd does not use PAM ({config})", "UsePAM yes", "SetEnv XLA_FLAGS")
    yield State(rule, "sshd does not use PAM", closed, words)
    yield State(rule, "sshd uses PAM", {PRE + "sshd_without_pam": None})
    yield State(rule, "the environment is not changed", closed, only=("cuda",))
    rule = "trusted-gpg"
    yield State(
        rule,
        "apt trusts keys for every repository",
        {PRE + "trusted_gpg": True},
        ("the keys in /etc/apt/trusted.gpg for every repository", "signed-by"),
    )
    yield State(rule, "it trusts none so", {PRE + "trusted_gpg": False})
    rule = "system-tensorflow"
    there = {PRE + "system_tensorflow": ["2.9.1 in /usr/local/lib/python3.9/dist-packages"]}
    words = ("(2.9.1 in /usr/local/lib/python3.9/dist-packages)", "pip uninstall tensorflow")
    yield State(rule, "the system's Python has a TensorFlow", there, words)
    yield State(rule, "it has none", {PRE + "system_tensorflow": []})
    yield State(rule, "TensorFlow is not changed", there, only=("cuda",))
