"""gpu_env's program for ~/.bashrc: the user's file, written by that user and nobody else."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "roles" / "gpu_env" / "files" / "bashrc.py"
LINE = ". /etc/profile.d/provision-gpu.sh"
BLOCK = f"# BEGIN provision gpu_env\n{LINE}\n# END provision gpu_env\n"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user's files need root")

_spec = importlib.util.spec_from_file_location("bashrc", PROGRAM)
assert _spec is not None
assert _spec.loader is not None
program: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(program)


@pytest.fixture(autouse=True)
def bound() -> Iterator[None]:
    """A program that waits for ever is the defect: it ends the test, and not the whole suite."""

    def fail(*_: Any) -> None:
        raise TimeoutError("the program waits for ever")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of ada, who is nobody where the tests run as root."""
    uid = 65534 if os.geteuid() == 0 else os.geteuid()
    gid = 65534 if os.geteuid() == 0 else os.getegid()
    for directory in (tmp_path, *tmp_path.parents[:3]):
        if directory.stat().st_uid == os.geteuid() and directory != Path("/tmp"):
            directory.chmod(0o755)
    home = tmp_path / "ada"
    home.mkdir()
    os.chown(home, uid, gid)
    entry = pwd.struct_passwd(("ada", "x", uid, gid, "", str(home), "/bin/bash"))
    monkeypatch.setattr(program.pwd, "getpwnam", lambda name: {"ada": entry}[name])
    monkeypatch.setattr(program.os, "initgroups", lambda _name, gid: os.setgroups([gid]))
    return home


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def run(*arguments: str) -> dict[str, Any]:
        assert program.main([*arguments, LINE, "ada"]) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return run


def own(path: Path, text: str, mode: int = 0o644) -> None:
    """A file of ada's."""
    path.write_text(text)
    path.chmod(mode)
    info = path.parent.stat()
    os.chown(path, info.st_uid, info.st_gid)


def test_the_block_is_put_at_the_top_and_the_old_file_kept(home: Path, run: Any) -> None:
    own(home / ".bashrc", '[ -z "$PS1" ] && return\n', 0o600)
    assert run("--check") == {"changed": [f"{home}/.bashrc"], "left": {}}
    assert (home / ".bashrc").read_text() == '[ -z "$PS1" ] && return\n'
    assert run() == {"changed": [f"{home}/.bashrc"], "left": {}}
    assert (home / ".bashrc").read_text() == BLOCK + '[ -z "$PS1" ] && return\n'
    (backup,) = home.glob(".bashrc.provision-*~")
    assert backup.read_text() == '[ -z "$PS1" ] && return\n'
    for path in (backup, home / ".bashrc"):
        info = path.stat()
        assert (info.st_uid, info.st_mode & 0o777) == (home.stat().st_uid, 0o600)
    assert run() == {"changed": [], "left": {}}
    assert run("--absent") == {"changed": [f"{home}/.bashrc"], "left": {}}
    assert (home / ".bashrc").read_text() == '[ -z "$PS1" ] && return\n'
    assert run("--absent") == {"changed": [], "left": {}}


def test_a_file_is_made_where_none_is_and_none_is_made_to_remove_from_it(
    home: Path, run: Any
) -> None:
    assert run("--absent") == {"changed": [], "left": {}}
    assert list(home.iterdir()) == []
    run()
    assert (home / ".bashrc").read_text() == BLOCK
    assert [one.name for one in home.iterdir()] == [".bashrc"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\n# BEGIN provision gpu_env\nold\n# END provision gpu_env\nb\n", BLOCK + "a\nb\n"),
        ("# END provision gpu_env\na\n# BEGIN provision gpu_env\n", BLOCK + "a\n"),
        (BLOCK + "a\n" + BLOCK, BLOCK + "a\n"),
        ("a\n" + BLOCK + "b\n", "a\n" + BLOCK + "b\n"),
        ("no newline", BLOCK + "no newline"),
    ],
)
def test_one_block_is_left_whatever_was_there(before: str, after: str) -> None:
    assert program.wanted(before.encode(), LINE) == after.encode()


def test_a_link_into_dotfiles_stays_a_link(home: Path, run: Any) -> None:
    (home / "dotfiles").mkdir()
    os.chown(home / "dotfiles", home.stat().st_uid, home.stat().st_gid)
    own(home / "dotfiles/bashrc", "mine\n")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    assert run() == {"changed": [f"{home}/dotfiles/bashrc"], "left": {}}
    assert (home / ".bashrc").is_symlink()
    assert (home / "dotfiles/bashrc").read_text() == BLOCK + "mine\n"


def test_a_fifo_in_its_place_is_told_and_not_waited_for(home: Path, run: Any) -> None:
    os.mkfifo(home / ".bashrc")
    assert run() == {"changed": [], "left": {"ada": "is not a regular file"}}


@pytest.mark.parametrize("text", ["x" * (program.LIMIT + 1)])
def test_a_file_larger_than_any_bashrc_is_left_alone(home: Path, run: Any, text: str) -> None:
    own(home / ".bashrc", text)
    assert run() == {"changed": [], "left": {"ada": "is larger than 1024 KiB"}}


def test_who_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    program.main([LINE, "no-such-user"])
    assert json.loads(capsys.readouterr().out)["left"] == {"no-such-user": "there is no such user"}


def test_one_that_does_not_answer_is_given_up(
    home: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "edit", lambda *_: signal.pause())
    monkeypatch.setattr(program, "PATIENCE", 0.2)
    assert run() == {"changed": [], "left": {"ada": "could not be written within 0 s"}}
    assert list(home.iterdir()) == []


@needs_root
@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_link_to_a_file_of_roots_changes_nothing_of_roots(
    home: Path, run: Any, mode: int
) -> None:
    """A user listed in gpu_env_bashrc_users became root: root wrote where the link led."""
    place = home.parent / "roots"
    place.mkdir()
    victim = place / "sudoers"
    victim.write_text("root only\n")
    victim.chmod(mode)
    (home / ".bashrc").symlink_to(victim)
    answer = run()
    assert answer["changed"] == []
    assert "ada" in answer["left"]
    info = victim.stat()
    assert (victim.read_text(), info.st_uid, info.st_mode & 0o777) == ("root only\n", 0, mode)
    assert [one.name for one in place.iterdir()] == ["sudoers"]


@needs_root
def test_a_linked_directory_makes_root_create_nothing(home: Path, run: Any) -> None:
    place = home.parent / "cron.d"
    place.mkdir()
    (home / ".bashrc").symlink_to(place / "job")
    answer = run()
    assert (answer["changed"], list(place.iterdir())) == ([], [])
    assert answer["left"]["ada"].startswith(f"can't be replaced in {place}")


@needs_root
def test_the_child_has_none_of_roots_rights(home: Path, run: Any, monkeypatch: Any) -> None:
    def edit(*_: Any) -> str:
        ids = (os.getresuid(), os.getresgid(), os.getgroups())
        return repr(ids)

    monkeypatch.setattr(program, "edit", edit)
    uid, gid = home.stat().st_uid, home.stat().st_gid
    assert run()["changed"] == [repr(((uid,) * 3, (gid,) * 3, [gid]))]
