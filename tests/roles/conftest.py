"""Hosts for the tests of workspaces."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_stack.components.gpu_workspace import bring, obstacles
from workspace_machine import Machine, stand_in


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    host = Machine(tmp_path)
    stand_in(monkeypatch, tmp_path, host.call)
    monkeypatch.setattr(obstacles, "opened", lambda *_told: 0)
    return host


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> Machine:
    monkeypatch.setattr(bring, "_host_key", lambda _place: None)
    return machine
