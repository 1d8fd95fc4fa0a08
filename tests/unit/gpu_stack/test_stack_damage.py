"""A converged host plans nothing; each damage plans exactly the change that names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import converged_host as made
import pytest
from converged_host import CUDNN, LIB, SITE, VENV, Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return made.make(tmp_path)


def test_a_converged_host_has_an_empty_plan(host: Host) -> None:
    plan = host.plan()
    assert plan["changes"] == []
    assert plan["components"] == []
    assert plan["blockers"] == []
    assert plan["repairs"] == {}
    assert plan["stack"] == "debian11-small"
    assert {
        name: state["version"] for name, state in plan["state"].items() if state["version"]
    } == {
        "cuda": "11.2.2",
        "cudnn": "8.1.0",
        "tensorflow": "2.9.3",
    }


def test_a_converged_host_is_whole_when_its_contents_are_read_too(host: Host) -> None:
    assert host.items(deep=True) == []


def test_any_archive_component_can_be_asked_for(host: Host) -> None:
    """A mirror's component of another name, or main, is looked for as contrib and non-free are."""
    asked = {"cuda_apt_components": ["main", "non-free", "lab"]}
    assert host.items(options=asked) == [("cuda", "apt component lab", "not enabled")]


def test_a_result_is_plain_json(host: Host) -> None:
    plan = host.plan()
    assert json.loads(json.dumps(plan)) == plan


def _lose_status(host: Host) -> None:
    host.packages["libcusolver11"]["state"] = "hold ok half-configured"
    host.write_status()


def _unhold(host: Host) -> None:
    host.packages["libcusolver11"]["state"] = "install ok installed"
    host.write_status()


def _older(host: Host) -> None:
    host.packages["libcusolver11"]["version"] = "11.0.0"
    host.write_status()


def _without(host: Host) -> None:
    del host.packages["libcusolver11"]
    host.write_status()


def _foreign(host: Host) -> None:
    host.write("/usr/local/cuda/lib64/libcusolver.so.11", made.ELF)
    host.loader["libcusolver.so.11"] = "/usr/local/cuda/lib64/libcusolver.so.11"


def _no_current_cudnn(host: Host) -> None:
    host.link("/opt/nvidia/cudnn/current", "8.5.0.96-cuda11.2")


def _another_cudnn(host: Host) -> None:
    host.write("/usr/lib/libcudnn.so.8", made.ELF)
    host.loader["libcudnn.so.8"] = "/usr/lib/libcudnn.so.8"


def _not_cached(host: Host) -> None:
    del host.loader["libcusolver.so.11"]


def _two_numpys(host: Host) -> None:
    host.write(f"{SITE}/numpy-2.0.2.dist-info/METADATA", "")


def _another_numpy(host: Host) -> None:
    host.path(f"{SITE}/numpy-1.26.4.dist-info").rename(host.path(f"{SITE}/numpy-2.0.2.dist-info"))


CUSOLVER_FILE = LIB + "/libcusolver.so.11.1.0.152"
PROFILE = "/etc/profile.d/provision-gpu.sh"
CUDNN_LOADER = "/etc/ld.so.conf.d/00-provision-cudnn.conf"
PINS = "/etc/apt/preferences.d/provision-cuda"


def _directory(host: Host, path: str) -> None:
    host.remove(path)
    host.path(path).mkdir()


def _linked(host: Host, path: str) -> None:
    """The right text behind a link into somebody's home."""
    host.write("/srv/copy", host.path(path).read_text())
    host.remove(path)
    host.link(path, "/srv/copy")


def _no_cache(host: Host) -> None:
    host.loader.clear()


def _cut_short(host: Host) -> None:
    head = bytearray(made.ELF)
    head[4:6] = b"\x02\x01"
    head[0x28:0x30] = (1 << 20).to_bytes(8, "little")
    host.alter(CUSOLVER_FILE, bytes(head))


def _relinked(host: Host) -> None:
    host.link(LIB + "/libcusolver.so.11", "libcudart.so.11.2.152")


