"""A mode or an owner that the stack can't have is in the plan, and the plan says what cures it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import converged_host as made
import pytest
from converged_host import CUDNN, LIB, Host

PTXAS = "/usr/bin/ptxas"
TOOLKIT_FILES = [PTXAS, "/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc"]
STRANGER = 4711


def elf(kind: int, *segments: int) -> bytes:
    """A 64-bit ELF file's head: its type, and the types of its program headers."""
    head = bytearray(b"\x7fELF\x02\x01" + bytes(58))
    struct.pack_into("<H", head, 0x10, kind)
    struct.pack_into("<Q", head, 0x20, 64)
    struct.pack_into("<HH", head, 0x36, 56, len(segments))
    return bytes(head) + b"".join(struct.pack("<I", segment) + bytes(52) for segment in segments)


PROGRAM, LIBRARY = elf(3, 6, 3), elf(3, 1, 2)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """The converged host with a program and a configuration file in the toolkit's package."""
    host = made.make(tmp_path)
    host.write(PTXAS, PROGRAM)
    host.path(PTXAS).chmod(0o755)
    host.write("/etc/nvcc.profile", "TOP = /usr\n")
    host.package(
        "nvidia-cuda-toolkit", made.TOOLKIT, [*TOOLKIT_FILES, "/usr/lib/cuda/nvvm/libdevice"]
    )
    conffile = "Conffiles:\n /etc/nvcc.profile 5b8d2d4f8d3ac0d4a0e5b8d2d4f8d3ac\n"
    list_of = "/var/lib/dpkg/info/nvidia-cuda-toolkit:amd64.list"
    files = ["/.", "/etc", "/etc/nvcc.profile", "/usr", "/usr/bin", PTXAS]
    files += ["/usr/lib", "/usr/lib/nvidia-cuda-toolkit", "/usr/lib/nvidia-cuda-toolkit/libdevice"]
    host.write(list_of, "\n".join([*files, TOOLKIT_FILES[1]]) + "\n")
    host.date(list_of, made.INSTALLED)
    status = host.path("/var/lib/dpkg/status")
    text = status.read_text().replace(
        f"Version: {made.TOOLKIT}\n", f"Version: {made.TOOLKIT}\n{conffile}"
    )
    host.write("/var/lib/dpkg/status", text)
    assert host.plan()["changes"] == []
    return host


REINSTALL = {"cuda_reinstall": ["nvidia-cuda-toolkit"]}


@pytest.mark.parametrize(
    ("path", "mode", "expected", "repair"),
    [
        (PTXAS, 0o644, "mode 0644, not executable for all", REINSTALL),
        (PTXAS, 0o744, "mode 0744, not executable for all", REINSTALL),
        (PTXAS, 0o777, "mode 0777, writable by others", REINSTALL),
        (PTXAS, 0o4755, "mode 4755, runs with its owner's rights", REINSTALL),
        (PTXAS, 0o750, "mode 0750", REINSTALL),
        (TOOLKIT_FILES[1], 0o646, "mode 0646, writable by others", REINSTALL),
        (
            "/etc/nvcc.profile",
            0o600,
            "mode 0600",
            {"cuda_modes": ["/etc/nvcc.profile 0644"]},
        ),
        (
            "/usr/lib/nvidia-cuda-toolkit",
            0o744,
            "mode 0744, closed",
            {"cuda_modes": ["/usr/lib/nvidia-cuda-toolkit 0755"]},
        ),
        (
            "/usr/lib/nvidia-cuda-toolkit",
            0o757,
            "mode 0757, writable by others",
            {"cuda_modes": ["/usr/lib/nvidia-cuda-toolkit 0755"]},
        ),
    ],
)
def test_a_lost_mode_is_planned_and_cured(
    host: Host, path: str, mode: int, expected: str, repair: dict[str, list[str]]
) -> None:
    """`chmod a-x /usr/bin/ptxas`: the plan was empty, and a run changed nothing."""
    host.path(path).chmod(mode)
    plan = host.plan()
    assert [(change["item"], change["from"]) for change in plan["changes"]] == [(path, expected)]
    assert plan["repairs"] == {"cuda": repair}


def test_what_the_administrator_has_overridden_stays(host: Host) -> None:
    """dpkg-statoverride(1) is how Debian lets an administrator choose a mode."""
    host.path(PTXAS).chmod(0o750)
    host.path("/usr/lib/nvidia-cuda-toolkit").chmod(0o757)
    lines = [f"root gpu 750 {PTXAS}", "root root 757 /usr/lib/nvidia-cuda-toolkit"]
    host.write("/var/lib/dpkg/statoverride", "\n".join(lines) + "\n")
    assert host.items() == []


