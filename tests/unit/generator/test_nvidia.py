"""A lock from NVIDIA's repositories, installers and .run files: what of them is believed."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from provision import cli
from provision import lock as locks
from provision.catalog import Catalog, keys, load
from provision.cli import projects
from provision.cli.commands import lock as lock_command
from provision.errors import InputError, MachineError, ProvisionError, UnsatisfiableError
from provision.inventory import Fleet, parse_wish
from provision.lock import Lock, update
from provision.lock.keep import Upgrade
from provision.models import HostFacts
from provision.resolve import resolve_fleet
from provision.upstream import mirrors, wheels
from provision.upstream.download import GoneError
from provision.upstream.keys import as_armored, dearmor, fingerprints
from provision.upstream.mirrors import ArchiveMirror, Mirrors
from provision.upstream.nvidia import Reader
from tests.unit.generator import recorded
from tests.unit.generator.signed_repository import (
    CUDA,
    DIRECTORY,
    LOCAL,
    NAME,
    NETWORK,
    Key,
    Server,
    installer,
    packages,
    repository,
    served,
    stanza,
)

KEEP = Upgrade()
RUN = b"#!/bin/sh\n# a driver\n"
KNOWN_RUN = "/XFree86/Linux-x86_64/470.256.02/NVIDIA-Linux-x86_64-470.256.02.run"
RUN_PATH = "/tesla/470.199.02/NVIDIA-Linux-x86_64-470.199.02.run"
NETWORK_ROW = next(r for r in load().nvidia_sources if r.url.endswith(NETWORK))
LOCAL_ROW = next(r for r in load().nvidia_sources if r.file == NAME)


@pytest.fixture
def server() -> Iterator[Server]:
    with served() as found:
        yield found


def with_key(fingerprint: str) -> Catalog:
    """The catalog, with a key of the test in place of NVIDIA's."""
    facts = load()
    real = {fingerprint for row in (NETWORK_ROW, LOCAL_ROW) for fingerprint in row.signed_by or ()}
    return facts.model_copy(
        update={
            "nvidia_sources": [
                row.model_copy(update={"signed_by": [fingerprint]})
                if real.intersection(row.signed_by or ())
                else row
                for row in facts.nvidia_sources
            ],
            "nvidia_keys": [
                facts.nvidia_keys[1].model_copy(
                    update={"fingerprint": fingerprint, "file": "3bf863cc.pub"}
                )
            ],
        }
    )


def network(server: Server, key: Key, text: str = "", **more: Any) -> None:
    server.add(NETWORK, repository(key, text or packages(), **more))
    server.files[f"{NETWORK}/3bf863cc.pub"] = key.armored


class Lab:
    """Hosts of Ubuntu 20.04 and what they lock from."""

    def __init__(self, server: Server, key: Key) -> None:
        self.facts = with_key(key.fingerprint)
        self.mirrors = Mirrors(nvidia=server.url)
        self.platform = "ubuntu2004"
        self.notes: tuple[str, ...] = ()

    def fleet(self, **wish: object) -> Fleet:
        parsed = parse_wish({"tensorflow": "2.9", **wish}, where="x")
        return Fleet({"gpu01": parsed}, facts={"gpu01": HostFacts(self.platform)})

    def lock(self, before: Lock | None = None, upgrade: Upgrade = KEEP, **wish: object) -> Lock:
        fleet = self.fleet(**wish)
        made = update.make(self.facts, keys(), fleet, before, upgrade, mirrors=self.mirrors)
        assert made.lock is not None
        self.notes = made.notes
        return locks.parse(locks.dump(made.lock), where="lock.yml")

    def part(self, component: str, **wish: object) -> Any:
        (stack,) = self.lock(**wish).stacks.values()
        return stack[component]