def _journal(host: Host) -> None:
    text = "Package: libcusolver11\nStatus: hold ok half-configured\nArchitecture: amd64\n"
    host.write("/var/lib/dpkg/updates/0003", text + f"Version: {made.CUSOLVER}\n")


def _no_key(host: Host) -> None:
    key = "/etc/apt/trusted.gpg.d/debian-archive-bullseye-stable.gpg"
    host.write(key, "key")
    host.package("debian-archive-keyring", "2021", [key])
    host.remove(key)


def _system_packages(host: Host) -> None:
    text = host.path(VENV + "/pyvenv.cfg").read_text().replace("= false", "= true")
    host.write(VENV + "/pyvenv.cfg", text)


NUMPY = f"{SITE}/numpy/core.cpython-39-x86_64-linux-gnu.so"

DAMAGES: list[tuple[str, Callable[[Host], None], list[tuple[str, str, str | None]]]] = [
    (
        "library link gone",
        lambda host: host.remove(LIB + "/libcusolver.so.11"),
        [("cuda", "libcusolver.so.11", "missing")],
    ),
    (
        "library file gone",
        lambda host: host.remove(LIB + "/libcusolver.so.11.1.0.152"),
        [("cuda", "libcusolver.so.11", "missing")],
    ),
    (
        "library empty",
        lambda host: host.write(LIB + "/libcusolver.so.11.1.0.152", b""),
        [("cuda", "libcusolver.so.11", "empty")],
    ),
    (
        "library not a library",
        lambda host: host.write(LIB + "/libcusolver.so.11.1.0.152", b"<html>"),
        [("cuda", "libcusolver.so.11", "damaged")],
    ),
    (
        "library not in the loader's cache",
        _not_cached,
        [("cuda", "libcusolver.so.11", "not in the loader's cache")],
    ),
    (
        "library of another CUDA first",
        _foreign,
        [("cuda", "libcusolver.so.11", "/usr/local/cuda/lib64/libcusolver.so.11")],
    ),
    ("package gone", _without, [("cuda", "libcusolver11", None)]),
    ("package of another version", _older, [("cuda", "libcusolver11", "11.0.0")]),
    ("package half way", _lose_status, [("cuda", "libcusolver11", "half-configured")]),
    ("package not held", _unhold, [("cuda", "libcusolver11 hold", "not held")]),
    ("ptxas gone", lambda host: host.remove("/usr/bin/ptxas"), [("cuda", "ptxas", "missing")]),
    (
        "XLA's way to libdevice gone",
        lambda host: host.remove("/usr/lib/cuda/nvvm/libdevice"),
        [("cuda", "libdevice for XLA", "missing")],
    ),
    (
        "pins gone",
        lambda host: host.remove("/etc/apt/preferences.d/provision-cuda"),
        [("cuda", "/etc/apt/preferences.d/provision-cuda", "not as locked")],
    ),
    (
        "non-free switched off",
        lambda host: host.write(
            "/etc/apt/sources.list", "deb http://deb.debian.org/debian bullseye main contrib\n"
        ),
        [("cuda", "apt component non-free", "not enabled")],
    ),
    (
        "cuDNN link gone",
        lambda host: host.remove(CUDNN + "/lib64/libcudnn.so.8"),
        [("cudnn", "libcudnn.so.8", "missing")],
    ),
    (
        "cuDNN cut short",
        lambda host: host.write(CUDNN + "/lib64/libcudnn.so.8.1.0", made.ELF[:20]),
        [("cudnn", "libcudnn.so.8.1.0", "20 bytes")],
    ),
    (
        "cuDNN file gone",
        lambda host: host.remove(CUDNN + "/lib64/libcudnn.so.8.1.0"),
        [("cudnn", "libcudnn.so.8.1.0", "missing"), ("cudnn", "libcudnn.so.8", "missing")],
    ),
    (
        "cuDNN closed",
        lambda host: host.path(CUDNN + "/lib64/libcudnn.so.8.1.0").chmod(0o600),
        [("cudnn", "libcudnn.so.8.1.0", "mode 0600")],
    ),
    (
        "cuDNN directory closed",
        lambda host: host.path("/opt/nvidia").chmod(0o700),
        [("cudnn", "/opt/nvidia", "closed")],
    ),
    (
        "cuDNN not finished",
        lambda host: host.remove(CUDNN + "/.provision-manifest.json"),
        [("cudnn", "cudnn", "8.1.0")],
    ),
    (
        "cuDNN not current",
        _no_current_cudnn,
        [
            ("cudnn", "current", "8.5.0.96-cuda11.2"),
            ("cudnn", "libcudnn.so.8", "missing"),
        ],
    ),
    (
        "cuDNN unknown to the loader",
        lambda host: host.remove("/etc/ld.so.conf.d/00-provision-cudnn.conf"),
        [("cudnn", "/etc/ld.so.conf.d/00-provision-cudnn.conf", None)],
    ),
    (
        "another cuDNN first",
        _another_cudnn,
        [("cudnn", "libcudnn.so.8", "/usr/lib/libcudnn.so.8")],
    ),
    (
        "environment edited",
        lambda host: host.write("/etc/profile.d/provision-gpu.sh", "export X=1\n"),
        [("gpu_env", "/etc/profile.d/provision-gpu.sh", "other content")],
    ),
    (
        "environment block gone",
        lambda host: host.write("/etc/environment", "LANG=C\n"),
        [("gpu_env", "/etc/environment", "absent")],
    ),
    (
        "loader directories no longer wished",
        lambda host: host.write("/etc/ld.so.conf.d/01-provision-cuda.conf", "/opt/x\n"),
        [("gpu_env", "/etc/ld.so.conf.d/01-provision-cuda.conf", "present")],
    ),
    (
        "venv not finished",
        lambda host: host.remove(VENV + "/.provision.json"),
        [("tensorflow", "tensorflow", "2.9.3")],
    ),
    (
        "venv not current",
        lambda host: host.link("/opt/tensorflow/current", "2.8.0-00000000"),
        [("tensorflow", "current", "2.8.0-00000000")],
    ),
    ("wheel of another version", _another_numpy, [("tensorflow", "numpy", "2.0.2")]),
    ("wheel there twice", _two_numpys, [("tensorflow", "numpy", "1.26.4 and 2.0.2")]),
    (
        "interpreter gone",
        lambda host: host.remove("/usr/bin/python3.9"),
        [("tensorflow", "python", "missing")],
    ),
    (
        "loader's cache gone",
        _no_cache,
        [
            ("cuda", "/etc/ld.so.cache", "missing"),
            ("cudnn", "/etc/ld.so.cache", "missing"),
        ],
    ),
    ("library cut short", _cut_short, [("cuda", "libcusolver.so.11", "cut short")]),
    (
        "link of a library to another one",
        _relinked,
        [("cuda", "libcusolver.so.11", LIB + "/libcudart.so.11.2.152")],
    ),
    (
        "file of a package altered",
        lambda host: host.write("/usr/bin/ptxas", b"x"),
        [("cuda", "/usr/bin/ptxas", "altered")],
    ),
    (
        "dpkg's list of files gone",
        lambda host: host.remove("/var/lib/dpkg/info/libcusolver11:amd64.list"),
        [
            ("cuda", "libcusolver.so.11", LIB + "/libcusolver.so.11.1.0.152"),
            ("cuda", "libcusolver11 file list", "missing"),
        ],
    ),
    ("dpkg's journal", _journal, [("cuda", "libcusolver11", "half-configured")]),
    (
        "archive's key gone",
        _no_key,
        [("cuda", "/etc/apt/trusted.gpg.d/debian-archive-bullseye-stable.gpg", "missing")],
    ),
    ("pins in a directory", lambda host: _directory(host, PINS), [("cuda", PINS, "a directory")]),
    (
        "cuDNN's library became a directory",
        lambda host: _directory(host, CUDNN + "/lib64/libcudnn.so.8.1.0"),
        [("cudnn", "libcudnn.so.8.1.0", "a directory"), ("cudnn", "libcudnn.so.8", "damaged")],
    ),
    (
        "cuDNN's library overwritten in place",
        lambda host: host.write(CUDNN + "/lib64/libcudnn.so.8.1.0", made.ELF[:-1] + b"x"),
        [("cudnn", "libcudnn.so.8.1.0", "other content")],
    ),
    (
        "cuDNN's loader file linked",
        lambda host: _linked(host, CUDNN_LOADER),
        [("cudnn", CUDNN_LOADER, "a link to /srv/copy")],
    ),
    (
        "environment closed",
        lambda host: host.path(PROFILE).chmod(0o600),
        [("gpu_env", PROFILE, "mode 0600")],
    ),
    (
        "environment linked",
        lambda host: _linked(host, PROFILE),
        [("gpu_env", PROFILE, "a link to /srv/copy")],
    ),
    (
        "environment directory closed",
        lambda host: host.path("/etc/provision").chmod(0o700),
        [("gpu_env", "/etc/provision", "mode 0700, closed")],
    ),
    (
        "environment block open",
        lambda host: host.path("/etc/environment").chmod(0o666),
        [("gpu_env", "/etc/environment", "mode 0666")],
    ),
    (
        "wheel's library cut short",
        lambda host: host.write(NUMPY, made.ELF[:20]),
        [("tensorflow", NUMPY[len(SITE) + 1 :], "20 bytes instead of 64")],
    ),
    (
        "wheel's library overwritten in place",
        lambda host: host.write(NUMPY, made.ELF[:-1] + b"x"),
        [("tensorflow", NUMPY[len(SITE) + 1 :], "altered")],
    ),
    (
        "RECORD gone",
        lambda host: host.remove(f"{SITE}/numpy-1.26.4.dist-info/RECORD"),
        [("tensorflow", "numpy-1.26.4.dist-info/RECORD", "missing")],
    ),
    (
        "RECORD edited",
        lambda host: host.write(f"{SITE}/numpy-1.26.4.dist-info/RECORD", "x,sha256=y,1\n"),
        [("tensorflow", "numpy-1.26.4.dist-info/RECORD", "changed")],
    ),
    ("venv open to the system", _system_packages, [("tensorflow", "pyvenv.cfg", "open")]),
    (
        "venv's Python another one",
        lambda host: host.link(VENV + "/bin/python", "/usr/bin/ptxas"),
        [("tensorflow", "python", "/usr/bin/ptxas")],
    ),
    (
        "requirements edited",
        lambda host: host.write(VENV + "/requirements.txt", "numpy\n"),
        [("tensorflow", "requirements.txt", "other content")],
    ),
    (
        "venvs closed",
        lambda host: host.path("/opt/tensorflow").chmod(0o700),
        [("tensorflow", "/opt/tensorflow", "closed")],
    ),
    (
        "TensorFlow's library gone",
        lambda host: host.remove(f"{SITE}/{made.LIBRARY}"),
        [("tensorflow", made.LIBRARY, "missing")],
    ),
]


