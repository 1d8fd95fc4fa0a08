"""How often Ansible asks its workers whether one is free."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import ansible.plugins.strategy
import pytest
from ansible_collections.provision.gpu.plugins.plugin_utils import queue_pace

from tests.collection import ROOT


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each sleep; nobody sleeps."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def test_a_busy_wait_sleeps_and_longer_sleeps_are_as_they_were(
    monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    monkeypatch.setattr(ansible.plugins.strategy, "time", time)
    queue_pace.slow_down()
    queue_pace.slow_down()  # a second playbook of the same run
    clock = ansible.plugins.strategy.time
    for seconds in (0.0001, 0.001, 0.01):
        clock.sleep(seconds)
    assert slept == [queue_pace.PAUSE, 0.001, 0.01]
    assert clock.monotonic is time.monotonic


@pytest.mark.parametrize("names", [{}, {"time": 3}])
def test_strategies_that_sleep_otherwise_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, int]
) -> None:
    strategy = SimpleNamespace(**names)
    monkeypatch.setattr(queue_pace, "strategy", strategy)
    queue_pace.slow_down()
    assert vars(strategy) == names


@pytest.mark.parametrize("environment", [".venv", ".venv-oldest"])
def test_ansible_still_waits_as_described(environment: str) -> None:
    """Where it no longer does, queue_pace can go."""
    (source,) = Path(ROOT, environment).glob("lib/*/site-packages/ansible/plugins/strategy")
    text = (source / "__init__.py").read_text("utf-8")
    queue = text.partition("    def _queue_task(")[2].partition("\n    def ")[0]
    assert "time.sleep(0.0001)" in queue
