"""A lock is the same bytes for the same input, and notices every other."""

from __future__ import annotations

import dataclasses
import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from provision import lock as locks
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet, parse_wish
from tests.unit.generator import recorded


def test_the_same_input_gives_the_same_bytes() -> None:
    assert locks.dump(recorded.lock()) == locks.dump(recorded.lock())


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_the_indices_plays_no_part(order: random.Random) -> None:
    packages = recorded.packages()
    order.shuffle(packages)
    chosen = recorded.choices()
    texts = {choice.stack.id: recorded.REQUIREMENTS for choice in chosen}
    other = locks.make(chosen, {"debian11": recorded.indices(packages)}, texts)
    assert locks.dump(other) == locks.dump(recorded.lock())


def test_a_lock_survives_its_file() -> None:
    made = recorded.lock()
    read = locks.parse(locks.dump(made), where="lock.yml")
    assert read.slim == made.slim
    assert locks.dump(read) == locks.dump(made)


def test_the_lock_is_as_the_seam_says() -> None:
    """The shape that gu_state, callback and checks read; a change here is a change of format."""
    slim = recorded.lock().slim
    assert list(slim) == ["format", "digest", "rows", "stacks"]
    (row,) = slim["rows"]
    assert row["platform"] == {
        "distribution": "debian",
        "release": "11",
        "architecture": "x86_64",
    }
    assert row["wish"] == {"tensorflow": "2.9"}
    stack = slim["stacks"][row["stack"]]
    assert list(stack) == ["nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow"]
    assert set(stack["nvidia_driver"]["packages"]) == {"userspace", "kernel", "desktop"}
    assert len(stack["cuda"]["packages"]["runtime"]) == 8
    assert len(stack["cuda"]["packages"]["toolkit"]) == 34
    assert stack["cudnn"]["soname"] == "libcudnn.so.8"
    assert stack["tensorflow"]["wheels"] == {
        "numpy": "1.26.4",
        "protobuf": "3.19.6",
        "tensorflow": "2.9.3",
    }


def test_every_package_of_the_lock_has_its_hash() -> None:
    made = recorded.lock()
    for name, stack in made.stacks.items():
        named = {
            package
            for part in ("nvidia_driver", "cuda")
            for group in stack[part]["packages"].values()
            for package in group
        }
        details = made.details["packages"][name]
        assert set(details) == named
        assert all(len(entry["sha256"]) == 64 for entry in details.values())


def test_nothing_in_a_lock_names_a_package_index() -> None:
    assert b"index" not in locks.dump(recorded.lock())


def test_an_edited_lock_is_refused() -> None:
    text = locks.dump(recorded.lock()).replace(b"470.103.01-2~deb11u1", b"470.103.01-3~deb11u1")
    with pytest.raises(InputError, match="was edited"):
        locks.parse(text, where="lock.yml")


def test_an_edit_of_a_hash_alone_is_refused() -> None:
    made = recorded.lock()
    digest = next(iter(made.details["packages"].values()))["libcuda1"]["sha256"]
    text = locks.dump(made).replace(digest.encode(), b"0" * 64)
    with pytest.raises(InputError, match="was edited"):
        locks.parse(text, where="lock.yml")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "lacks its two parts"),
        (b"gpu_lock: {}\n", "lacks its two parts"),
        (b"gpu_lock: [\n", "is not YAML"),
        (b"gpu_lock: {format: 2}\ngpu_lock_details: {}\n", "format of another provision"),
        (b"\xff\xfe\x00", "is not UTF-8"),
    ],
)
def test_what_is_not_a_lock_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        locks.parse(data, where="lock.yml")


@settings(max_examples=20, deadline=None)
@given(st.integers(min_value=1, max_value=20_000))
def test_a_truncated_lock_never_passes(length: int) -> None:
    whole = locks.dump(recorded.lock())
    with pytest.raises(InputError):
        locks.parse(whole[: min(length, len(whole) - 2)], where="lock.yml")


def test_a_wish_without_a_row_is_named() -> None:
    fleet = Fleet({"gpu07": parse_wish({"tensorflow": "2.9.3"}, where="x")})
    with pytest.raises(InputError) as caught:
        locks.check_fits(recorded.lock(), fleet, where="lock.yml")
    assert "gpu07" in caught.value.message
    assert caught.value.got == '{"tensorflow": "2.9.3"}'


def test_a_fleet_with_fewer_wishes_than_rows_fits() -> None:
    fleet = Fleet({"gpu01": parse_wish({"tensorflow": "2.9"}, where="x")})
    locks.check_fits(recorded.lock(), fleet, where="lock.yml")


def test_an_archive_of_ones_own_is_locked_by_its_hash() -> None:
    wish = {
        "tensorflow": "2.9",
        "cudnn": {"version": "8.5.0.96", "cuda": "11.2", "sha256": "ab" * 32},
    }
    made = recorded.lock(wish)
    (stack,) = made.stacks.values()
    assert stack["cudnn"] == {
        "version": "8.5.0.96",
        "cuda": "11.2",
        "sha256": "ab" * 32,
        "soname": "libcudnn.so.8",
        "minimum": "8.1.0",
    }
    assert made.slim["rows"][0]["wish"] == wish


def test_two_archives_of_one_version_are_two_stacks() -> None:
    def wish(digit: str) -> dict[str, object]:
        own = {"version": "8.5.0.96", "cuda": "11.2", "sha256": digit * 64}
        return {"tensorflow": "2.9", "cudnn": own}

    chosen = [*recorded.choices(wish("a")), *recorded.choices(wish("b"))]
    texts = {choice.stack.id: recorded.REQUIREMENTS for choice in chosen}
    made = locks.make(chosen, {"debian11": recorded.indices()}, texts)
    hashes = {
        made.stacks[row["stack"]]["cudnn"]["sha256"]: row["wish"]["cudnn"]["sha256"]
        for row in made.slim["rows"]
    }
    assert hashes == {"a" * 64: "a" * 64, "b" * 64: "b" * 64}


def test_a_package_that_left_the_archive_is_an_error() -> None:
    packages = [p for p in recorded.packages() if p.name != "libcusolver11"]
    chosen = recorded.choices()
    texts = {choice.stack.id: recorded.REQUIREMENTS for choice in chosen}
    with pytest.raises(UnsatisfiableError, match="libcusolver11"):
        locks.make(chosen, {"debian11": recorded.indices(packages)}, texts)


def test_an_unpinned_requirement_is_refused() -> None:
    with pytest.raises(InputError, match="not pinned"):
        locks.wheels("numpy>=1\n")


def test_a_new_version_changes_the_digest() -> None:
    packages = [
        dataclasses.replace(p, sha256="9" * 64) if p.name == "libcuda1" else p
        for p in recorded.packages()
    ]
    chosen = recorded.choices()
    texts = {choice.stack.id: recorded.REQUIREMENTS for choice in chosen}
    other = locks.make(chosen, {"debian11": recorded.indices(packages)}, texts)
    assert other.digest != recorded.lock().digest
    assert yaml.safe_load(locks.dump(other))["gpu_lock"]["digest"] == other.digest