@pytest.mark.parametrize(
    ("damage", "expected"),
    [(damage, expected) for _name, damage, expected in DAMAGES],
    ids=[name for name, _damage, _expected in DAMAGES],
)
def test_a_damage_is_named(
    host: Host, damage: Callable[[Host], None], expected: list[tuple[str, str, str | None]]
) -> None:
    damage(host)
    assert host.items() == expected
    assert host.plan()["components"] == sorted({change[0] for change in expected})


def test_a_lost_library_is_repaired_by_its_package_alone(host: Host) -> None:
    host.remove(LIB + "/libcusolver.so.11")
    plan = host.plan()
    assert plan["repairs"] == {"cuda": {"cuda_reinstall": ["libcusolver11"]}}
    assert plan["changes"][0]["to"] == f"libcusolver11 {made.CUSOLVER}"


def test_packages_to_reinstall_are_named_once(host: Host) -> None:
    host.remove("/usr/bin/ptxas")
    host.remove("/usr/lib/cuda/nvvm/libdevice")
    host.remove(LIB + "/libcudart.so.11.0")
    wish = ["libcudart11.0", "nvidia-cuda-toolkit"]
    assert host.plan()["repairs"] == {"cuda": {"cuda_reinstall": wish}}


def test_profile_runtime_asks_for_the_tools_that_were_taken_out(host: Host) -> None:
    del host.packages["nvidia-cuda-toolkit"]
    host.write_status()
    options = {"cuda_profile": "runtime"}
    assert host.items(options=options) == [("cuda", "compiler tools", None)]
    marker = "/usr/lib/nvidia-cuda-toolkit/.provision-tools"
    host.write(marker, f"nvidia-cuda-toolkit={made.TOOLKIT}\n")
    assert host.items(options=options) == []
    host.remove("/usr/bin/ptxas")
    plan = host.plan(options=options)
    assert [change["item"] for change in plan["changes"]] == ["ptxas"]
    assert plan["repairs"] == {}


