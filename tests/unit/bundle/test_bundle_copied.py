"""A file of a bundle is copied by its hash: read once, or shared with its source by the disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from provision.upstream import exact

BODY = os.urandom(3 << 20)
DIGEST = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(BODY)
    return path


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A stand-in for a file system that shares blocks: the ioctl copies, and is counted."""
    calls: list[int] = []

    def ioctl(target: int, request: int, origin: int) -> int:
        calls.append(request)
        os.write(target, os.pread(origin, os.fstat(origin).st_size, 0))
        return 0

    monkeypatch.setattr(exact.fcntl, "ioctl", ioctl)
    return calls


def refused(*_arguments: Any) -> int:
    raise OSError(95, "Operation not supported")


def test_where_blocks_are_shared_nothing_is_written_and_the_copy_is_hashed(
    source: Path, tmp_path: Path, shared: list[int]
) -> None:
    target = tmp_path / "target"
    assert exact.copied(source, target, DIGEST)
    assert shared == [0x40049409]
    assert target.read_bytes() == BODY
    # A file of its own: no hard link, which would change with the other bundle's.
    assert target.stat().st_ino != source.stat().st_ino
    assert target.stat().st_nlink == source.stat().st_nlink == 1


def test_elsewhere_it_is_read_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact.fcntl, "ioctl", refused)
    read: list[int] = []
    chunks = exact._chunks

    def counted(path: Path) -> Any:
        for chunk in chunks(path):
            read.append(len(chunk))
            yield chunk

    monkeypatch.setattr(exact, "_chunks", counted)
    monkeypatch.setattr(exact.download, "digest", lambda _path: pytest.fail("read again"))
    assert exact.copied(source, tmp_path / "target", DIGEST)
    assert sum(read) == len(BODY)
    assert (tmp_path / "target").read_bytes() == BODY


@pytest.mark.parametrize("can_share", [True, False])
def test_another_file_is_not_taken_and_leaves_nothing(
    source: Path, tmp_path: Path, shared: list[int], monkeypatch: pytest.MonkeyPatch,
    can_share: bool,
) -> None:  # fmt: skip
    if not can_share:
        monkeypatch.setattr(exact.fcntl, "ioctl", refused)
    target = tmp_path / "target"
    target.write_bytes(b"what was there")
    assert not exact.copied(source, target, "0" * 64)
    assert target.read_bytes() == b"what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]
