"""Reading a file that is not in the host's cache: where, how much, and what may come of it."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.acceptance import storage

from tests.unit.acceptance.worked import storage as answer

MIB = 2**20


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LARGEST", 3 * MIB)
    monkeypatch.setattr(storage, "LEAST", 2 * MIB)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is on a disk by its words, wherever it is, and forgets what it is told."""
    monkeypatch.setattr(storage, "_kind", lambda _device, _place: "ssd")
    monkeypatch.setattr(storage, "_cached", lambda _handle, _count: False)
    return tmp_path.resolve()


def test_a_file_is_written_and_read_back_and_nothing_is_left(place: Path) -> None:
    measured = storage.measure(str(place))
    assert set(measured) == set(answer())  # what the check reads of it
    assert (measured["place"], measured["kind"], measured["bytes"]) == (str(place), "ssd", 3 * MIB)
    assert 0 < measured["seconds"] < 10
    assert (measured["wrong"], measured["unfit"], measured["error"]) == (0, None, None)
    assert list(place.iterdir()) == []


def test_a_file_system_without_nameless_files_has_none_left_either(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open
    named: list[Any] = []

    def without(path: Any, flags: int, *more: Any, **how: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        if flags & os.O_CREAT:
            named.append(path)
            assert flags & os.O_EXCL
            assert flags & os.O_NOFOLLOW
        return real(path, flags, *more, **how)

    monkeypatch.setattr(storage.os, "open", without)
    assert storage.read(str(place))["bytes"] == 3 * MIB
    assert len(named) == 1
    assert list(place.iterdir()) == []


def test_without_a_folder_it_is_where_programs_have_theirs() -> None:
    assert storage.measure(reading=lambda _: {})["place"] == os.path.realpath("/var/tmp")


def test_what_comes_back_changed_is_counted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.preadv

    def flipped(handle: int, parts: Any, offset: int, *more: int) -> int:
        size = real(handle, parts, offset, *more)
        if offset == MIB:
            parts[0][4711] ^= 1
        return size

    monkeypatch.setattr(storage.os, "preadv", flipped)
    assert storage.measure(str(place))["wrong"] == 1


def test_a_file_that_is_cut_short_is_wrong(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = storage._written

    def cut(handle: int, noise: memoryview, count: int) -> int:
        done = real(handle, noise, count)
        os.ftruncate(handle, 2 * MIB + 5)
        return done

    monkeypatch.setattr(storage, "_written", cut)
    assert storage.measure(str(place))["wrong"] == 1


def test_a_reading_in_pieces_is_whole(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.preadv
    monkeypatch.setattr(
        storage.os, "preadv",
        lambda handle, parts, offset: real(handle, [memoryview(parts[0])[:300_000]], offset),
    )  # fmt: skip
    measured = storage.measure(str(place))
    assert (measured["wrong"], measured["bytes"]) == (0, 3 * MIB)


def test_no_two_parts_of_the_file_are_alike() -> None:
    noise = memoryview(os.urandom(MIB + storage.STEP * 512))
    pages = {
        bytes(storage._part(noise, number)[at : at + 4096])
        for number in range(512)
        for at in (0, 4096, 512 * 1024)
    }
    assert len(pages) == 3 * 512


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOSPC, "is full"),
        (errno.EDQUOT, "is full"),
        (errno.EROFS, "can't be used: Read-only file system"),
        (errno.EACCES, "can't be used: Permission denied"),
    ],
)
def test_a_place_without_room_is_no_fault(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(storage.os, "write", refuse)
    measured = storage.read(str(place))
    assert measured == {"unfit": f"{place} {why}"}


def test_an_error_of_the_disk_is_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> int:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(storage.os, "fsync", broken)
    assert storage.read(str(place)) == {"error": "Input/output error"}


def test_no_more_than_a_share_of_what_is_free(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Free:
        f_bavail, f_frsize = 11 * 256, 4096

    monkeypatch.setattr(storage.os, "fstatvfs", lambda _: Free)
    assert storage.read(str(place))["bytes"] == 2 * MIB
    Free.f_bavail = 7 * 256
    assert storage.read(str(place)) == {
        "unfit": f"{place} has 7 MiB free, and 8 would be needed",
    }


class Clock:
    """Goes on by six seconds with each `wait`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, *_: Any) -> None:
        self.now += 6


def test_a_slow_disk_ends_in_time(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written until then counts."""
    clock = Clock()
    monkeypatch.setattr(storage, "AT_ONCE", MIB)
    monkeypatch.setattr(storage, "time", clock)
    monkeypatch.setattr(storage.os, "fdatasync", clock.wait)
    handle = os.open(place, os.O_TMPFILE | os.O_RDWR)
    try:
        assert storage._written(handle, memoryview(bytes(4 * MIB)), 3) == 2
        assert os.fstat(handle).st_size == 2 * MIB
    finally:
        os.close(handle)


def test_a_slow_reading_ends_in_time(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, real = Clock(), os.preadv

    def slow(*given: Any) -> int:
        clock.wait()
        return real(*given)

    monkeypatch.setattr(storage, "time", clock)
    monkeypatch.setattr(storage.os, "preadv", slow)
    measured = storage.read(str(place))
    assert (measured["bytes"], measured["seconds"], measured["wrong"]) == (2 * MIB, 12, 0)


def test_the_faster_of_two_readings_counts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([(2.0, 3, 1), (1.0, 3, 0)])
    monkeypatch.setattr(storage, "_back", lambda *_: next(found))
    answer = storage.read(str(place))
    # And what was wrong once stays.
    assert (answer["seconds"], answer["wrong"]) == (1.0, 1)


def test_a_disk_that_hangs_does_not_hang_the_acceptance() -> None:
    def hang(_place: str) -> dict[str, Any]:
        time.sleep(60)
        return {}

    begun = time.monotonic()
    measured = storage.measure("/x", 0.2, hang)
    assert (measured["silent"], measured["error"]) == (True, "no answer within 0 s")
    assert time.monotonic() - begun < 20


def test_a_reader_that_dies_accuses_no_disk(capfd: pytest.CaptureFixture[str]) -> None:
    measured = storage.measure("/x", 10, lambda _place: {}[1])  # type: ignore[index]
    assert measured["unfit"]
    assert (measured["error"], measured["silent"]) == (None, False)
    capfd.readouterr()


# where


def test_links_are_refused_whoever_made_them(place: Path) -> None:
    (place / "real" / "inner").mkdir(parents=True)
    (place / "last").symlink_to(place / "real")
    (place / "file").write_text("x")
    for name in ("last", "last/inner"):
        assert storage.read(f"{place}/{name}") == {"unfit": f"{place}/last is a link or no folder"}
    assert storage.read(f"{place}/file") == {"unfit": f"{place}/file is a link or no folder"}
    assert storage.read(f"{place}/none/x") == {"unfit": f"there is no {place}/none"}
    assert storage.read("data") == {"unfit": "data is no absolute path"}
    assert list((place / "real" / "inner").iterdir()) == []
    assert storage.read(f"{place}/real/inner/")["bytes"] == 3 * MIB


def test_memory_is_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_mounted", lambda _: ("tmpfs", "none"))
    place = str(tmp_path.resolve())
    assert storage.read(place) == {"unfit": f"{place} is tmpfs, which keeps files in memory"}


def test_what_stays_in_memory_is_not_measured(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_cached", lambda _handle, _count: True)
    assert "stays in the host's memory" in storage.read(str(place))["unfit"]


def test_a_file_that_was_just_written_is_in_memory(tmp_path: Path) -> None:
    with open(tmp_path / "x", "w+b") as stream:
        stream.write(bytes(2 * MIB))
        stream.flush()
        try:
            os.preadv(stream.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except OSError:
            pytest.skip("this file system does not say it")
        assert storage._cached(stream.fileno(), 2)
        # Past its end there is nothing.
        assert not storage._cached(stream.fileno(), 2 * 16 * 2)


MOUNTS = "30 1 259:2 / /data rw - xfs /dev/nvme0n1p2 rw\n31 1 0:40 / /n rw - nfs4 srv:/n rw\n"


def test_the_file_system_is_the_kernels_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.open", lambda *_, **__: __import__("io").StringIO(MOUNTS))
    assert storage._mounted("259:2") == ("xfs", "/dev/nvme0n1p2")
    assert storage._mounted("0:40") == ("nfs4", "srv:/n")
    assert storage._mounted("9:9") == ("", "")


def test_what_is_no_block_device_is_its_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_mounted", lambda _: ("nfs4", "srv:/n"))
    assert storage._kind(os.makedev(0, 4000), "/n") == "nfs4"
    monkeypatch.setattr(storage, "_mounted", lambda _: ("", ""))
    assert storage._kind(os.makedev(0, 4000), "/n") == "unknown"


def test_the_kinds_of_disks_are_those_below(tmp_path: Path) -> None:
    def disk(name: str, turns: str | None, *parts: str) -> Path:
        folder = tmp_path / name
        for part in parts:
            (folder / part).mkdir(parents=True)
            (folder / part / "partition").write_text("1\n")
        if turns is not None:
            (folder / "queue").mkdir(parents=True)
            (folder / "queue" / "rotational").write_text(turns + "\n")
        return folder

    nvme, ssd, hdd = disk("nvme0n1", "0", "nvme0n1p1"), disk("sda", "0"), disk("sdb", "1", "sdb1")
    virtual, odd = disk("vda", "1", "vda1"), disk("loop0", None)
    odd.mkdir()
    raid = tmp_path / "md0"
    (raid / "slaves").mkdir(parents=True)
    for part in (nvme / "nvme0n1p1", ssd):
        (raid / "slaves" / part.name).symlink_to(part)
    asked = (
        *(nvme / "nvme0n1p1", ssd, hdd / "sdb1", virtual / "vda1"),
        *(odd, raid, tmp_path / "none"),
    )
    found = {path.name: storage._disks(str(path)) for path in asked}
    assert found == {
        "nvme0n1p1": {"nvme"}, "sda": {"ssd"}, "sdb1": {"hard disk"}, "vda1": {"virtual disk"},
        "loop0": {"loop0"}, "md0": {"nvme", "ssd"}, "none": set(),
    }  # fmt: skip
