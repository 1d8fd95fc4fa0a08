"""Places of cuDNN, for the tests of what brings, unpacks and removes it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "opt" / "nvidia" / "cudnn"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "cudnn.tgz"
