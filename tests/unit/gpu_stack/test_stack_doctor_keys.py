"""The doctor reads keys of repositories as gpg and apt do."""

from __future__ import annotations

from pathlib import Path

import pytest
from doctor_patient import (
    CUDA_LIST,
    CUDA_REPO,
    GOOD,
    GOOD_FILE,
    KEYRING,
    WEAK,
    WEAK_FILE,
    Patient,
    patient,
)
from gpu_stack.doctor import keys as doctor_keys


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    return patient(tmp_path, monkeypatch)


def test_fingerprints_and_hashes_are_read_as_gpg_reads_them() -> None:
    assert doctor_keys.keys(GOOD_FILE.read_bytes()) == {GOOD: False}
    assert doctor_keys.keys(WEAK_FILE.read_bytes()) == {WEAK: True}
    both = GOOD_FILE.read_bytes() + WEAK_FILE.read_bytes()
    assert doctor_keys.keys(both) == {GOOD: False, WEAK: True}
    assert doctor_keys.keys(doctor_keys.binary(both)) == {GOOD: False, WEAK: True}


@pytest.mark.parametrize("data", [b"", b"<html>", b"-----BEGIN PGP\n\n!!\n-----END", b"\x99\x01"])
def test_what_is_no_keyring_has_no_keys(data: bytes) -> None:
    assert doctor_keys.keys(data) == {}


def test_a_key_written_into_the_entry_counts(host: Patient) -> None:
    host.remove(CUDA_LIST)
    host.remove(KEYRING)
    key = GOOD_FILE.read_text().strip().replace("\n\n", "\n.\n").replace("\n", "\n ")
    text = f"Types: deb\nURIs: {CUDA_REPO}\nSuites: /\nSigned-By:\n {key}\n"
    host.write("/etc/apt/sources.list.d/cuda.sources", text)
    assert host.found() == {}


def test_of_a_signer_that_is_not_known_only_refused_keys_tell(host: Patient) -> None:
    """A local installer's repository is signed by a key that came with it."""
    place = "/var/cuda-repo-debian13-13-0-local"
    host.write(place + "/Packages", "")
    host.write("/etc/apt/sources.list.d/local.list", f"deb [signed-by={place}/k] file:{place} /\n")
    for data, refused in (
        (WEAK_FILE.read_bytes(), True),
        (GOOD_FILE.read_bytes(), False),
        (GOOD_FILE.read_bytes() + WEAK_FILE.read_bytes(), False),
        (b"", False),
    ):
        host.write(place + "/k", data)
        assert "key-sha1" not in host.found()
        host.write("/usr/bin/sqv", "")
        assert ("key-sha1" in host.found()) is refused
        host.remove("/usr/bin/sqv")
    host.write(place + "/k", WEAK_FILE.read_bytes())
    host.write("/usr/bin/sqv", "")
    (evidence,) = host.found()["key-sha1"]["evidence"]
    assert evidence.startswith(f"file:{place} is signed by {WEAK[-16:]}, whose")


def test_the_real_repositories_are_known_by_their_addresses() -> None:
    root = "https://developer.download.nvidia.com/compute/"
    assert doctor_keys.signer(root + "cuda/repos/ubuntu2004/x86_64/")[-8:] == "3BF863CC"
    assert doctor_keys.signer(root + "cuda/repos/debian13/x86_64/")[-8:] == "8793F200"
    assert doctor_keys.signer(root + "machine-learning/repos/ubuntu1804/")[-8:] == "7FA2AF80"
    toolkit = "https://nvidia.github.io/libnvidia-container/stable/deb/amd64"
    assert doctor_keys.signer(toolkit)[-8:] == "F796ECB0"
    assert doctor_keys.signer("https://mirror.example/cuda/") is None
