"""Where the program keeps what is the user's: without HOME, with odd settings, nowhere."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from provision import ending, home
from provision.cli.commands import lab
from provision.errors import MachineError
from provision.locallab import machine
from tests import called


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user id has no line in /etc/passwd."""

    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)


def test_the_cache_is_where_xdg_says(tmp_path: Path) -> None:
    assert home.cache_directory({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "provision"
    assert home.cache_directory({}) == Path.home() / ".cache" / "provision"
    assert home.cache_directory({"XDG_CACHE_HOME": "relative"}).is_absolute()


def test_labs_have_the_cache_of_the_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The specification ignores a path that is not whole; labs made it in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    for value, place in (("rel", "ada/.cache"), ("", "ada/.cache"), (f"{tmp_path}/x", "x")):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert machine.cache_directory() == tmp_path / place / "provision" / "lab"
    assert not (tmp_path / "rel").exists()


PLACES: dict[str, tuple[Callable[[], object], str]] = {
    "downloads": (lambda: home.cache_directory(), "XDG_CACHE_HOME"),
    "labs": (machine.cache_directory, "XDG_CACHE_HOME"),
    "state of labs": (lab._labs_directory, "XDG_STATE_HOME"),
}


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("place", PLACES)
def test_without_a_home_the_setting_that_helps_is_named(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked, variable = PLACES[place]
    with pytest.raises(MachineError, match="no home directory") as caught:
        asked()
    assert variable in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("command", [("evidence", "gpu07"), ("bundle",)])
def test_without_a_home_a_key_is_to_be_named(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MachineError, match="no home directory") as caught:
        called.provision(*command)
    assert caught.value.where == "~/.ssh/id_ed25519"


def test_a_working_directory_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(FileNotFoundError) as caught:
        os.getcwd()
    error = ending.cause(caught.value)
    assert isinstance(error, MachineError)
    assert "working directory" in error.message
    # Of a file, it is not.
    assert ending.cause(FileNotFoundError(2, "No such file or directory", "x")) is None
