"""Entries of directories: what is removed, and what stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpu_stack.host import directory_entries


def test_an_entry_goes_whatever_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder" / "below").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken").symlink_to("nowhere")
    for name in ("file", "folder", "pipe", "broken", "none"):
        directory_entries.remove(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_of_a_link_only_the_link_goes(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").touch()
    (tmp_path / "link").symlink_to("theirs")
    directory_entries.remove(str(tmp_path / "link"))
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]
    assert (tmp_path / "theirs" / "file").exists()


def test_a_directory_alone_is_written_to_the_disk(tmp_path: Path) -> None:
    directory_entries.sync(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        directory_entries.sync(str(tmp_path / "file"))
