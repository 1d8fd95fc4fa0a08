"""The container toolkit's stand-in repository: what dpkg and the generator take for NVIDIA's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from provision.catalog import load
from provision.errors import InputError
from provision.locallab import gpu
from provision.lock.own.nvidia_container_toolkit import LABEL
from provision.upstream.download import GoneError
from provision.upstream.mirrors import Mirrors
from provision.upstream.nvidia import Reader
from provision.upstream.packages import Repository
from tests.ground import repository, toolkit, toolkit_simulated

(ROW,) = [row for row in load().rows("nvidia_container_toolkit") if row.architecture == "x86_64"]


pytestmark = pytest.mark.usefixtures("own_cache")


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
    return reader.keyed(ROW.url, ROW.keyring.url, [fingerprint], LABEL)


def test_the_generator_reads_it_as_nvidias(root: Path) -> None:
    key = repository.key("toolkit")
    found = read(root, key.fingerprint)
    assert found.url == f"https://mirror.test/{toolkit.PLACE}"
    assert {(package.name, package.version) for package in found.packages} == {
        (name, f"{version}-1") for name in toolkit.NAMES for version in ("1.17.8", "1.20.1")
    }
    assert all(len(package.sha256) == 64 for package in found.packages)
    assert set(ROW.packages) == set(toolkit.NAMES)
    assert "SHA256:" not in (root / toolkit.PLACE / "InRelease").read_text()


def test_another_key_is_not_believed(root: Path) -> None:
    with pytest.raises(InputError, match="is not NVIDIA's pinned key"):
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


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> gpu.Simulated:
    """A host's simulated GPUs, as the stand-ins' program finds them."""
    made = gpu.Simulated(count=3)
    (tmp_path / "gpu-simulated").write_text(made.text())
    monkeypatch.setattr(toolkit_simulated, "SIMULATED", str(tmp_path / "gpu-simulated"))
    monkeypatch.setattr(toolkit_simulated, "libraries", lambda: ["/usr/lib/x/libcuda.so.470.1"])
    return made


def test_a_container_gets_the_gpus_that_it_asks_for(simulated: gpu.Simulated) -> None:
    first, second, third = simulated.uuids()
    assert toolkit_simulated.chosen(["all"]) == [first, second, third]
    assert toolkit_simulated.chosen(["2", first]) == [third, first]
    text = toolkit_simulated.text_for([third, first])
    assert gpu.parse(text)["uuids"] == f"{first},{third}"
    assert gpu.parse(text)["count"] == "2"
    assert "SIMULATED" in text
    for unknown in ("3", "GPU-0"):
        with pytest.raises(SystemExit):
            toolkit_simulated.chosen([unknown])


@pytest.mark.parametrize(
    ("version", "flags", "cdi"),
    [
        ((1, 17, 8), [], "0.5.0"),
        ((1, 19, 0), [], "0.5.0"),
        ((1, 19, 1), [], "0.7.0"),
        ((1, 20, 1), [toolkit_simulated.FLAG], "0.5.0"),
    ],
)
def test_the_specification_is_of_the_version_that_nvidias_would_be(
    simulated: gpu.Simulated, version: tuple[int, ...], flags: list[str], cdi: str
) -> None:
    made = yaml.safe_load(toolkit_simulated.specification(version, flags))
    assert (made["cdiVersion"], made["kind"]) == (cdi, "nvidia.com/gpu")
    names = [device["name"] for device in made["devices"]]
    assert names == ["0", "1", "2", *simulated.uuids(), "all"]
    groups = {"additionalGids" in device["containerEdits"] for device in made["devices"]}
    assert groups == {cdi == "0.7.0"}
    paths = [mount["hostPath"] for mount in made["containerEdits"]["mounts"]]
    assert "/usr/lib/x/libcuda.so.470.1" in paths


def test_only_the_newer_ones_know_the_flag(simulated: gpu.Simulated) -> None:
    with pytest.raises(SystemExit):
        toolkit_simulated.generate((1, 17, 8), ["--feature-flag", toolkit_simulated.FLAG])


@pytest.mark.parametrize(("version", "units"), [("1.17.8", False), ("1.20.1", True)])
def test_units_refresh_the_specification_since_1_18(root: Path, version: str, units: bool) -> None:
    file = root / toolkit.PLACE / f"nvidia-container-toolkit-base_{version}-1_amd64.deb"
    listed = subprocess.run(
        ["dpkg-deb", "--contents", str(file)], capture_output=True, text=True, check=True
    )
    assert (f"/{toolkit.UNIT}.service" in listed.stdout) == units
