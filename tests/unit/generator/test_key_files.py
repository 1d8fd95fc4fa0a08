"""What a lock passes on of a key file makes gpgv and apt believe the pinned key and no other.

Both read packets that `provision.upstream.keys` does not know; a second key behind one of them was
believed by the hosts while the lock named the pinned fingerprint alone.
"""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from provision.errors import InputError
from provision.upstream import keys, nvidia
from tests import own_apt
from tests.unit.generator.signed_repository import Key, packages, repository


def packet(tag: int, body: bytes) -> bytes:
    """In the old format, with two bytes of length."""
    return bytes([0x80 | tag << 2 | 1]) + len(body).to_bytes(2, "big") + body


def of_version(key: bytes, version: int) -> bytes:
    """A key whose first packet says that it has another version."""
    at = 2 if key[0] == 0x98 else 3
    return key[:at] + bytes([version]) + key[at + 1 :]


def as_subkey(key: bytes) -> bytes:
    """A primary key's packet as that of a subkey that nobody has bound."""
    return packet(14, key[2 : 2 + key[1]])


def compressed(data: bytes) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"\x01" + deflate.compress(data) + deflate.flush()


LITERAL = b"b\0\0\0\0\0"
PARTIAL = bytes([0xCB, 0xE9]) + LITERAL.ljust(512, b"x") + b"\x02yy"
# What stands behind the pinned key, made of another key's file.
BEHIND: dict[str, Any] = {
    "a literal packet of partial length": lambda k: PARTIAL + k,
    "a literal packet of one partial byte": lambda k: b"\xcb\xe0b\0" + k,
    "a literal packet": lambda k: packet(11, LITERAL + b"hi") + k,
    "a compressed packet": lambda k: packet(8, compressed(k)),
    "a compressed packet without a length": lambda k: b"\xa3" + compressed(k),
    "a packet of a private tag": lambda k: b"\xff\x03abc" + k,
    "a marker": lambda k: packet(10, b"PGP") + k,
    "another key": lambda k: k,
    "a key of version 3": lambda k: of_version(k, 3),
    "a key of version 5": lambda k: of_version(k, 5),
    "a key of version 6": lambda k: of_version(k, 6),
    "a subkey of version 6": lambda k: of_version(as_subkey(k), 6),
    "an empty key": lambda k: b"\x98\0" + k,
    "garbage": lambda k: b"\0junk" + k,
    "a packet that is cut off": lambda _: b"\x99\x01\x0d\x04abc",
    "a length that is cut off": lambda _: b"\x99\x01",
    "a byte": lambda _: b"\x98",
}
# Those with which gpgv believes the other key, so that this test is about something.
BELIEVED = [
    "a literal packet of partial length",
    "a literal packet of one partial byte",
    "a literal packet",
    "a packet of a private tag",
    "another key",
]


