"""Our lines in ~/.bashrc: the user's file, written by that user and nobody else."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.gpu_env import shell_startup
from gpu_stack.host import regular
from gpu_stack.host.context import Context

from tests.collection import altered, module, programs

LINE = ". /etc/profile.d/provision-gpu.sh"
BLOCK = f"# BEGIN provision gpu_env\n{LINE}\n# END provision gpu_env\n"
pytestmark = pytest.mark.usefixtures("bound")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user's files need root")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of ada, who is nobody where the tests run as root.

    Not below pytest's own directory, which each pytest that begins closes to everybody else.
    """
    uid = 65534 if os.geteuid() == 0 else os.geteuid()
    gid = 65534 if os.geteuid() == 0 else os.getegid()
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    home = place / "ada"
    home.mkdir()
    os.chown(home, uid, gid)
    entry = pwd.struct_passwd(("ada", "x", uid, gid, "", str(home), "/bin/bash"))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: {"ada": entry}[name])
    monkeypatch.setattr(regular.os, "initgroups", lambda _name, gid: os.setgroups([gid]))
    yield home
    shutil.rmtree(place)


@pytest.fixture
def run() -> Callable[..., dict[str, Any]]:
    def run(*arguments: str) -> dict[str, Any]:
        present, check = "--absent" not in arguments, "--check" in arguments
        answer: dict[str, Any] = shell_startup.write(Context(), ["ada"], present, check)
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
    assert run("--check") == {"files": [f"{home}/.bashrc"], "left": {}}
    assert (home / ".bashrc").read_text() == '[ -z "$PS1" ] && return\n'
    assert run() == {"files": [f"{home}/.bashrc"], "left": {}}
    assert (home / ".bashrc").read_text() == BLOCK + '[ -z "$PS1" ] && return\n'
    (backup,) = home.glob(".bashrc.provision-*~")
    assert backup.read_text() == '[ -z "$PS1" ] && return\n'
    for path in (backup, home / ".bashrc"):
        info = path.stat()
        assert (info.st_uid, info.st_mode & 0o777) == (home.stat().st_uid, 0o600)
    assert run() == {"files": [], "left": {}}
    assert run("--absent") == {"files": [f"{home}/.bashrc"], "left": {}}
    assert (home / ".bashrc").read_text() == '[ -z "$PS1" ] && return\n'
    assert run("--absent") == {"files": [], "left": {}}


def test_a_file_is_made_where_none_is_and_none_is_made_to_remove_from_it(
    home: Path, run: Any
) -> None:
    assert run("--absent") == {"files": [], "left": {}}
    assert list(home.iterdir()) == []
    run()
    assert (home / ".bashrc").read_text() == BLOCK
    assert [path.name for path in home.iterdir()] == [".bashrc"]


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
    assert shell_startup.with_block(before.encode()) == after.encode()


def test_a_link_into_dotfiles_stays_a_link(home: Path, run: Any) -> None:
    (home / "dotfiles").mkdir()
    os.chown(home / "dotfiles", home.stat().st_uid, home.stat().st_gid)
    own(home / "dotfiles/bashrc", "mine\n")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    assert run() == {"files": [f"{home}/dotfiles/bashrc"], "left": {}}
    assert (home / ".bashrc").is_symlink()
    assert (home / "dotfiles/bashrc").read_text() == BLOCK + "mine\n"


def test_a_fifo_in_its_place_is_reported_and_not_waited_for(home: Path, run: Any) -> None:
    os.mkfifo(home / ".bashrc")
    assert run() == {"files": [], "left": {"ada": "is not a regular file"}}


@pytest.mark.parametrize("text", ["x" * (shell_startup.LIMIT + 1)])
def test_a_file_larger_than_any_bashrc_is_left_alone(home: Path, run: Any, text: str) -> None:
    own(home / ".bashrc", text)
    assert run() == {"files": [], "left": {"ada": "is larger than 1024 KiB"}}


def test_who_is_not_there_is_reported() -> None:
    answer = shell_startup.write(Context(), ["no-such-user"], True, False)
    assert answer == {"files": [], "left": {"no-such-user": "there is no such user"}}


