"""What somebody changed in cuDNN's tree stays when the tree is unpacked again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cudnn_archives import CUDA, HEADER, LIBRARY, NAME, VERSION, nvidia, pack
from gpu_stack.components.cudnn import bring, layout, versions
from gpu_stack.components.cudnn.layout import Version
from gpu_stack.host.context import Context

NO_SOURCES = bring.Sources("", "", to_come=False, urls=[], proxy="", ca_bundle="")


class Host:
    """A host with cuDNN as its archive has it."""

    def __init__(self, place: Path) -> None:
        self.archive = place / "cudnn.tgz"
        self.root = place / "cudnn"
        self.tree = self.root / NAME
        self.version = Version(str(self.root), VERSION, CUDA, pack(self.archive, nvidia()))
        assert self.again() == []

    def again(self) -> list[str]:
        """The backups of unpacking it again; the tree is complete then."""
        done = versions.put(Context(), self.version, str(self.archive), again=True)
        assert versions.differences(Context(deep=True), self.version) == []
        assert not [name for name in os.listdir(self.root) if name.startswith(".staging")]
        backup: list[str] = done["backup"]
        return backup


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def below(folder: str) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in Path(folder).rglob("*")
        if path.is_symlink() or not path.is_dir()
    )


def test_files_that_somebody_changed_or_added_are_kept_and_no_others(host: Host) -> None:
    (host.tree / "include/cudnn_version.h").write_text("#define CUDNN_MAJOR 9\n")
    library = host.tree / "lib64/libcudnn.so.8.1.0"
    library.write_bytes(LIBRARY[:-1] + b"?")
    os.utime(library, (1, 1))  # as `cp -p` leaves it
    (host.tree / "lib64/libcudnn.so").unlink()
    (host.tree / "lib64/libcudnn.so").symlink_to("/opt/theirs.so")
    (host.tree / "lib").symlink_to("lib64")
    (host.tree / "samples").mkdir()
    (host.tree / "samples/mine.c").write_text("int x;\n")
    (kept,) = host.again()
    assert kept.startswith(f"{host.tree}.backup-")
    assert below(kept) == [
        "include/cudnn_version.h", "lib", "lib64/libcudnn.so", "lib64/libcudnn.so.8.1.0",
        "samples/mine.c",
    ]  # fmt: skip
    assert Path(kept, "include/cudnn_version.h").read_text() == "#define CUDNN_MAJOR 9\n"
    assert Path(kept, "lib64/libcudnn.so.8.1.0").read_bytes() == LIBRARY[:-1] + b"?"
    assert os.readlink(f"{kept}/lib64/libcudnn.so") == "/opt/theirs.so"
    assert (host.tree / "include/cudnn_version.h").read_bytes() == HEADER
    # It is no version of cuDNN's to anybody.
    assert versions.look(Context(), host.version)["others"] == []
    assert host.again() == []
    assert below(kept)


def test_nothing_is_kept_of_what_is_gone_or_has_another_mode(host: Host) -> None:
    (host.tree / "lib64/libcudnn.so.8.1.0").chmod(0o777)
    (host.tree / "include/cudnn_version.h").unlink()
    (host.tree / "empty").mkdir()
    assert host.again() == []
    assert sorted(os.listdir(host.root)) == [NAME]


def test_files_of_a_version_that_goes_are_kept_where_somebody_changed_or_added_them(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring, "JOB", str(tmp_path / "job"))
    monkeypatch.setattr(layout, "TREES", str(tmp_path / "cuda-*"))
    (host.tree / "include/cudnn_version.h").write_text("mine")
    (host.tree / "samples").mkdir()
    (host.tree / "samples/mine.c").write_text("int x;\n")
    newer = host.archive.with_name("newer.tgz")
    digest = pack(newer, nvidia(header=HEADER.replace(b"MINOR 1", b"MINOR 2")))
    version = Version(str(host.root), "8.2.0.53", CUDA, digest)
    versions.put(Context(), version, str(newer))
    manner = bring.Manner(reinstall=False, keep_old=False, links=None)
    done = bring.present(Context(), version, NO_SOURCES, manner, check_mode=False)
    assert done["removed"] == [NAME]
    (kept,) = done["backup"]
    assert kept.startswith(f"{host.tree}.backup-")
    assert below(kept) == ["include/cudnn_version.h", "samples/mine.c"]
    assert not host.tree.exists()
    assert bring.present(Context(), version, NO_SOURCES, manner, check_mode=False)["backup"] == []


def test_what_can_not_be_kept_is_not_replaced(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_words: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    header = host.tree / "include/cudnn_version.h"
    header.write_text("mine")
    monkeypatch.setattr(versions.os, "link", full)
    with pytest.raises(versions.RefusalError, match="no space left"):
        host.again()
    assert header.read_text() == "mine"
    assert sorted(os.listdir(host.root)) == [NAME]
