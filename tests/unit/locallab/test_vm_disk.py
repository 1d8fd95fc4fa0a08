"""The disk that virtual machines start from: kept while it is whole, never replaced under one."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.errors import InputError, MachineError
from provision.locallab import image, machine
from provision.locallab.host import Shape
from provision.locallab.machine import sha256_of, silent
from provision.locallab.vm import Guest, Virtual, disk, hosts

Program = Callable[[str, str], Path]
MakeGuest = Callable[..., Guest]
WEEK_AND_A_MINUTE = image.MAXIMUM_AGE + 60


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A kept disk with its kernel and its record."""
    path = tmp_path / "debian11-0123456789ab.qcow2"
    path.write_bytes(b"a disk's content")
    path.with_suffix(".vmlinuz").write_bytes(b"a kernel")
    record = {
        "sha256": sha256_of(path),
        "size": path.stat().st_size,
        "kernel": sha256_of(path.with_suffix(".vmlinuz")),
        "suite": "bullseye",
    }
    path.with_suffix(".json").write_text(json.dumps(record))
    return path


def test_a_whole_disk_is_taken(kept: Path) -> None:
    assert disk.read(kept) == disk.Base(kept, sha256_of(kept), kept.with_suffix(".vmlinuz"))


def test_a_disk_that_was_cut_short_is_none(kept: Path) -> None:
    kept.write_bytes(kept.read_bytes()[:-1])
    assert disk.read(kept) is None


def test_one_byte_makes_it_another_disk(kept: Path) -> None:
    kept.write_bytes(b"A disk's content")
    assert disk.read(kept) is None


@pytest.mark.parametrize("suffix", [".qcow2", ".vmlinuz", ".json"])
def test_a_disk_without_one_of_its_files_is_none(kept: Path, suffix: str) -> None:
    kept.with_suffix(suffix).unlink()
    assert disk.read(kept) is None


def test_another_kernel_is_none(kept: Path) -> None:
    kept.with_suffix(".vmlinuz").write_bytes(b"another kernel")
    assert disk.read(kept) is None


@pytest.mark.parametrize("text", ["", "{", "{}", '{"size": 16}', "[]", "null", '"disk"', b"\xff"])
def test_a_broken_record_is_none(kept: Path, text: str | bytes) -> None:
    record = kept.with_suffix(".json")
    record.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert disk.read(kept) is None


def test_a_disk_is_in_use_while_a_machine_stands_on_it(
    make_guest: MakeGuest, cache: Path, kept: Path
) -> None:
    assert not disk._in_use(kept, cache)
    guest = make_guest(base=str(kept))
    guest.write()
    for suffix in (".qcow2", ".vmlinuz", ".json"):
        assert disk._in_use(kept.with_suffix(suffix), cache)
    assert not disk._in_use(kept.with_name("debian11-ba9876543210.qcow2"), cache)
    guest.remove()
    assert not disk._in_use(kept, cache)


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", "null", '{"base": 5}'])
def test_a_spoiled_record_of_one_machine_hides_no_other(
    make_guest: MakeGuest, cache: Path, kept: Path, text: str
) -> None:
    (make_guest("a").folder / "machine.json").write_text(text)
    assert not disk._in_use(kept, cache)
    make_guest("b", base=str(kept)).write()
    assert disk._in_use(kept, cache)


def test_a_links_end_is_looked_for_inside_the_tree(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / "vmlinuz-5").write_text("a kernel")
    (tmp_path / "vmlinuz").symlink_to("boot/vmlinuz-5")
    (tmp_path / "absolute").symlink_to("/vmlinuz")
    (tmp_path / "ring").symlink_to("ring")
    assert disk._followed(tmp_path, "absolute") == tmp_path / "boot" / "vmlinuz-5"
    with pytest.raises(MachineError) as caught:
        disk._followed(tmp_path, "ring")
    assert caught.value.where == str(tmp_path / "ring")


def test_a_failing_program_is_named_with_its_words(program: Program, tmp_path: Path) -> None:
    program("qemu-img", "echo 'No space left on device' >&2; exit 1")
    with pytest.raises(MachineError) as caught:
        disk.overlay(tmp_path / "base.qcow2", tmp_path / "disk.qcow2")
    assert caught.value.message == "qemu-img failed while a disk was made"
    assert caught.value.got == "No space left on device"


# Building.


class NoPodman(machine.Podman):
    """Removes the tree, as podman's machine would with root's rights; runs no container."""

    def as_root(self, *argv: str, timeout: float = 60) -> None:
        assert argv[:3] == ("rm", "-rf", "--one-file-system")
        super().as_root(*argv, timeout=timeout)


class Builder:
    """Makes the tree and the file instead of mmdebstrap, mkfs and sfdisk."""

    def __init__(self, cache: Path) -> None:
        self.cache, self.built, self.said = cache, 0, list[str]()

    def bootstrap(self, *arguments: object) -> None:
        target = arguments[-1]
        assert isinstance(target, image.Target)
        target.path.mkdir()
        (target.path / "vmlinuz").write_bytes(b"a kernel")

    def pack(self, _podman: object, root: Path, work: Path, _identifiers: object) -> None:
        assert (root / "vmlinuz").exists()
        self.built += 1
        (work / "disk.qcow2").write_bytes(b"disk %d" % self.built)

    def ensure(self) -> disk.Base:
        return disk.ensure(NoPodman(), "debian11", self.cache, self.said.append)


