"""A small archive with a lock of it, for each test."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.bundle import world as worlds
from tests.unit.bundle.world import World
from tests.unit.generator.signed_repository import Key


@pytest.fixture(scope="session")
def archive_key() -> Iterator[Key]:
    """gpg's sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="gpg", dir="/tmp") as name:
        yield Key(Path(name) / "key")


@pytest.fixture
def world(tmp_path: Path, archive_key: Key, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with worlds.made(tmp_path, archive_key, monkeypatch) as made_world:
        yield made_world
