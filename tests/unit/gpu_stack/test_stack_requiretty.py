"""A sudo that wants a terminal: said with its way out, and never a run that nothing holds."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.collection import loaded

PLUGINS = Path(__file__).parents[3] / "plugins" / "action"
SUDO = "sudo: sorry, you must have a tty to run sudo"


def plugin(name: str) -> Any:
    return loaded(PLUGINS / f"{name}.py")


def hold(monkeypatch: pytest.MonkeyPatch, script: str) -> dict[str, Any]:
    """What the task that holds the host returns, where this is all that its ssh does."""
    module = plugin("gpu_hold")
    action = object.__new__(module.ActionModule)
    action._places = {}
    monkeypatch.setattr(module.ActionModule, "_become", lambda _self: None)
    monkeypatch.setattr(module.ActionModule, "_get_remote_user", lambda _self: "lab")
    monkeypatch.setenv("PROVISION_HOLD_REQUEST", '{"run": "a1"}')
    ours, theirs = socket.socketpair()
    with ours, theirs:
        answer: dict[str, Any] = action._hold(["/bin/sh", "-c", script], ours.fileno(), "gpu01")
    return answer


def test_a_run_that_cannot_hold_the_host_for_want_of_a_terminal_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With Defaults requiretty the lock was never made, and nobody was told."""
    answer = hold(monkeypatch, f"cat >/dev/null & echo '{SUDO}' >&2; exit 1")
    assert answer["failed"] is True
    assert "Defaults:lab !requiretty" in answer["msg"]
    assert "Nothing was changed" in answer["msg"]


def test_a_host_that_is_not_held_for_another_reason_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = hold(monkeypatch, "echo 'no such luck' >&2; exit 1")
    assert answer["held"] is False
    assert "failed" not in answer
    assert answer["warnings"] == [
        "this host is not held for the run, and another may begin beside it: no such luck"
    ]


def test_the_look_says_what_to_do_about_a_sudo_that_wants_a_terminal() -> None:
    module = plugin("gpu_state")
    assert "`Defaults:lab !requiretty`" in module.wants_terminal(SUDO + "\n", "lab")
    assert "`Defaults:USER !requiretty`" in module.wants_terminal(SUDO, "")
    assert module.wants_terminal("sudo: a password is required", "lab") is None