def test_a_hold_that_is_not_wished_is_released(host: Host) -> None:
    items = host.items(options={"cuda_hold": False})
    assert items[0] == ("cuda", "libcudart11.0 hold", "held")
    assert len(items) == 3


def test_a_mirror_needs_no_component_of_the_platform(host: Host) -> None:
    host.write("/etc/apt/sources.list", "")
    assert host.items(options={"cuda_mirror": "http://mirror.example/debian"}) == []


def test_altered_contents_are_seen_only_when_they_are_read(host: Host) -> None:
    altered = made.ELF[:-1] + b"\1"
    host.alter(LIB + "/libcusolver.so.11.1.0.152", altered)
    host.alter(CUDNN + "/lib64/libcudnn.so.8.1.0", altered)
    host.alter(f"{SITE}/tensorflow/__init__.py", b"y = 2\n")
    assert host.items() == []
    assert host.items(deep=True) == [
        ("cuda", LIB + "/libcusolver.so.11.1.0.152", "altered"),
        ("cudnn", "libcudnn.so.8.1.0", "other content"),
        ("tensorflow", "tensorflow/__init__.py", "altered"),
    ]


def test_a_half_installed_package_is_installed_again_a_half_configured_one_configured(
    host: Host,
) -> None:
    host.packages["libcusolver11"]["state"] = "hold reinstreq half-installed"
    host.packages["libcudart11.0"]["state"] = "hold ok half-configured"
    host.write_status()
    assert host.plan()["repairs"] == {"cuda": {"cuda_reinstall": ["libcusolver11"]}}


