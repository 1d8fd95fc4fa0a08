"""Keys that the tests sign repositories with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.generator.signed_repository import Key


@pytest.fixture(scope="session")
def homes() -> Iterator[Path]:
    """gpg's sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="gpg", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def key(homes: Path) -> Key:
    return Key(homes / "key")


@pytest.fixture(scope="session")
def other(homes: Path) -> Key:
    return Key(homes / "other", "other")