@pytest.fixture
def lab(server: Server, key: Key, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(wheels, "requirements", lambda *_a, **_k: recorded.REQUIREMENTS)
    return Lab(server, key)


# the rows

OWN = {"driver_source": "runfile", "driver_branch": "470.256.02"}


def test_cuda_and_driver_of_the_network_repository(lab: Lab, server: Server, key: Key) -> None:
    network(server, key)
    made = lab.lock(driver_source="network", driver_branch="470", cuda_source="network")
    (name,) = made.stacks
    assert name == (
        "ubuntu2004-tensorflow2.9.3-cudanetwork11.2.2-cudnn8.1.0.77-drivernetwork470.256.02"
    )
    part = made.stacks[name]
    driver, cuda = part["nvidia_driver"], part["cuda"]
    where = {
        "url": f"{server.url}{NETWORK}",
        "suite": "/",
        "key": cuda["repository"]["key"],
        "fingerprints": [key.fingerprint],
    }
    assert driver["repository"] == cuda["repository"] == where
    assert "BEGIN PGP PUBLIC KEY BLOCK" in where["key"]
    assert (driver["source"], cuda["source"]) == ("network", "network")
    assert driver["packages"]["userspace"] == {
        "libnvidia-compute-470": "470.256.02-0ubuntu1",
        "nvidia-compute-utils-470": "470.256.02-0ubuntu1",
        "nvidia-utils-470": "470.256.02-0ubuntu1",
    }
    assert set(driver["packages"]["kernel"]) == {
        "nvidia-dkms-470",
        "nvidia-kernel-common-470",
        "nvidia-kernel-source-470",
    }
    # Of a name without a branch the driver's own version, not the newest.
    assert driver["packages"]["desktop"]["nvidia-settings"] == "470.256.02-0ubuntu1"
    assert cuda["prefix"] == "/usr/local/cuda-11.2"
    assert set(cuda["packages"]["toolkit"]) == set(CUDA)
    assert set(cuda["packages"]["runtime"]) == set(CUDA) - {
        "cuda-toolkit-11-2",
        "cuda-libraries-11-2",
    }
    assert cuda["sonames"]["libcublasLt.so.11"] == "libcublas-11-2"
    assert cuda["sonames"]["libcupti.so.11.2"] == "cuda-cupti-11-2"
    assert cuda["files"]["ptxas"] == {
        "path": "/usr/local/cuda-11.2/bin/ptxas",
        "package": "cuda-nvcc-11-2",
    }
    assert part["gpu_env"] == {
        "xla_cuda_data_dir": "/usr/local/cuda-11.2",
        "path": ["/usr/local/cuda-11.2/bin"],
        "library": ["/usr/local/cuda-11.2/lib64"],
    }
    details = made.details["packages"][name]
    assert details["cuda-nvcc-11-2"]["source"] == "cuda-ubuntu2004-x86_64"
    assert len(details["cuda-nvcc-11-2"]["sha256"]) == 64
    (source,) = made.details["sources"][name]
    assert source["signed_by"] == [key.fingerprint]


def test_cuda_of_a_local_installer_and_a_driver_of_a_run_file(
    lab: Lab, server: Server, key: Key, tmp_path: Path
) -> None:
    """The tutorials' way; nothing of it asks Ubuntu's archive."""
    archive = {"ubuntu2004": ArchiveMirror(f"{server.url}/ubuntu")}
    lab.mirrors = Mirrors(server.url, "", archive)
    server.files[LOCAL] = installer(tmp_path, key, packages())
    made = lab.lock(cuda_source="local", **OWN)
    (name,) = made.stacks
    assert name == (
        "ubuntu2004-tensorflow2.9.3-cudalocal11.2.2-cudnn8.1.0.77-driverrunfile470.256.02"
    )
    cuda, driver = made.stacks[name]["cuda"], made.stacks[name]["nvidia_driver"]
    assert cuda["installer"] == {
        "url": f"{server.url}{LOCAL}",
        "sha256": hashlib.sha256(server.files[LOCAL]).hexdigest(),
        "key": cuda["installer"]["key"],
        "fingerprints": [key.fingerprint],
        "directory": DIRECTORY,
    }
    assert "repository" not in cuda
    assert driver == {
        "branch": "470",
        "version": "470.256.02",
        "source": "runfile",
        "packages": {"userspace": {}, "kernel": {}, "desktop": {}},
        "runfile": {
            "url": f"{server.url}{KNOWN_RUN}",
            "sha256": "d6451862deb695bb0447f3b7cd6268f73e81168c10e2c10597ff3fa01349b1de",
        },
    }
    assert [path for path, _ in server.asked] == [LOCAL]
    # It is read again from the cache.
    assert lab.lock(made, cuda_source="local", **OWN).digest == made.digest
    assert [path for path, _ in server.asked] == [LOCAL]


def test_an_installer_that_changed_is_not_taken(
    lab: Lab, server: Server, key: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files[LOCAL] = installer(tmp_path / "one", key, packages())
    made = lab.lock(cuda_source="local", **OWN)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine's"))
    server.files[LOCAL] = installer(tmp_path / "two", key, packages({**CUDA, "more": ("1", "")}))
    with pytest.raises(InputError, match="other content under the same version") as caught:
        lab.lock(made, cuda_source="local", **OWN)
    assert caught.value.where == f"{server.url}{LOCAL}"


def test_a_later_installer_brings_its_own_key(
    lab: Lab, server: Server, key: Key, other: Key, tmp_path: Path
) -> None:
    """From 11.7 on the key lies in the package alone; the package is known by its hash."""
    lab.facts = load().model_copy(
        update={
            "nvidia_sources": [
                row.model_copy(update={"signed_by": None}) if row.file == NAME else row
                for row in load().nvidia_sources
            ]
        }
    )
    server.files[LOCAL] = installer(
        tmp_path, other, packages(), key_file="cuda-0123ABCD-keyring.gpg", detached=True
    )
    part = lab.part("cuda", cuda_source="local", **OWN)
    assert part["installer"]["fingerprints"] == [other.fingerprint]


def test_a_repository_without_inrelease_is_read_by_its_signature(
    lab: Lab, server: Server, key: Key
) -> None:
    network(server, key, detached=True)
    assert lab.part("cuda", **OWN)["version"] == "11.2.2"


@pytest.mark.parametrize("label", ["NVIDIA", "NVIDIA CUDA 12", ""])
def test_a_repository_that_escapes_the_hosts_pins_is_refused(
    lab: Lab, server: Server, key: Key, label: str
) -> None:
    """Who signs a repository chooses its label, and the pins on the hosts go by that alone."""
    network(server, key, label=label)
    with pytest.raises(InputError, match="apt's pins on the hosts go by") as caught:
        lab.lock(**OWN)
    assert caught.value.expected == "Label: NVIDIA CUDA"
    assert caught.value.where == f"{server.url}{NETWORK}"


def test_an_installer_that_escapes_the_hosts_pins_is_refused(
    lab: Lab, server: Server, key: Key, tmp_path: Path
) -> None:
    server.files[LOCAL] = installer(tmp_path, key, packages(), label="mine")
    with pytest.raises(InputError, match="apt's pins on the hosts go by"):
        lab.lock(cuda_source="local", **OWN)


@pytest.mark.parametrize(
    "directory", ["/etc/apt", "/var", "/var/cuda-repo-x/y", "/root/cuda-repo-x"]
)
def test_an_installer_does_not_choose_any_directory(
    lab: Lab, server: Server, key: Key, tmp_path: Path, directory: str
) -> None:
    """Hosts mark its directory as provision's and remove it after the installation."""
    server.files[LOCAL] = installer(tmp_path, key, packages(), directory=directory)
    with pytest.raises(InputError, match="there is no repository in the package"):
        lab.lock(cuda_source="local", **OWN)


def test_a_mirror_that_signs_anew(lab: Lab, server: Server, other: Key) -> None:
    """Its key is what the hosts get, and NVIDIA's own need not be there."""
    server.add(NETWORK, repository(other, packages()))
    lab.mirrors = Mirrors(nvidia=server.url, nvidia_key=other.armored.decode())
    assert lab.part("cuda", **OWN)["repository"]["fingerprints"] == [other.fingerprint]


def test_a_run_file_of_ones_own_is_known_by_its_hash(lab: Lab, server: Server, key: Key) -> None:
    network(server, key)
    part = lab.part("nvidia_driver", **OWN, driver_sha256="a" * 64)
    assert part["runfile"]["sha256"] == "a" * 64
    assert not [path for path, _ in server.asked if path.endswith(".run")]


def test_a_run_file_of_no_known_hash_is_fetched_once(
    lab: Lab, server: Server, key: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network(server, key)
    server.files[RUN_PATH] = RUN
    wish = {"driver_source": "runfile", "driver_branch": "470.199.02"}
    made = lab.lock(**wish)
    (stack,) = made.stacks.values()
    assert stack["nvidia_driver"]["runfile"]["sha256"] == hashlib.sha256(RUN).hexdigest()
    del server.files[RUN_PATH]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine's"))
    assert lab.lock(made, **wish).digest == made.digest


def test_a_run_file_stays_while_the_catalog_has_it(lab: Lab, server: Server, key: Key) -> None:
    network(server, key)
    wish = {"driver_source": "runfile", "driver_branch": "535"}
    whole = lab.facts
    older = [row for row in whole.nvidia_runfiles if row.version != "535.261.03"]
    lab.facts = whole.model_copy(update={"nvidia_runfiles": older})
    made = lab.lock(**wish)
    lab.facts = whole
    for before, upgrade, version in (
        (made, KEEP, "535.154.05"),
        (made, Upgrade(everything=True), "535.261.03"),
        (None, KEEP, "535.261.03"),
    ):
        (stack,) = lab.lock(before, upgrade, **wish).stacks.values()
        assert stack["nvidia_driver"]["version"] == version
        assert version in stack["nvidia_driver"]["runfile"]["url"]


# versions


def without_branch(facts: Catalog, *branches: str) -> Catalog:
    """A former catalog, which has these branches in no source of NVIDIA's."""
    sources = [
        row.model_copy(update={"drivers": [b for b in row.drivers if b not in branches]})
        for row in facts.nvidia_sources
    ]
    runs = [row for row in facts.nvidia_runfiles if row.version.split(".")[0] not in branches]
    return facts.model_copy(update={"nvidia_sources": sources, "nvidia_runfiles": runs})


NEWER = ("515", "520", "525", "535", "550", "565", "570", "580")


@pytest.mark.parametrize("source", ["network", "runfile"])
def test_a_branch_that_the_catalog_gains_moves_no_lock(
    lab: Lab, server: Server, key: Key, source: str
) -> None:
    """Without `driver_branch` the newest is taken, and each new one was a move of every host."""
    drivers = ("470.182.03", "470.223.02")
    network(server, key, packages(drivers=drivers))
    whole = lab.facts
    lab.facts = without_branch(whole, *NEWER)
    wish = {"driver_source": source}
    made = lab.lock(**wish)
    (stack,) = made.stacks.values()
    locked = {"network": "470.223.02", "runfile": "470.256.02"}[source]
    assert stack["nvidia_driver"]["version"] == locked
    lab.facts = without_branch(whole, *(b for b in NEWER if b != "535"))
    new = packages({}, ("535.261.03",)).replace("-470", "-535")
    network(server, key, packages(drivers=drivers) + new)
    kept = lab.lock(made, **wish)
    assert locks.dump(kept) == locks.dump(made)
    assert any(f"nvidia_driver stays at {locked}" in note for note in lab.notes)
    again = lab.lock(kept, **wish)
    assert locks.dump(again) == locks.dump(made)
    (stack,) = lab.lock(made, Upgrade(names=frozenset({"nvidia_driver"})), **wish).stacks.values()
    assert stack["nvidia_driver"]["branch"] == "535"


def test_the_newest_of_a_branch_is_what_the_index_has(lab: Lab, server: Server, key: Key) -> None:
    wish = {"driver_source": "network", "driver_branch": "470", "cuda_source": "network"}
    network(server, key, packages(drivers=("470.129.06", "470.182.03")))
    made = lab.lock(**wish)
    assert [s["nvidia_driver"]["version"] for s in made.stacks.values()] == ["470.182.03"]
    network(server, key, packages(drivers=("470.129.06", "470.182.03", "470.223.02")))

    def version(before: Lock | None, upgrade: Upgrade = KEEP) -> str:
        (stack,) = lab.lock(before, upgrade, **wish).stacks.values()
        return str(stack["nvidia_driver"]["version"])

    assert version(made) == "470.182.03"
    (name,) = made.stacks
    (choice,) = resolve_fleet(lab.facts, lab.fleet(**wish))
    assert choice.stack.id != name
    assert name.startswith(choice.stack.begins)
    assert not [note for note in lab.notes if "any more" in note]
    assert version(None) == "470.223.02"
    assert version(made, Upgrade(names=frozenset({"nvidia_driver"}))) == "470.223.02"


def test_an_exact_version_is_that_one(lab: Lab, server: Server, key: Key) -> None:
    network(server, key, packages(drivers=("470.129.06", "470.182.03")))
    wish = {"driver_source": "network", "cuda_source": "network"}
    part = lab.part("nvidia_driver", driver_branch="470.129.06", **wish)
    assert part["version"] == "470.129.06"
    versions = {v for group in part["packages"].values() for v in group.values()}
    assert versions == {"470.129.06-0ubuntu1"}
    with pytest.raises(UnsatisfiableError, match="no nvidia-utils-470 of version 470") as caught:
        lab.lock(driver_branch="470.199.02", **wish)
    assert "470.129.06-0ubuntu1, 470.182.03-0ubuntu1" in caught.value.got


def test_a_cuda_of_another_patch_is_not_passed_off(lab: Lab, server: Server, key: Key) -> None:
    network(server, key, packages({**CUDA, "cuda-toolkit-11-2": ("11.2.1-1", "cuda-nvcc-11-2")}))
    with pytest.raises(UnsatisfiableError, match=r"no cuda-toolkit-11-2 of version 11\.2\.2"):
        lab.lock(**OWN)


def test_a_patch_that_the_catalog_has_not_yet_is_left_alone(
    lab: Lab, server: Server, key: Key
) -> None:
    newer = "".join(
        stanza(name, "11.2.3-1", f"{name}-new") + stanza(f"{name}-new", "1")
        for name in ("cuda-toolkit-11-2", "cuda-libraries-11-2")
    )
    network(server, key, packages() + newer)
    packages_ = lab.part("cuda", **OWN)["packages"]["toolkit"]
    assert packages_["cuda-toolkit-11-2"] == packages_["cuda-libraries-11-2"] == "11.2.2-1"


def test_a_cuda_that_brings_a_driver_is_refused(lab: Lab, server: Server, key: Key) -> None:
    more = {
        "cuda-toolkit-11-2": ("11.2.2-1", "cuda-libraries-11-2, cuda-drivers"),
        "cuda-drivers": ("470.256.02-1", "nvidia-driver-470"),
    }
    network(server, key, packages({**CUDA, **more}))
    with pytest.raises(UnsatisfiableError, match="would bring a driver") as caught:
        lab.lock(**OWN)
    assert "cuda-drivers" in caught.value.got
    assert "nvidia-dkms-470" in caught.value.got


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        (("470.57.02", "470.82.01", "595.71.05"), "470.82.01-1"),
        (("535.1.1", "595.71.05"), "595.71.05-1"),
    ],
)
def test_what_has_no_version_of_the_drivers_own(
    lab: Lab, server: Server, key: Key, there: tuple[str, ...], taken: str
) -> None:
    """The newest older one, as with Debian's; a newer one only where there is no other."""
    text = packages().replace(
        "Depends: dkms, nvidia-kernel-common-470",
        "Depends: nvidia-modprobe, nvidia-kernel-common-470",
    )
    text += "".join(stanza("nvidia-modprobe", f"{version}-1") for version in there)
    network(server, key, text)
    part = lab.part("nvidia_driver", driver_source="network", driver_branch="470")
    assert part["packages"]["kernel"]["nvidia-modprobe"] == taken


def test_another_source_is_another_stack(lab: Lab, server: Server, key: Key) -> None:
    """What changes is said, though the versions are the same."""
    network(server, key)
    wish = {"driver_branch": "470.256.02", "cuda_source": "network"}
    names = {
        name
        for source in ("network", "runfile")
        for name in lab.lock(driver_source=source, **wish).stacks
    }
    assert len(names) == 2


# what is not believed


def refused(lab: Lab) -> ProvisionError:
    with pytest.raises(ProvisionError) as caught:
        lab.lock(**OWN)
    return caught.value


def test_a_wrong_key_is_named(lab: Lab, server: Server, key: Key, other: Key) -> None:
    network(server, key)
    server.files[f"{NETWORK}/3bf863cc.pub"] = other.armored
    error = refused(lab)
    assert "the key is not NVIDIA's pinned key" in error.message
    assert other.fingerprint in error.got
    assert key.fingerprint in error.expected
    assert error.exit_code == 2


def test_a_file_with_a_second_key_is_not_taken(
    lab: Lab, server: Server, key: Key, other: Key
) -> None:
    """apt would let both sign."""
    network(server, key)
    server.files[f"{NETWORK}/3bf863cc.pub"] = key.binary + other.binary
    assert other.fingerprint in refused(lab).got


def test_an_index_by_another_key(lab: Lab, server: Server, key: Key, other: Key) -> None:
    network(server, other)
    server.files[f"{NETWORK}/3bf863cc.pub"] = key.armored
    error = refused(lab)
    assert "the index's signature does not hold" in error.message
    assert "--nvidia-mirror" in error.hint


def test_an_expired_key(lab: Lab, server: Server, homes: Path) -> None:
    """apt on the hosts would refuse it as well."""
    old = Key(homes / "old", "old", expires="past")
    lab.facts = with_key(old.fingerprint)
    network(server, old)
    error = refused(lab)
    assert "the index's signature does not hold" in error.message
    assert "EXPKEYSIG" in error.got
    assert error.hint == "the key that signed it has expired"


def test_an_expired_index(lab: Lab, server: Server, key: Key) -> None:
    network(server, key, fields="Valid-Until: Fri, 08 Jan 2021 00:00:00 UTC\n")
    error = refused(lab)
    assert "the index has expired" in error.message
    assert "2021" in error.got


def test_no_signed_index(lab: Lab, server: Server, key: Key) -> None:
    network(server, key)
    del server.files[f"{NETWORK}/InRelease"]
    error = refused(lab)
    assert "there is no signed index" in error.message
    assert error.exit_code == 7


@pytest.mark.parametrize("name", ["InRelease", "3bf863cc.pub"])
def test_a_login_page(lab: Lab, server: Server, key: Key, name: str) -> None:
    network(server, key)
    server.files[f"{NETWORK}/{name}"] = b"<!DOCTYPE html><title>Log in</title>"
    error = refused(lab)
    assert "a web page came instead of the file" in error.message
    assert error.where.endswith(name)
    assert error.exit_code == 2


def test_an_index_that_was_changed(lab: Lab, server: Server, key: Key) -> None:
    network(server, key)
    forged = gzip.compress(packages().replace("libc6", "libc7").encode())
    server.files[f"{NETWORK}/Packages.gz"] = forged
    assert "not the index that was signed" in refused(lab).message


def test_a_repository_that_cannot_be_reached(lab: Lab) -> None:
    lab.mirrors = Mirrors(nvidia="http://127.0.0.1:9")
    error = refused(lab)
    assert isinstance(error, MachineError)
    assert not isinstance(error, GoneError)
    assert error.where.startswith("http://127.0.0.1:9")


# installers


@pytest.fixture
def reader(server: Server, key: Key, tmp_path: Path) -> Reader:
    return Reader(with_key(key.fingerprint), Mirrors(nvidia=server.url), tmp_path / "cache")


def local_row(key: Key) -> Any:
    return LOCAL_ROW.model_copy(update={"signed_by": [key.fingerprint]})


def test_a_download_goes_on_where_it_broke_off(
    reader: Reader, server: Server, key: Key, tmp_path: Path
) -> None:
    server.files[LOCAL] = data = installer(tmp_path, key, packages())
    server.breaks = [100, 50]
    assert reader.repository(local_row(key)).sha256 == hashlib.sha256(data).hexdigest()
    assert [asked for _, asked in server.asked] == ["", "bytes=100-", "bytes=150-"]


def test_two_files_never_become_one(
    reader: Reader, server: Server, key: Key, tmp_path: Path
) -> None:
    """What came of the first is not gone on with where the server has another one now."""
    server.files[LOCAL] = installer(tmp_path, key, packages())
    server.breaks = [100] * 5
    with pytest.raises(MachineError, match="breaks off"):
        reader.repository(local_row(key))
    server.files[LOCAL] = data = installer(tmp_path / "b", key, packages(drivers=()))
    assert reader.repository(local_row(key)).sha256 == hashlib.sha256(data).hexdigest()


def test_a_known_hash_must_be_the_files(
    reader: Reader, server: Server, key: Key, tmp_path: Path
) -> None:
    server.files[LOCAL] = installer(tmp_path, key, packages())
    row = local_row(key).model_copy(update={"sha256": "0" * 64})
    with pytest.raises(InputError, match="checksum mismatch"):
        reader.repository(row)
    assert not list((tmp_path / "cache").rglob("*.deb"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<html>log in</html>", "not the requested file"),
        (b"!<arch>\nnot really", "the installer can't be read"),
    ],
)
def test_what_is_no_installer(
    reader: Reader, server: Server, key: Key, data: bytes, message: str
) -> None:
    server.files[LOCAL] = data
    with pytest.raises(InputError, match=message):
        reader.repository(local_row(key))


def test_an_installer_of_another_key(
    reader: Reader, server: Server, key: Key, other: Key, tmp_path: Path
) -> None:
    server.files[LOCAL] = installer(tmp_path, other, packages())
    with pytest.raises(InputError, match="lacks the key") as caught:
        reader.repository(local_row(key))
    assert caught.value.expected == key.fingerprint


# Ubuntu's own

UBUNTU = {
    "nvidia-utils-470-server": "libnvidia-compute-470-server (= {v})",
    "libnvidia-compute-470-server": "libc6",
    "nvidia-compute-utils-470-server": "libnvidia-compute-470-server",
    "nvidia-dkms-470-server": "dkms, nvidia-kernel-source-470-server",
    "nvidia-kernel-common-470-server": "",
    "nvidia-kernel-source-470-server": "",
    "nvidia-driver-470-server": "nvidia-utils-470-server, xserver-xorg-core",
}
SIGNED = {
    "linux-modules-nvidia-470-server-generic": (
        "linux-modules-nvidia-470-server-5.4.0-216-generic, "
        "linux-signatures-nvidia-5.4.0-216-generic, "
        "nvidia-kernel-common-470-server (<= 470.256.02-1), "
        "nvidia-kernel-common-470-server (>= 470.256.02)"
    ),
    "linux-modules-nvidia-470-server-5.4.0-216-generic": "linux-image-5.4.0-216-generic",
    "linux-signatures-nvidia-5.4.0-216-generic": "",
}


def canonical(
    server: Server, key: Key, *versions: str, signed: bool = False, newer_kernel: bool = False
) -> None:
    """A mirror with one suite of focal, and no multiverse."""
    text = "".join(
        stanza(name, version, depends.format(v=version), "nvidia-graphics-drivers-470-server")
        for version in (f"{version}-0ubuntu0.20.04.1" for version in versions or ("470.256.02",))
        for name, depends in UBUNTU.items()
    )
    for name, depends in SIGNED.items() if signed else ():
        text += stanza(name, "5.4.0-216.236", depends, "linux-restricted-modules")
    if newer_kernel:
        text += stanza("linux-modules-nvidia-535-server-generic", "5.4.0-220.240+1")
    data = gzip.compress(text.encode())
    path = "restricted/binary-amd64/Packages.gz"
    release = f"Date: x\nSHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} {path}\n"
    suite = "/ubuntu/dists/focal"
    server.files[f"{suite}/{path}"] = data
    server.files[f"{suite}/InRelease"] = key.inline(release.encode())


def test_ubuntus_own_packages_from_a_mirror(lab: Lab, server: Server, key: Key, other: Key) -> None:
    network(server, key)
    canonical(server, other, signed=True)
    archive = {"ubuntu2004": ArchiveMirror(f"{server.url}/ubuntu", ("focal",))}
    lab.mirrors = Mirrors(server.url, "", archive, other.armored.decode())
    made = lab.lock(driver_branch="470")
    ((name, stack),) = made.stacks.items()
    assert name.endswith("-cudanetwork11.2.2-cudnn8.1.0.77-driver470.256.02")
    driver = stack["nvidia_driver"]
    assert "source" not in driver
    # Modules follow the kernel: what is for one kernel is not locked.
    assert set(driver["packages"]["kernel"]) == {
        "linux-modules-nvidia-470-server-generic",
        "nvidia-kernel-common-470-server",
    }
    urls = [source["url"] for source in made.details["sources"][name]]
    assert urls == [f"{server.url}/ubuntu", f"{server.url}{NETWORK}"]
    # Modules for a kernel that no host has any more, or none at all: DKMS.
    for more in ({"signed": True, "newer_kernel": True}, {}):
        canonical(server, other, **more)
        driver = lab.part("nvidia_driver", driver_branch="470")
        assert "nvidia-dkms-470-server" in driver["packages"]["kernel"]
    with pytest.raises(UnsatisfiableError, match="no signed modules of driver branch 470"):
        lab.lock(driver_branch="470", driver_modules="signed")
    lab.mirrors = Mirrors(server.url, "", archive)
    with pytest.raises(InputError, match="signature does not hold"):
        lab.lock(driver_branch="470")


def test_ubuntus_modules_are_built_where_that_is_wished(lab: Lab, server: Server, key: Key) -> None:
    network(server, key)
    canonical(server, key, signed=True)
    archive = {"ubuntu2004": ArchiveMirror(f"{server.url}/ubuntu", ("focal",))}
    lab.mirrors = Mirrors(server.url, "", archive, key.armored.decode())
    wish = {"driver_branch": "470", "driver_modules": "dkms"}
    made = lab.lock(**wish, beside=[{"tensorflow": "2.8"}])
    # Hosts of one lab may have the one and the other.
    assert all(name.endswith("-driverdkms470.256.02") for name in made.stacks)
    for stack in made.stacks.values():
        assert "nvidia-dkms-470-server" in stack["nvidia_driver"]["packages"]["kernel"]
        assert not any("modules" in name for name in stack["nvidia_driver"]["packages"]["kernel"])
    signed = lab.part("nvidia_driver", driver_branch="470", driver_modules="signed")
    assert "linux-modules-nvidia-470-server-generic" in signed["packages"]["kernel"]


def test_ubuntus_driver_stays_while_it_is_there(lab: Lab, server: Server, key: Key) -> None:
    """The catalog knows its branch, the archive its versions."""
    network(server, key)
    archive = {"ubuntu2004": ArchiveMirror(f"{server.url}/ubuntu", ("focal",))}
    lab.mirrors = Mirrors(server.url, "", archive, key.armored.decode())

    def version(made: Lock) -> str:
        (stack,) = made.stacks.values()
        return str(stack["nvidia_driver"]["version"])

    canonical(server, key, "470.199.02", "470.223.02")
    made = lab.lock(driver_branch="470")
    assert version(made) == "470.223.02"
    canonical(server, key, "470.199.02", "470.223.02", "470.256.02")
    assert version(lab.lock(made, driver_branch="470")) == "470.223.02"
    assert version(lab.lock(driver_branch="470")) == "470.256.02"
    canonical(server, key, "470.256.02")
    assert version(lab.lock(made, driver_branch="470")) == "470.256.02"
    with pytest.raises(UnsatisfiableError, match="no package of branch 470"):
        lab.lock(driver_branch="470.199.02")


def test_a_later_patch_of_cuda_moves_no_lock(lab: Lab, server: Server, key: Key) -> None:
    network(server, key)
    made = lab.lock(cuda_source="network", **OWN)
    newer = [
        row.model_copy(update={"versions": {**row.versions, "11.2.3": row.versions["11.2.2"]}})
        if row.release == "11.2"
        else row
        for row in lab.facts.cuda_releases
    ]
    lab.facts = lab.facts.model_copy(update={"cuda_releases": newer})
    network(server, key, packages() + stanza("cuda-toolkit-11-2", "11.2.3-1", "cuda-nvcc-11-2"))
    (stack,) = lab.lock(made, cuda_source="network", **OWN).stacks.values()
    assert stack["cuda"]["version"] == "11.2.2"
    (stack,) = lab.lock(cuda_source="network", **OWN).stacks.values()
    assert stack["cuda"]["version"] == "11.2.3"


def test_a_tensorflow_beside_shares_nvidias_cuda(lab: Lab, server: Server, key: Key) -> None:
    network(server, key)
    first, second = lab.lock(beside=[{"tensorflow": "2.8"}], **OWN).stacks.values()
    assert first["cuda"] == second["cuda"]
    assert first["nvidia_driver"] == second["nvidia_driver"]


# the options


def given(tmp_path: Path, key: Key, **more: Any) -> Mirrors:
    file = tmp_path / "key.asc"
    file.write_bytes(key.armored)
    return mirrors.parse(load(), nvidia_key=file, **more)


def test_mirrors_as_they_are_given(tmp_path: Path, key: Key) -> None:
    found = given(
        tmp_path,
        key,
        nvidia="https://m.test/nv/",
        archives=[
            "ubuntu2004=https://m.test/ubuntu/,focal,focal-updates",
            "debian11=http://d.test",
        ],
        archive_key=tmp_path / "key.asc",
    )
    at = "https://us.download.nvidia.com/XFree86/x.run"
    assert found.at(at) == "https://m.test/nv/XFree86/x.run"
    assert found.at("https://example.org/x") == "https://example.org/x"
    assert mirrors.key_fingerprints(found.nvidia_key) == [key.fingerprint]
    platforms = {row.id: found.of(row) for row in load().platforms}
    focal = platforms["ubuntu2004"].archives
    assert [(a.suite, a.url) for a in focal] == [
        ("focal", "https://m.test/ubuntu"),
        ("focal-updates", "https://m.test/ubuntu"),
    ]
    (row,) = (platform for platform in load().platforms if platform.id == "ubuntu2004")
    assert focal[0].signed_by == [*row.archives[0].signed_by, key.fingerprint]
    assert len(platforms["debian11"].archives) == 3
    assert platforms["debian12"] == next(r for r in load().platforms if r.id == "debian12")


def test_the_command_has_them(tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as variables; of archives several."""
    seen = []

    def stop(*_a: Any, places: Mirrors, **_k: Any) -> None:
        seen.append(places)
        raise InputError("enough")

    fleet = Fleet({"gpu01": parse_wish({"tensorflow": "2.9"}, where="x")})
    monkeypatch.setattr(projects, "read_fleet", lambda *_a, **_k: fleet)
    monkeypatch.setattr(lock_command, "_make_lock", stop)
    (tmp_path / "key.asc").write_bytes(key.armored)
    options = ["--nvidia-mirror", "https://m.test", "--nvidia-key", str(tmp_path / "key.asc")]
    runner = CliRunner()
    runner.invoke(
        cli.app,
        ["lock", "--project", str(tmp_path), *options],
        env={"PROVISION_ARCHIVE_MIRROR": "ubuntu2004=https://a.test debian11=https://b.test"},
    )
    (places,) = seen
    assert places.nvidia == "https://m.test"
    assert mirrors.key_fingerprints(places.nvidia_key) == [key.fingerprint]
    assert list(places.archives) == ["ubuntu2004", "debian11"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nvidia": "m.test"}, "a mirror is a URL"),
        ({"archives": ["focal=https://m.test"]}, "there is no such platform"),
        ({"archives": ["ubuntu2004"]}, "a mirror is a URL"),
        ({"archives": ["ubuntu2004=https://m.test,jammy"]}, "no such suite"),
        ({"archive_key": Path("x")}, "the key of a mirror"),
        ({"nvidia_key": Path("/nonexistent")}, "the key can't be read"),
        ({"nvidia_key": Path(__file__)}, "this is no public key"),
    ],
)
def test_mirrors_that_make_no_sense(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mirrors.parse(load(), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"nvidia": "https://ada:s3cret@m.test/nv"},
        {"nvidia": "https://s3cret@m.test"},
        {"nvidia": "ftp://ada:s3cret@m.test"},
        {"archives": ["ubuntu2004=https://ada:s3cret@m.test,focal"]},
        {"archives": ["ubuntu=https://ada:s3cret@m.test"]},
    ],
)
def test_a_mirror_with_a_login_is_refused_without_saying_the_password(options: Any) -> None:
    """urllib can't use one: it was taken for a part of the host's name, and shown."""
    with pytest.raises(InputError) as caught:
        mirrors.parse(load(), **options)
    assert "s3cret" not in str(caught.value)
    assert caught.value.where.startswith("--")
    if "https://ada:s3cret@m.test/nv" in options.values():
        assert "no user and no password" in caught.value.expected


def test_a_key_is_the_same_armored_or_not(key: Key) -> None:
    text = as_armored(key.binary, where="x")
    assert dearmor(text) == key.binary
    assert as_armored(key.armored, where="x") == text
    assert as_armored(key.armored.replace(b"\n", b"\r\n"), where="x") == text
    assert fingerprints(key.binary) == [key.fingerprint]
    assert fingerprints(b"") == []


def test_gpg_reads_what_is_armored_here(key: Key, homes: Path) -> None:
    """The checksum too: apt's older gpgv refuses armor with a wrong one."""
    done = subprocess.run(
        ["gpg", "--homedir", str(key.home), "--batch", "--show-keys", "--with-colons"],
        input=as_armored(key.binary, where="x").encode(),
        capture_output=True,
        check=True,
    )
    assert key.fingerprint in done.stdout.decode()
    assert b"CRC" not in done.stderr


# the wish


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"driver_source": "run"}, "there is no such source of the driver"),
        ({"driver_source": "{{ x }}"}, "driver_source is a template"),
        ({"driver_modules": "canonical"}, "there is no such source of the driver's modules"),
        ({"driver_modules": "{{ x }}"}, "driver_modules is a template"),
        (
            {"driver_modules": "dkms", "driver_source": "runfile"},
            "driver_modules is for the distribution's own driver",
        ),
        ({"driver_source": "runfile", "driver_sha256": "a" * 64}, "the hash of one .run file"),
        ({"driver_branch": "470.256.02", "driver_sha256": "a" * 64}, "the hash of one .run file"),
        ({**OWN, "driver_sha256": "A" * 64}, "driver_sha256 is not a SHA-256"),
        ({**OWN, "driver_sha256": "{{ x }}"}, "driver_sha256 is a template"),
    ],
)
def test_a_wish_for_a_driver_is_checked(wish: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_wish(wish, where="x")
