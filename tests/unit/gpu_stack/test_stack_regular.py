"""Files that a user of the host may have put there: never waited for, never followed elsewhere."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from gpu_stack.components import gpu_env
from gpu_stack.components.gpu_env import removal
from gpu_stack.doctor import libraries
from gpu_stack.host import regular
from gpu_stack.host.context import Context

from tests.host_tree import put

NOBODY = ("nobody", 65534, 65534)
pytestmark = pytest.mark.usefixtures("bound")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user's files need root")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that others can reach, as a home is."""
    for directory in (tmp_path, *tmp_path.parents[:3]):
        if directory.stat().st_uid == os.geteuid() and directory != Path("/tmp"):
            directory.chmod(0o755)
    return tmp_path


def test_a_fifo_in_place_of_a_users_bashrc_hangs_no_look(tmp_path: Path) -> None:
    put(tmp_path, "/etc/passwd", "ada:x:1000:1000::/home/ada:/bin/bash\n")
    (tmp_path / "home/ada").mkdir(parents=True)
    os.mkfifo(tmp_path / "home/ada/.bashrc")
    context = Context(root=str(tmp_path), options={"gpu_env_bashrc_users": ["ada"]})
    seen = gpu_env.look(context)
    assert seen["bashrc"] == {"ada": None}
    assert seen["left"] == {"ada": "it is not a regular file"}
    assert removal.remains(context, []) == []
    changes = gpu_env.differ({"gpu_env": {}}, seen, {"gpu_env_bashrc_users": ["ada"]})
    assert "~ada/.bashrc" not in [change["item"] for change in changes]


def test_a_fifo_named_like_an_archive_hangs_no_doctor(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    os.mkfifo(tmp_path / "tmp/cudnn-8.tgz")
    (tmp_path / "tmp/cudnn-9.tgz").write_text("<!DOCTYPE html>")
    assert libraries.pages(Context(root=str(tmp_path))) == ["/tmp/cudnn-9.tgz"]


def test_a_user_who_is_not_there_is_a_change_that_preflight_stops(tmp_path: Path) -> None:
    options = {"gpu_env_bashrc_users": ["ada"]}
    seen = gpu_env.look(Context(root=str(tmp_path), options=options))
    assert seen["left"] == {"ada": gpu_env.NO_USER}
    assert "~ada/.bashrc" in [
        change["item"] for change in gpu_env.differ({"gpu_env": {}}, seen, options)
    ]


def content(path: str) -> bytes:
    with os.fdopen(regular.open_regular(path), "rb") as file:
        return file.read()


@pytest.mark.parametrize("kind", ["fifo", "socket", "directory"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
        else:
            server.bind(str(path))
        with pytest.raises(OSError, match=r"."):
            content(str(path))
        assert regular.read_own(("me", os.geteuid(), 0), str(path))[0] is None


def test_a_file_that_is_too_long_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a" * 11)
    monkeypatch.setattr(regular, "LIMIT", 11)
    assert Context().read_bytes(str(path)) == b"a" * 11
    monkeypatch.setattr(regular, "LIMIT", 10)
    assert Context().read_bytes(str(path)) is None
    content, fault = regular.read_own(("me", os.geteuid(), 0), str(path), limit=10)
    assert (content, fault) == (None, "it is larger than 0 KiB")


def test_own_links_are_followed_and_loops_end(tmp_path: Path) -> None:
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "real/inner/file").write_text("here")
    (tmp_path / "a").symlink_to("real/inner")
    (tmp_path / "b").symlink_to(tmp_path / "a" / ".." / "inner" / "file")
    (tmp_path / "loop").symlink_to("loop")
    assert content(str(tmp_path / "a/file")) == b"here"
    assert content(str(tmp_path / "b")) == b"here"
    for bad in ("loop", "loop/file", "a/file/x", "a/none", "a"):
        with pytest.raises(OSError, match=r"."):
            content(str(tmp_path / bad))


@needs_root
@pytest.mark.parametrize("where", ["last", "middle"])
def test_a_users_link_is_not_followed_by_root(place: Path, where: str) -> None:
    (place / "secret").mkdir()
    (place / "secret/file").write_text("root's")
    link = place / "link"
    link.symlink_to("secret" if where == "middle" else "secret/file")
    path = str(link / "file" if where == "middle" else link)
    assert content(path) == b"root's"
    os.chown(link, 65534, 65534, follow_symlinks=False)
    with pytest.raises(PermissionError):
        content(path)
    assert Context().read(path) is None


@needs_root
def test_a_users_own_file_is_read_with_that_users_rights(place: Path) -> None:
    home = place / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    secret = place / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    bashrc = home / ".bashrc"
    bashrc.symlink_to(secret)
    content, fault = regular.read_own(NOBODY, str(bashrc))
    assert content is None
    assert fault == "it can't be read (Permission denied)"
    dotfiles = home / "dotfiles"
    dotfiles.write_text("mine")
    bashrc.unlink()
    bashrc.symlink_to("dotfiles")
    assert regular.read_own(NOBODY, str(bashrc)) == (b"mine", None)
    os.chown(home, 0, 0)
    content, fault = regular.read_own(NOBODY, str(bashrc))
    assert content == b"mine"
    assert fault == f"its owner can't write in {home}"


def test_a_file_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    me = ("me", os.geteuid(), 0)
    assert regular.read_own(me, str(tmp_path / ".bashrc")) == (None, None)
    content, fault = regular.read_own(me, str(tmp_path / "gone/.bashrc"))
    assert (content, fault) == (None, f"there is no directory {tmp_path}/gone")


def test_a_home_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regular, "_answer", lambda *_: signal.pause())
    content, fault = regular.read_own(("me", os.geteuid(), 0), str(tmp_path), patience=0.2)
    assert (content, fault) == (None, "it could not be read within 0 s")


@pytest.mark.parametrize("name", ["kernel/random/boot_id", "kernel/osrelease"])
def test_what_the_kernel_says_of_itself_is_read(name: str) -> None:
    """Linux refused it, ENOMEM, to who made room for the largest file (2026-11-25)."""
    path = f"/proc/sys/{name}"
    if not os.path.exists(path):
        pytest.skip(f"this machine has no {path}")
    assert Context().read(path) == Path(path).read_text("utf-8")