def believes(folder: Path, keyring: bytes, signer: Key) -> bool:
    """Does gpgv take a signature, with this file as its keyring?"""
    (folder / "keys.gpg").write_bytes(keyring)
    (folder / "message").write_bytes(signer.inline(b"hello\n"))
    command = ["gpgv", "--keyring", str(folder / "keys.gpg"), str(folder / "message")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", BELIEVED)
def test_gpgv_believes_a_key_that_hides_in_a_file(
    key: Key, other: Key, tmp_path: Path, name: str
) -> None:
    assert believes(tmp_path, key.binary + BEHIND[name](other.binary), other)


@pytest.mark.parametrize("armored", [False, True])
@pytest.mark.parametrize("name", BEHIND)
def test_a_key_file_with_more_than_the_pinned_key_is_refused(
    key: Key, other: Key, name: str, armored: bool
) -> None:
    """Only the first key was looked at, and the whole file went into the lock."""
    data = key.binary + BEHIND[name](other.binary)
    file = keys.armor(data).encode() if armored else data
    with pytest.raises(InputError) as caught:
        nvidia._pinned(file, key.fingerprint, "https://m.test/3bf863cc.pub")
    assert caught.value.where == "https://m.test/3bf863cc.pub"


def test_an_armored_file_with_two_blocks_is_two_keys(key: Key, other: Key) -> None:
    both = key.armored + other.armored
    with pytest.raises(InputError, match="not NVIDIA's pinned key") as caught:
        nvidia._pinned(both, key.fingerprint, "x")
    assert other.fingerprint in caught.value.got
    read_keys = keys.read(both, where="x")
    assert [each.fingerprint for each in read_keys] == [key.fingerprint, other.fingerprint]


@pytest.mark.parametrize("cut", ["=", "-----END"])
def test_damaged_armor_is_refused(key: Key, cut: str) -> None:
    """A checksum that does not fit; a block without its end."""
    text = key.armored.decode().strip()
    at = text.rindex(cut)
    damaged = text[:at] + ("=AAAA\n" + text[at:].split("\n", 1)[1] if cut == "=" else "")
    with pytest.raises(InputError, match=r"checksum|armored"):
        keys.read(damaged.encode(), where="x")


def test_what_goes_on_is_the_pinned_key_and_not_one_byte_else(
    key: Key, other: Key, tmp_path: Path
) -> None:
    """Neither text around the armor nor gpg's own notes (tag 12)."""
    text = f"a comment\n{key.armored.decode()}\nanother\n".encode()
    for data in (key.binary, text, key.binary + packet(12, b"\0\0")):
        taken = keys.dearmor(nvidia._pinned(data, key.fingerprint, "x"))
        assert taken == key.binary
        assert believes(tmp_path, taken, key)
        assert not believes(tmp_path, taken, other)


def test_a_subkey_that_the_pinned_key_never_signed_for_is_not_believed(
    key: Key, other: Key, tmp_path: Path
) -> None:
    """It stays in the file, for its signature cannot be checked here; gpgv and apt check it."""
    binding = next(body for tag, body in keys._packets(other.binary, "x") if tag == 2)
    data = key.binary + as_subkey(other.binary) + packet(2, binding)
    text = nvidia._pinned(data, key.fingerprint, "x")
    assert not believes(tmp_path, keys.dearmor(text), other)
    assert not apt_believes(tmp_path / "apt", text, other)


def apt_believes(folder: Path, armored: str, signer: Key, label: str = "NVIDIA CUDA") -> bool:
    """Does apt take a repository of this signer, with this text as its Signed-By?"""
    top = folder / "repository"
    top.mkdir(parents=True, exist_ok=True)
    for name, data in repository(signer, packages(), label=label).items():
        (top / name).write_bytes(data)
    done = own_apt.run(folder, f"file:{top}", armored, "update", **{"Acquire__Check-Date": "false"})
    return done.returncode == 0


def test_apt_believes_the_pinned_key_alone(key: Key, other: Key, tmp_path: Path) -> None:
    """The file that passed before is one that apt believes the other key with."""
    hidden = key.binary + PARTIAL + other.binary
    assert apt_believes(tmp_path / "a", keys.armor(hidden), other)
    with pytest.raises(InputError):
        nvidia._pinned(keys.armor(hidden).encode(), key.fingerprint, "x")
    text = nvidia._pinned(key.armored, key.fingerprint, "x")
    assert apt_believes(tmp_path / "b", text, key)
    assert not apt_believes(tmp_path / "c", text, other)


@pytest.mark.parametrize("behind", [PARTIAL, b""])
def test_an_older_lock_with_two_keys_for_a_repository_is_not_rendered(
    key: Key, other: Key, behind: bytes
) -> None:
    def stacks(data: bytes) -> Any:
        where = {"url": "https://m.test", "key": keys.armor(data)}
        return {"s": {"cuda": {"repository": {**where, "fingerprints": [key.fingerprint]}}}}

    with pytest.raises(InputError) as caught:
        nvidia.check_locked_keys(stacks(key.binary + behind + other.binary), where="lock.yml")
    assert "https://m.test" in caught.value.where
    nvidia.check_locked_keys(stacks(key.binary), where="lock.yml")


def test_apt_refuses_a_label_that_changes(key: Key, tmp_path: Path) -> None:
    """The pins on a host go by the label that the lock has seen; apt keeps to it from then on."""
    text = key.armored.decode()
    assert apt_believes(tmp_path, text, key)
    assert apt_believes(tmp_path, text, key)
    assert not apt_believes(tmp_path, text, key, label="mine")
