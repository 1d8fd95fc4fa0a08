"""What Debian 12 and 13 do otherwise than Debian 11, as the look and preflight see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
from gpu_stack import room
from gpu_stack.components import cuda, cudnn
from gpu_stack.components.tensorflow import rules as tensorflow_rules
from gpu_stack.host import loader
from gpu_stack.host.context import Context, run_nothing

GIB = 1 << 30


def host(root: Path, packages: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> Any:
    """A context of a host with these packages and files."""
    here = made.Host(root)
    for path, content in (files or {}).items():
        here.write(path, content)
    for name, version in packages.items():
        here.package(name, version, [])
    return Context(root=str(root), runner=run_nothing)


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("11.2.152~11.2.2-3+deb11u3", "11.2.2"),
        ("11.1.1+~11.1.0.152~11.2.2-3+deb11u3", "11.2.2"),
        ("11.2.2-3+deb11u3", "11.2.2"),
        ("11.8.89~11.8.0-5~deb12u1", "11.8.0"),
        ("12.4.131~12.4.1-2", "12.4.1"),
        ("11.5.1-1ubuntu1", "11.5.1"),
    ],
)
def test_cudas_own_version_stands_before_the_revision(version: str, release: str) -> None:
    assert cuda.release_of(version) == release


TWELVE = {"sonames": {"libcudart.so.12": "libcudart12", "libcublas.so.12": "libcublas12"}}


@pytest.mark.parametrize(
    ("row", "packages", "version"),
    [
        (TWELVE, {"libcudart12": "12.4.127~12.4.1-2"}, "12.4.1"),
        ({}, {"libcudart11.0": "11.8.89~11.8.0-5~deb12u1"}, "11.8.0"),
        # the lock's before another release's, the toolkit before both
        (TWELVE, {"libcudart11.0": "1~11.8.0-5", "libcudart12": "1~12.4.1-2"}, "12.4.1"),
        (TWELVE, {"libcudart12": "1~12.4.1-2", "nvidia-cuda-toolkit": "1~11.8.0-5"}, "11.8.0"),
        (TWELVE, {"libcublas12": "1~12.4.1-2", "libcudart-doc": "1~12.4.1-2"}, None),
    ],
)
def test_cudas_version_is_seen_by_any_releases_libcudart(
    tmp_path: Path, row: dict[str, Any], packages: dict[str, str], version: str | None
) -> None:
    context = host(tmp_path, packages)
    context.row = {"cuda": row}
    context._loader = loader.parse("")
    assert cuda.look(context)["version"] == version


# To fetch and unpacked: what the indices say of each release (bytes, 2026-11-21), and the room for
# it in eighths of a GiB. A release without figures comes last.
SIZES = {
    ("11", "toolkit"): ((1.33e9, 3.64e9), (10, 28)),
    ("11", "runtime"): ((0.49e9, 1.23e9), (4, 10)),
    ("12", "toolkit"): ((1.56e9, 5.19e9), (12, 40)),
    ("12", "runtime"): ((0.54e9, 1.64e9), (5, 13)),
    ("13", "toolkit"): ((1.82e9, 4.64e9), (14, 36)),
    ("13", "runtime"): ((0.63e9, 1.41e9), (6, 12)),
    ("14", "toolkit"): (None, (14, 40)),
    ("14", "runtime"): (None, (6, 13)),
}


@pytest.mark.parametrize(("release", "profile"), [key for key in SIZES if SIZES[key][0]])
def test_room_for_cuda_is_what_the_release_needs(release: str, profile: str) -> None:
    fetched, unpacked = SIZES[release, profile][0] or (0, 0)
    needs = room.cuda_needs({"distribution": "debian", "release": release}, profile)
    assert fetched < needs["/var/cache/apt"] < 1.5 * fetched
    assert unpacked < needs["/usr"] < 1.2 * unpacked
    # where nothing is known, nothing known is larger
    unknown = room.cuda_needs({"distribution": "ubuntu", "release": "22.04"}, profile)
    assert all(needs[place] <= unknown[place] for place in needs)


@pytest.mark.parametrize(("release", "profile"), SIZES)
def test_the_room_is_rounded_up_to_eighths(release: str, profile: str) -> None:
    fetched, unpacked = SIZES[release, profile][1]
    needs = room.cuda_needs({"distribution": "debian", "release": release}, profile)
    assert needs == {"/var/cache/apt": fetched * GIB // 8, "/usr": unpacked * GIB // 8}


def test_the_profile_is_the_toolkit_where_none_is_asked_for() -> None:
    debian = {"distribution": "debian", "release": "12"}
    assert room.cuda_needs(debian, None) == room.cuda_needs(debian, "toolkit")
    assert room.cuda_needs(debian, "toolkit")["/usr"] == 5 * GIB


@pytest.mark.parametrize(("release", "blocked"), [("11", False), ("12", True), ("13", True)])
def test_a_disk_that_will_do_for_one_release_is_too_small_for_another(
    release: str, blocked: bool
) -> None:
    found = {
        "platform": {"distribution": "debian", "release": release},
        "state": {"cuda": {"version": None}},
        "preflight": {"disk": {"/usr": {"free": 4 * GIB, "device": 1}}},
    }
    changes = [{"component": "cuda", "item": "libcudart", "reboot": False}]
    assert bool(room.disk_full(found, changes, {}, {})) is blocked


GPUS = {"Maxwell": "0x13f2", "Hopper": "0x2330", "Blackwell": "0x2b85"}


def test_the_cuda_that_does_not_know_a_gpu_is_the_locks() -> None:
    facts = {"gpus": [{"device": "0x2330"}]}
    row = {"tensorflow": {"version": "2.4.4"}, "cuda": {"release": "11.0"}}
    ((message, _hint),) = tensorflow_rules.gpu_translated(facts, [], {}, row)
    assert "of CUDA 11.0 do not know it" in message


@pytest.mark.parametrize(
    ("cuda", "unknown"),
    [
        ({"release": "11.7"}, ", and cuDNN and cuBLAS of CUDA 11.7 do not know it"),
        ({"release": "11.8"}, ""),
        (None, ""),
    ],
)
def test_cuda_11_8_and_the_wheels_know_hopper(cuda: Any, unknown: str) -> None:
    facts = {"gpus": [{"device": GPUS["Hopper"]}]}
    row = {"tensorflow": {"version": "2.14.1"}, "cuda": cuda}
    ((message, _hint),) = tensorflow_rules.gpu_translated(facts, [], {}, row)
    assert message.endswith(f"the first run translates for half an hour{unknown}")


@pytest.mark.parametrize(
    ("name", "version", "hint"),
    [
        ("Maxwell", "2.16.2", ""),
        ("Maxwell", "2.17.0", "wish for a TensorFlow older than 2.17 on this host"),
        ("Maxwell", "2.99.0", ""),
        ("Hopper", "2.17.0", ""),
        ("Blackwell", "2.9.3", "take this host out of the group"),
    ],
)
def test_a_gpu_that_a_wheel_has_no_code_for_stops_before_anything_is_installed(
    name: str, version: str, hint: str
) -> None:
    """All was installed on a Maxwell GPU, and the proof failed."""
    facts = {"gpus": [{"device": GPUS[name]}]}
    row = {"tensorflow": {"version": version}, "cuda": {"release": "12.3"}}
    told = tensorflow_rules.gpu_without_code(facts, [], {}, row)
    assert len(told) == bool(hint)
    for message, way in told:
        assert f"does not run on a {name} GPU" in message
        assert way.startswith(hint)


def test_a_translation_ends_with_the_release_that_has_code() -> None:
    """2.12 was the advice, and 2.16 is the first with code of 9.0."""
    facts = {"gpus": [{"device": GPUS["Hopper"]}]}
    for version, release in (("2.11.1", "11.2"), ("2.15.1", "12.2"), ("2.16.2", "12.3")):
        row = {"tensorflow": {"version": version}, "cuda": {"release": release}}
        told = tensorflow_rules.gpu_translated(facts, [], {}, row)
        assert [hint for _, hint in told] == (
            [] if version == "2.16.2" else ["wish for a TensorFlow newer than 2.15 on this host"]
        )
        unknown = ["do not know it" in message for message, _ in told]
        assert unknown == [release == "11.2"] * len(told)


CUDNN = "/opt/nvidia/cudnn/8.7.0.84-cuda11"
CUDNN_ROW = {
    "version": "8.7.0.84",
    "cuda": "11",
    "sha256": "e" * 64,
    "soname": "libcudnn.so.8",
}


def cudnn_host(root: Path, library: str) -> Any:
    """A host with cuDNN from an archive that has its libraries in `library`."""
    here = made.Host(root)
    header = "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 7\n#define CUDNN_PATCHLEVEL 0\n"
    here.write(CUDNN + "/include/cudnn_version.h", header)
    here.write(f"{CUDNN}/{library}/libcudnn.so.8.7.0", made.ELF)
    here.link(f"{CUDNN}/{library}/libcudnn.so.8", "libcudnn.so.8.7.0")
    here.link("/opt/nvidia/cudnn/current", "8.7.0.84-cuda11")
    here.write("/etc/ld.so.cache", b"cache")
    files = {
        "include/cudnn_version.h": {"size": len(header), "mode": "0644"},
        f"{library}/libcudnn.so.8.7.0": {"size": len(made.ELF), "mode": "0644"},
        f"{library}/libcudnn.so.8": {"link": "libcudnn.so.8.7.0"},
    }
    manifest = {"format": 1, "version": "8.7.0.84", "cuda": "11", "archive_sha256": "e" * 64}
    here.write(CUDNN + "/.provision-manifest.json", json.dumps({**manifest, "files": files}))
    current = f"/opt/nvidia/cudnn/current/{library}"
    here.write(cudnn.LOADER_FILE, current + "\n")
    context = Context(root=str(root), row={"cudnn": CUDNN_ROW}, runner=run_nothing)
    context._loader = {"libcudnn.so.8": current + "/libcudnn.so.8"}
    return here, context


def test_cudnn_of_8_3_or_later_is_found_in_lib(tmp_path: Path) -> None:
    here, context = cudnn_host(tmp_path, "lib")
    seen = cudnn.look(context)
    assert seen["version"] == "8.7.0"
    assert cudnn.differ({"cudnn": CUDNN_ROW}, seen, {}) == []
    # what a role for the older layout would have written
    here.write(cudnn.LOADER_FILE, "/opt/nvidia/cudnn/current/lib64\n")
    (change,) = cudnn.differ({"cudnn": CUDNN_ROW}, cudnn.look(context), {})
    assert (change["item"], change["to"]) == (cudnn.LOADER_FILE, "/opt/nvidia/cudnn/current/lib")