@pytest.fixture
def builder(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    made = Builder(cache)
    monkeypatch.setattr(image, "trusted", lambda: "bundle")
    monkeypatch.setattr(image, "bootstrap", made.bootstrap)
    monkeypatch.setattr(disk, "pack", made.pack)
    return made


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_disk_is_built_once(builder: Builder) -> None:
    first = builder.ensure()
    assert first == builder.ensure()
    assert builder.built == 1
    assert disk.read(first.path) == first
    left = {path.suffix for path in first.path.parent.iterdir()}
    assert left == {".qcow2", ".vmlinuz", ".json", ".lock"}


def test_a_platform_that_only_says_another_name_is_refused(builder: Builder, cache: Path) -> None:
    """Its identity is a layer of a container's image: the disk would be a plain Debian."""
    with pytest.raises(InputError) as caught:
        disk.ensure(NoPodman(), "ubuntu2004", cache, builder.said.append)
    assert caught.value.expected == "debian11, debian12, debian13"
    assert builder.built == 0


def test_a_week_old_disk_is_built_again(builder: Builder) -> None:
    first = builder.ensure()
    age(first.path, WEEK_AND_A_MINUTE)
    assert builder.ensure().sha256 != first.sha256
    assert builder.built == 2


def test_a_changed_disk_is_built_again_and_that_is_said(builder: Builder) -> None:
    first = builder.ensure()
    first.path.write_bytes(b"disk X")
    assert builder.ensure().path.read_bytes() == b"disk 2"
    assert any("is not what was built" in text for text in builder.said)


def test_another_recipe_is_another_disk_and_the_former_goes(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = builder.ensure()
    other = first.path.parent / "debian12-0123456789ab.qcow2"
    other.write_bytes(b"another platform's")
    monkeypatch.setattr(disk, "PACKAGES", (*disk.PACKAGES, "vim"))
    second = builder.ensure()
    assert second.path != first.path
    assert not first.path.exists()
    assert not first.kernel.exists()
    assert other.exists()


def test_a_former_disk_stays_while_a_machine_stands_on_it(
    builder: Builder, make_guest: MakeGuest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = builder.ensure()
    make_guest(base=str(first.path)).write()
    monkeypatch.setattr(disk, "PACKAGES", (*disk.PACKAGES, "vim"))
    assert builder.ensure().path != first.path
    assert disk.read(first.path) == first


def test_an_old_disk_is_not_replaced_under_a_machine(
    builder: Builder, make_guest: MakeGuest
) -> None:
    """Its overlay holds what differs from that very disk: over another it is a heap of blocks."""
    first = builder.ensure()
    make_guest(base=str(first.path)).write()
    age(first.path, WEEK_AND_A_MINUTE)
    assert builder.ensure() == first
    assert builder.built == 1


def test_a_changed_disk_under_a_machine_is_refused(builder: Builder, make_guest: MakeGuest) -> None:
    first = builder.ensure()
    guest = make_guest(base=str(first.path))
    guest.write()
    first.path.write_bytes(b"disk X")
    with pytest.raises(MachineError) as caught:
        builder.ensure()
    assert caught.value.where == str(first.path)
    assert "provision lab down" in caught.value.hint
    guest.remove()
    assert builder.ensure().path.read_bytes() == b"disk 2"


def test_a_failed_build_leaves_the_cache_as_it_was(
    builder: Builder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise MachineError("mmdebstrap failed")

    monkeypatch.setattr(image, "bootstrap", failing)
    with pytest.raises(MachineError):
        builder.ensure()
    assert [path.suffix for path in (cache / "disks").iterdir()] == [".lock"]


def test_a_tree_is_settled_before_it_is_packed(builder: Builder, cache: Path) -> None:
    path = cache / "installed.qcow2"
    seen: list[Path] = []

    def settle(root: Path) -> None:
        assert builder.built == 0
        seen.append(root / "vmlinuz")
        (root / "vmlinuz").write_bytes(b"a newer kernel")

    made = disk.build(NoPodman(), "debian11", path, settle)
    assert disk.read(path) == made
    assert made.kernel.read_bytes() == b"a newer kernel"
    assert [kernel.exists() for kernel in seen] == [False]


def test_a_disk_stays_where_the_next_one_fails(builder: Builder, cache: Path) -> None:
    path = cache / "installed.qcow2"
    first = disk.build(NoPodman(), "debian11", path)

    def failing(_: Path) -> None:
        raise MachineError("the driver can't be installed")

    with pytest.raises(MachineError):
        disk.build(NoPodman(), "debian11", path, failing)
    assert disk.read(path) == first
    assert [found.name for found in cache.glob(f"**/{disk.WORK}*")] == []


def test_what_a_killed_build_left_is_swept(cache: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    folder = cache / "disks"
    for name in (f"{disk.WORK}{ended.pid}-a1", f"{disk.WORK}{os.getpid()}-b2", "other"):
        (folder / name / "root").mkdir(parents=True)
    disk.sweep(NoPodman(), cache)
    assert sorted(path.name for path in folder.iterdir()) == [
        *(f"{disk.WORK}{os.getpid()}-b2", "other"),
    ]


def test_a_lab_starts_from_a_given_disk_that_is_whole(kept: Path, cache: Path) -> None:
    shape = Shape(virtual=Virtual(disk=kept))
    assert hosts.base(NoPodman(), shape, cache, silent) == kept
    kept.write_bytes(b"A disk's content")
    with pytest.raises(InputError) as caught:
        hosts.base(NoPodman(), shape, cache, silent)
    assert caught.value.where == str(kept)
