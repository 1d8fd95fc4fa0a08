"""The container toolkit's stand-in repository: what dpkg and the generator take for NVIDIA's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.catalog import load
from provision.errors import InputError
from provision.indices import GoneError
from provision.mirrors import Mirrors
from provision.nvidia import Reader
from provision.packages import Repository
from tests.ground import repository, toolkit

(ROW,) = [row for row in load().nvidia_container_toolkit if row.architecture == "x86_64"]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keys of these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("c")))
        yield


@pytest.fixture
def root(tmp_path: Path) -> Path:
    toolkit.lay_out(tmp_path / "www", repository.key("toolkit"), ["1.17.8", "1.20.1"])
    return tmp_path / "www"


def read(root: Path, fingerprint: str) -> Repository:
    """As `provision lock --nvidia-mirror` reads it."""

    def get(url: str) -> bytes:
        file = root / url.removeprefix("https://mirror.test/")
        if not file.exists():
            raise GoneError("there is no such file", where=url)
        return file.read_bytes()

    mirrors = Mirrors(nvidia="https://mirror.test")
    reader = Reader(load(), mirrors, root.parent / "cache", get=get)
    return reader.container_toolkit(ROW.model_copy(update={"signed_by": [fingerprint]}))


def test_the_generator_reads_it_as_nvidias(root: Path) -> None:
    key = repository.key("toolkit")
    found = read(root, key.fingerprint)
    assert found.url == f"https://mirror.test/{toolkit.PLACE}"
    assert {(one.name, one.version) for one in found.packages} == {
        (name, f"{version}-1") for name in toolkit.NAMES for version in ("1.17.8", "1.20.1")
    }
    assert all(len(one.sha256) == 64 for one in found.packages)
    assert set(ROW.packages) == set(toolkit.NAMES)
    assert "SHA256:" not in (root / toolkit.PLACE / "InRelease").read_text()


def test_another_key_is_not_believed(root: Path) -> None:
    with pytest.raises(InputError, match="not the one that is known"):
        read(root, ROW.signed_by[0])


def test_dpkg_reads_the_packages(root: Path) -> None:
    for name in toolkit.NAMES:
        file = root / toolkit.PLACE / f"{name}_1.20.1-1_amd64.deb"
        fields = ("Package", "Version", "Depends")
        done = subprocess.run(
            ["dpkg-deb", "--field", str(file), *fields], capture_output=True, text=True, check=True
        )
        assert f"Package: {name}\nVersion: 1.20.1-1\n" in done.stdout
        assert ("(= 1.20.1-1)" in done.stdout) == (name in toolkit.DEPENDS)