def test_one_that_does_not_answer_is_given_up(
    home: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_startup, "edit", lambda *_: signal.pause())
    monkeypatch.setattr(shell_startup, "PATIENCE", 0.2)
    assert run() == {"files": [], "left": {"ada": "could not be written within 0 s"}}
    assert list(home.iterdir()) == []


def test_one_that_somebody_else_changes_meanwhile_is_left_alone(
    home: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(home / ".bashrc", "mine\n")
    create = shell_startup._create

    def slow(path: str, text: bytes, mode: int) -> None:
        create(path, text, mode)
        if path.endswith(".new"):
            (home / ".bashrc").write_text("newer\n")

    monkeypatch.setattr(shell_startup, "_create", slow)
    assert run() == {"files": [], "left": {"ada": "was being changed by somebody else"}}
    assert (home / ".bashrc").read_text() == "newer\n"
    assert list(home.glob("*.new")) == []


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
    assert answer["files"] == []
    assert "ada" in answer["left"]
    info = victim.stat()
    assert (victim.read_text(), info.st_uid, info.st_mode & 0o777) == ("root only\n", 0, mode)
    assert [path.name for path in place.iterdir()] == ["sudoers"]


@needs_root
def test_a_linked_directory_makes_root_create_nothing(home: Path, run: Any) -> None:
    place = home.parent / "cron.d"
    place.mkdir()
    (home / ".bashrc").symlink_to(place / "job")
    answer = run()
    assert (answer["files"], list(place.iterdir())) == ([], [])
    assert answer["left"]["ada"].startswith(f"can't be replaced in {place}")


@needs_root
def test_the_child_has_none_of_roots_rights(home: Path, run: Any, monkeypatch: Any) -> None:
    def edit(*_: Any) -> str:
        ids = (os.getresuid(), os.getresgid(), os.getgroups())
        return repr(ids)

    monkeypatch.setattr(shell_startup, "edit", edit)
    uid, gid = home.stat().st_uid, home.stat().st_gid
    assert run()["files"] == [repr(((uid,) * 3, (gid,) * 3, [gid]))]


# the module, by Ansible itself

HERE = """
def account(context, user):
    return None if user != "ada" else (("ada", {uid}, {gid}), {home!r})


regular.os.initgroups = lambda _name, gid: os.setgroups([gid])
"""


@pytest.fixture
def collection(home: Path, tmp_path: Path) -> Path:
    """The collection on a host where ada has this home."""
    info = home.stat()
    here = HERE.format(uid=info.st_uid, gid=info.st_gid, home=str(home))
    path = "gpu_stack/components/gpu_env/shell_startup.py"
    return altered(tmp_path / "collections", {path: here})


@pytest.mark.parametrize("program", programs("ansible"))
def test_the_module_writes_and_tells_and_leaves_alone(
    home: Path, collection: Path, program: str
) -> None:
    own(home / ".bashrc", "export TOKEN=geheim\n", 0o600)
    given = {"users": ["ada", "eve"]}

    def ask(*more: str, **options: Any) -> tuple[bool, list[str]]:
        wish = {**given, **options}
        answer, output = module(program, "shell_startup", wish, "--diff", *more, path=collection)
        assert "geheim" not in output
        assert answer["left"] == {"eve": "there is no such user"}
        changes = [line for line in output.splitlines() if line[:1] in ("+", "-")]
        assert answer["files"] == ([path] if answer["changed"] else [])
        return answer["changed"], [line for line in changes if line[:3] not in ("+++", "---")]

    path = f"{home}/.bashrc"
    added = [f"+{line}" for line in BLOCK.splitlines()]
    assert ask("--check") == (True, added)
    assert [path.name for path in home.iterdir()] == [".bashrc"]
    assert ask() == (True, added)
    assert (home / ".bashrc").read_text() == BLOCK + "export TOKEN=geheim\n"
    assert ask() == (False, [])
    assert ask(state="absent") == (True, [f"-{line}" for line in BLOCK.splitlines()])
    assert (home / ".bashrc").read_text() == "export TOKEN=geheim\n"
    assert (home / ".bashrc").stat().st_uid == home.stat().st_uid