def test_what_only_a_deep_look_reads_of_a_wheel(host: Host) -> None:
    host.write(f"{SITE}/tensorflow/__init__.cpython-39.pyc", b"other")
    host.remove(f"{SITE}/absl/flags.py")
    assert host.items() == []
    assert host.items(deep=True) == [
        ("tensorflow", "absl/flags.py", "missing"),
        ("tensorflow", "tensorflow/__init__.cpython-39.pyc", "altered"),
    ]


def test_a_file_that_was_only_touched_is_whole(host: Host) -> None:
    for path in (NUMPY, CUSOLVER_FILE, CUDNN + "/lib64/libcudnn.so.8.1.0"):
        host.write(path, made.ELF)
    assert host.items() == []


def test_what_a_user_did_to_a_wheel_of_his_own_is_his(host: Host) -> None:
    host.write(f"{SITE}/pip/__init__.py", b"changed")
    assert host.items(deep=True) == []


def test_an_environment_file_that_is_closed_for_others_is_left_so(host: Host) -> None:
    host.path("/etc/environment").chmod(0o600)
    assert host.items() == []


def test_wheels_that_users_add_are_theirs(host: Host) -> None:
    host.write(f"{SITE}/pandas-1.5.3.dist-info/METADATA", "")
    assert host.items() == []


def test_a_bare_host_plans_every_component_in_order(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("/etc/os-release", "ID=debian\nVERSION_ID=11\n")
    host.write("/proc/sys/kernel/arch", "x86_64\n")
    plan = host.plan()
    assert plan["components"] == ["cuda", "cudnn", "gpu_env", "tensorflow", "receipt"]
    assert [
        change["item"] for change in plan["changes"] if change["component"] == "tensorflow"
    ] == ["tensorflow"]
