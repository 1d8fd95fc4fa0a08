"""What holds for all tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.collection import ROOT, loaded

# Tests never assert times: on a loaded machine a slow example is not a wrong one.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


@pytest.fixture
def bound() -> Iterator[None]:
    """Where waiting for ever is the defect: it ends the test, and not the whole suite."""

    def fail(*_: Any) -> None:
        raise TimeoutError("it waits for ever")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window (scripts/screenshots.py)."""
    shots = loaded(ROOT / "scripts" / "screenshots.py")
    if shots.program() is None:
        pytest.skip("no chromium on this machine")
    with shots.Browser() as opened:
        yield opened
