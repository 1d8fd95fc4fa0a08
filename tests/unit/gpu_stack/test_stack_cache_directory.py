"""The fleet's cache takes a folder that is its own, and nobody else's is touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_stack.host import cache_directory
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError

PATH = "/srv/lab/cache"
KEPT = "0123456789abcdef0123456789abc3ef"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The root of a host that has /srv/lab."""
    (tmp_path / "srv/lab").mkdir(parents=True)
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755)
    return tmp_path


@pytest.fixture
def place(host: Path) -> Path:
    """A cache at work: one file of nginx's, and one that it writes."""
    folder = host / "srv/lab/cache"
    inner = folder / "files/f/3e"
    inner.mkdir(parents=True)
    for name in (KEPT, KEPT + ".0000000012"):
        (inner / name).write_bytes(b"x" * 8192)
    (folder / "lost+found").mkdir()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    return folder


def look(host: Path, size_gb: int = 0) -> int | None:
    room: int | None = cache_directory.look(Context(root=str(host)), PATH, size_gb)["room_gib"]
    return room


def test_a_folder_that_is_not_there_or_is_empty_is_taken(host: Path) -> None:
    assert look(host) is not None
    (host / "srv/lab/cache").mkdir(mode=0o755)
    assert look(host) is not None
    (host / "srv/lab").rename(host / "srv/other")
    assert look(host) is not None


def test_a_cache_at_work_is_its_own(host: Path, place: Path) -> None:
    before = sorted(place.rglob("*"))
    assert look(host) is not None
    assert sorted(place.rglob("*")) == before


def test_what_is_cached_counts_as_room(
    host: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_directory, "_GIB", 4096)
    monkeypatch.setattr(Context, "disk_free", lambda _self, _path: 8 * 4096)
    assert place.exists()
    assert look(host) == 12
    assert look(host, 12) == 12
    with pytest.raises(RefusalError, match=r"has room for 12 GiB.*artifact_cache_size_gb is 13"):
        look(host, 13)
    monkeypatch.setattr(Context, "disk_free", lambda _self, _path: None)
    with pytest.raises(RefusalError, match="has room for an unknown number of GiB"):
        look(host, 1)


def linked(place: Path) -> None:
    place.rename(place.with_name("disk"))
    place.symlink_to("disk")


def as_file(place: Path) -> None:
    place.rename(place.with_name("disk"))
    place.write_text("a file")


def led_into_a_home(place: Path) -> None:
    """Root's link on the way leads to what a user can change."""
    home = place.parents[2] / "home"
    (home / "ada").mkdir(parents=True)
    home.chmod(0o755)
    (home / "ada").chmod(0o777)
    place.parent.rename(place.parents[1] / "old")
    place.parent.symlink_to("/home/ada")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (linked, f"{PATH} is a link, to disk. Name the folder itself."),
        (as_file, f"{PATH} is there, and no folder"),
        (lambda place: os.chown(place, 4711, 4711), f"{PATH} belongs to user 4711, and"),
        (lambda place: place.chmod(0o775), f"others than root can write in {PATH}"),
        (lambda place: place.parent.chmod(0o777), "others than root can change /srv/lab, and so"),
        (led_into_a_home, "others than root can change /home/ada, and so put"),
        (lambda place: (place / "thesis.tex").touch(), f"{PATH} has what is not the cache's: the"),
        (lambda place: (place / "files/thesis.tex").touch(), f"{PATH}/files has what is not"),
        (lambda place: (place / "files/f/3e/thesis.tex").touch(), "/files/f/3e has what is not"),
        (lambda place: (place / f"files/f/{KEPT}").touch(), "/files/f has what is not"),
        (lambda place: (place / "files/f/3e" / KEPT[::-1]).mkdir(), "/files/f/3e has what is not"),
        (lambda place: (place / "files/a").symlink_to("/etc"), f"{PATH}/files has what is not"),
        (lambda place: os.chown(place / "files/f", 4711, 0), f"{PATH}/files has what is not"),
        (lambda place: os.chown(place / "files", 4711, 0), f"{PATH} has what is not the cache's"),
    ],
)
def test_what_is_somebody_elses_is_refused_and_left(
    host: Path, place: Path, damage: Callable[[Path], object], words: str
) -> None:
    if os.geteuid() and "chown" in damage.__code__.co_names:
        pytest.skip("only root gives a folder away")
    damage(place)
    before = [(path, path.lstat().st_uid) for path in sorted(host.rglob("*"))]
    with pytest.raises(RefusalError) as caught:
        look(host)
    assert str(caught.value).startswith("artifact_cache_directory: ")
    assert words in str(caught.value)
    assert str(caught.value).endswith("Nothing was changed.")
    assert [(path, path.lstat().st_uid) for path in sorted(host.rglob("*"))] == before


def test_several_strange_names_are_counted(host: Path, place: Path) -> None:
    for name in "dcba":
        (place / name).touch()
    with pytest.raises(RefusalError, match=r"not the cache's: a, b, c and 1 more\."):
        look(host)


def test_what_nginx_deletes_meanwhile_is_passed_over(
    host: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listdir = Context.listdir

    def late(self: Context, path: str) -> list[str]:
        names = listdir(self, path)
        if path.endswith("/3e"):
            (place / "files/f/3e" / KEPT).unlink()
        return names

    monkeypatch.setattr(Context, "listdir", late)
    assert look(host) is not None
