"""Copies of files that are kept before they are replaced: whole, and open to no more users."""

from __future__ import annotations

import builtins
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_container_toolkit import (
    cdi,
    cdi_specification,
    crio_runtime,
    kept_files,
)
from gpu_stack.host import kept_copies, managed_files, other_sources
from gpu_stack.host.context import Context, Result

TEXT = "deb https://ada:secret@mirror.test/x /\ndeb http://deb.debian.org/ x y\n"


def daemon_file(host: Path) -> Path:
    path = str(host / "etc/docker/daemon.json")
    saved, status = kept_files.keep(path)
    kept_files.replace(path, "{}\n", status)
    assert saved is not None
    return Path(saved)


def whole_file(host: Path) -> Path:
    entry = managed_files.Entry("/etc/docker/daemon.json", "{}\n", backup=True)
    managed_files.bring(Context(root=str(host)), [entry])
    (copy,) = (host / "etc/docker").glob("daemon.json.*~")
    return copy


def package_source(host: Path) -> Path:
    other_sources._save(str(host / "etc/docker/daemon.json"), "{}\n")
    return host / "etc/docker/daemon.json.provision-saved"


def specification(host: Path) -> Path:
    (host / "etc/cdi").mkdir()
    (host / "etc/docker/daemon.json").rename(host / cdi.ETC[1:])
    name = cdi_specification._keep(Context(root=str(host)), cdi.ETC)
    cdi_specification.replace(str(host / cdi.ETC[1:]), "{}\n")
    return host / name[1:]


KEEPERS = [daemon_file, whole_file, package_source, specification]


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with a file that root alone may read."""
    path = tmp_path / "etc/docker/daemon.json"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    path.chmod(0o600)
    os.utime(path, ns=(1_000_000_007, 2_000_000_011))
    return tmp_path


@pytest.mark.parametrize("keep", KEEPERS)
def test_at_no_time_others_can_open_the_copy_of_a_file_that_they_cannot(
    host: Path, monkeypatch: pytest.MonkeyPatch, keep: Callable[[Path], Path]
) -> None:
    modes: dict[int, set[int]] = {}
    functions: list[tuple[Any, str]] = [
        (builtins, "open"), (os, "open"), (os, "chmod"), (os, "fchmod"), (os, "replace")
    ]  # fmt: skip

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            answer = function(*arguments, **more)
            for path in filter(os.path.isfile, host.rglob("*")):
                info = os.stat(path)
                modes.setdefault(info.st_ino, set()).add(stat.S_IMODE(info.st_mode))
            return answer

        return call

    before = os.umask(0o022)
    try:
        for place, name in functions:
            monkeypatch.setattr(place, name, noted(getattr(place, name)))
        copy = keep(host)
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert copy.read_text() == TEXT
    assert modes[copy.stat().st_ino] == {0o600}


@pytest.mark.parametrize("keep", KEEPERS)
def test_the_copy_is_on_the_disk_before_the_file_is_replaced(
    host: Path, monkeypatch: pytest.MonkeyPatch, keep: Callable[[Path], Path]
) -> None:
    calls: list[int | str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        calls.append(os.fstat(handle).st_ino)
        fsync(handle)

    def replaced(source: str, target: str) -> None:
        calls.append(target)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    copy = keep(host)
    (replacement,) = [at for at, call in enumerate(calls) if isinstance(call, str)]
    assert calls[:replacement][:2] == [copy.stat().st_ino, copy.parent.stat().st_ino]


@pytest.mark.parametrize("keep", KEEPERS)
def test_the_copy_has_the_mode_and_the_time_of_the_file(
    host: Path, keep: Callable[[Path], Path]
) -> None:
    (host / "etc/docker/daemon.json").chmod(0o640)
    info = keep(host).stat()
    assert (stat.S_IMODE(info.st_mode), info.st_mtime_ns) == (0o640, 2_000_000_011)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("keep", KEEPERS)
def test_the_copy_has_the_owner_of_the_file(host: Path, keep: Callable[[Path], Path]) -> None:
    os.chown(host / "etc/docker/daemon.json", 65534, 65533)
    info = keep(host).stat()
    assert (info.st_uid, info.st_gid) == (65534, 65533)


def test_what_is_there_is_not_written_over_and_a_copy_that_fails_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("new")
    (tmp_path / "theirs").write_text("old")
    (tmp_path / "copy").symlink_to("theirs")
    with pytest.raises(FileExistsError):
        kept_copies.keep(str(tmp_path / "file"), str(tmp_path / "copy"))
    assert (tmp_path / "theirs").read_text() == "old"

    def full(_handle: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        kept_copies.keep(str(tmp_path / "file"), str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_at_no_time_others_can_read_a_drop_in_that_crio_is_tried_with(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = host / crio_runtime.PLACE[1:]
    place.mkdir(parents=True)
    (place / "50-theirs.conf").write_text(TEXT)
    (host / "tmp").mkdir()
    monkeypatch.setattr(crio_runtime.tempfile, "tempdir", str(host / "tmp"))
    modes: set[int] = set()
    tried: list[str] = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            answer = function(*arguments, **more)
            for path in (host / "tmp").iterdir():
                modes.add(stat.S_IMODE(path.stat().st_mode))
            return answer

        return call

    def crio(argv: list[str]) -> Result:
        folder = Path(argv[argv.index("--config-dir") + 1])
        tried.extend(sorted(path.name for path in folder.iterdir()))
        return Result(0, "dump", "")

    role = crio_runtime.Crio(Context(root=str(host), runner=crio), lambda _unit: Result(0, "", ""))
    with monkeypatch.context() as patches:
        for name in ("mkdir", "open", "chmod"):
            patches.setattr(os, name, noted(getattr(os, name)))
        patches.setattr(builtins, "open", noted(open))
        assert role._tried("ours") == "dump"
    assert tried == ["50-theirs.conf", os.path.basename(crio_runtime.DROPIN)]
    assert modes == {0o700}
    assert list((host / "tmp").iterdir()) == []