def test_a_mode_that_is_as_old_as_the_package_is_its_own(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No host drifts for ever where a package's own archive has a mode that no rule knows."""
    host.path(PTXAS).chmod(0o646)
    assert [item[1] for item in host.items()] == [PTXAS]
    unpacked = host.path(PTXAS).stat().st_ctime + 1
    record = host.path("/var/lib/dpkg/info/nvidia-cuda-toolkit:amd64.list")
    os.utime(record, (unpacked, unpacked))
    monkeypatch.setattr("gpu_stack.host.package_files.time.time", lambda: unpacked + 1)
    assert host.items() == []
    # A record of tomorrow was written by a clock that was wrong: then the rules alone hold.
    monkeypatch.setattr("gpu_stack.host.package_files.time.time", lambda: unpacked - 1)
    assert [item[1] for item in host.items()] == [PTXAS]


def test_no_library_and_no_data_needs_to_be_executable(host: Host) -> None:
    for path, content in (("/usr/bin/data", b"text"), ("/usr/bin/lib", LIBRARY)):
        host.write(path, content)
    host.package("libcusolver11", made.CUSOLVER, ["/usr/bin/data", "/usr/bin/lib"])
    host.path("/usr/bin/lib").chmod(0o644)
    flaws = [item[1] for item in host.items() if item[1].startswith("/usr/bin/")]
    assert flaws == []


def test_a_script_and_a_program_outside_of_bin_need_to_be(host: Host) -> None:
    """nvidia-smi itself lies in /usr/lib/nvidia/current on Debian."""
    places = {"/usr/bin/script": b"#!/bin/sh\n", "/usr/lib/nvidia/current/nvidia-smi": PROGRAM}
    places["/usr/lib/fixed"] = elf(2)
    for path, content in places.items():
        host.write(path, content)
    host.package("libcusolver11", made.CUSOLVER, sorted(places))
    assert {item[1] for item in host.items()} >= set(places)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(
    ("path", "component", "repair"),
    [
        (LIB + "/libcusolver.so.11.1.0.152", "cuda", {"cuda_reinstall": ["libcusolver11"]}),
        (
            "/usr/lib/nvidia-cuda-toolkit",
            "cuda",
            {"cuda_modes": ["/usr/lib/nvidia-cuda-toolkit 0755"]},
        ),
        (CUDNN + "/lib64", "cudnn", None),
        ("/opt/nvidia/cudnn", "cudnn", None),
        ("/etc/provision", "gpu_env", {"gpu_env_modes": ["/etc/provision 0755"]}),
    ],
)
def test_what_a_user_owns_is_planned(
    host: Host, path: str, component: str, repair: dict[str, list[str]] | None
) -> None:
    os.chown(host.path(path), STRANGER, -1)
    found = [
        (change["component"], change["item"], change["from"]) for change in host.plan()["changes"]
    ]
    assert found == [(component, path, f"owned by user {STRANGER}")]
    assert host.plan()["repairs"] == ({component: repair} if repair else {})


def test_whose_a_directory_above_cudnn_is_is_the_administrators(host: Host) -> None:
    host.path("/opt").chmod(0o777)
    assert [item for item in host.items() if item[0] == "cudnn"] == []


@pytest.mark.parametrize(
    ("path", "mode", "expected", "component"),
    [
        (CUDNN, 0o777, "mode 0777, writable by others", "cudnn"),
        (CUDNN + "/include", 0o700, "closed", "cudnn"),
        (CUDNN + "/.provision-manifest.json", 0o666, "mode 0666, writable by others", "cudnn"),
        ("/etc/profile.d", 0o700, "mode 0700, closed", "gpu_env"),
        ("/etc/ld.so.cache", 0o600, "mode 0600", "gpu_env"),
        ("/var/lib/provision/receipt.json", 0o600, "mode 0600", "receipt"),
        ("/var/lib/provision", 0o700, "mode 0700, closed", "receipt"),
    ],
)
def test_what_is_ours_is_roots_and_readable(
    host: Host, path: str, mode: int, expected: str, component: str
) -> None:
    """A closed receipt or loader's cache failed the checks, and the plan was empty."""
    if not host.path(path).exists():
        host.write(path, "")
    host.path(path).chmod(mode)
    changes = [(change["component"], change["from"]) for change in host.plan()["changes"]]
    assert changes == [(component, expected)]


def test_a_compiler_tool_that_was_taken_out_of_its_package_is_looked_at(host: Host) -> None:
    """Profile runtime has ptxas without its package."""
    del host.packages["nvidia-cuda-toolkit"]
    host.write_status()
    host.write(
        "/usr/lib/nvidia-cuda-toolkit/.provision-tools", f"nvidia-cuda-toolkit={made.TOOLKIT}\n"
    )
    options = {"cuda_profile": "runtime"}
    assert host.items(options=options) == []
    host.path(PTXAS).chmod(0o644)
    plan = host.plan(options=options)
    assert [(change["item"], change["from"]) for change in plan["changes"]] == [
        ("ptxas", "mode 0644, not executable for all")
    ]
    assert plan["repairs"] == {"cuda": {"cuda_modes": [f"{PTXAS} 0755"]}}
