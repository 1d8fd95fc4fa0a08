"""What people's machines have, brought upon a host as locked: the doctor names each, and it goes.

The states are those of the threads, made as they came about there: a library copied under an old
name, an entry whose key was never fetched, a driver that unattended-upgrades moved, packages of one
name and another version. `--fix` cures what it promises to; what is left is cured by the commands
that the doctor prints. Last comes TensorFlow, whose own words are asked there.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor_run import Found, cure
from doctor_run import doctor as ask
from doctor_run import package as script_of
from focal import NETWORK, Focal, focal

from tests.ground import serve

pytestmark = [pytest.mark.slow]

KERNEL = "5.4.0-216-generic"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Focal]:
    """A host as locked, with an initramfs of its own."""
    directory = tmp_path_factory.mktemp("doctor")
    with serve(directory) as site, focal(directory, "doctor1", site) as made:
        made.root(
            "DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "
            "initramfs-tools kmod >/dev/null 2>&1;"
            f"mkdir -p /lib/modules/{KERNEL} && cd /lib/modules/{KERNEL} && "
            "touch modules.order modules.builtin && "
            f"echo simulated > /boot/vmlinuz-{KERNEL} && "
            f"update-initramfs -c -k {KERNEL} >/dev/null 2>&1; test -s /boot/initrd.img-{KERNEL}"
        )
        made.cured(NETWORK)
        yield made


def doctor(host: Focal, *arguments: str) -> tuple[int, Found, str]:
    return ask(host, NETWORK, *arguments)


def package(host: Focal, name: str, version: str, *fields: str) -> None:
    host.root(script_of(name, version, *fields))


def library(directory: Path, soname: str) -> bytes:
    """A shared library that was built under this name."""
    source, made = directory / "empty.c", directory / soname
    source.write_text("int nothing;\n", "ascii")
    subprocess.run(
        ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}", "-o", made, source], check=True
    )
    return made.read_bytes()


def test_a_converged_host_has_no_finding(host: Focal) -> None:
    code, findings, output = doctor(host)
    assert (code, findings) == (0, {}), output
    assert f"{NETWORK}: healthy" in output


HISTORY = """

Start-Date: 2026-11-20  06:21:10
Commandline: /usr/bin/unattended-upgrade
Upgrade: libnvidia-compute-470:amd64 (470.239.06-0ubuntu0.20.04.1, 470.256.02-0ubuntu0.20.04.1), \
tzdata:amd64 (2024a-0ubuntu0.20.04, 2025b-0ubuntu0.20.04.1)
End-Date: 2026-11-20  06:21:19
"""
NVIDIA_LIST = "/etc/apt/sources.list.d/cuda-ubuntu2004-x86_64.list"
LOCAL_LIST = "/etc/apt/sources.list.d/cuda-ubuntu2004-11-2-local.list"
TWICE = "https://mirror.example.invalid/libnvidia-container"
# {case: (what brings it about, a part of the evidence)}
CURED: dict[str, tuple[str, str]] = {
    "unattended-upgrades": (
        f"cat >> /var/log/apt/history.log <<'END'{HISTORY}END\n"
        "rm /etc/apt/apt.conf.d/51provision-gpu-stack",
        "unattended-upgrades moved libnvidia-compute-470 from 470.239.06-0ubuntu0.20.04.1",
    ),
    # somebody blacklisted it by hand, as the tutorials say, and stopped there
    "nouveau-initramfs": (
        "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' "
        "> /etc/modprobe.d/blacklist-nouveau.conf",
        f"/boot/initrd.img-{KERNEL} is older than /etc/modprobe.d/blacklist-nouveau.conf",
    ),
    # the tutorial's entry, and never its key
    "key-missing": (
        "echo 'deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] https://developer."
        f"download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64/ /' > {NVIDIA_LIST}",
        "is signed by A4B469963BF863CC; /usr/share/keyrings/cuda-archive-keyring.gpg",
    ),
    # the local installer's repository was deleted to free the disk
    "local-repo-gone": (
        f"echo 'deb file:///var/cuda-repo-ubuntu2004-11-2-local /' > {LOCAL_LIST}",
        f"{LOCAL_LIST} names /var/cuda-repo-ubuntu2004-11-2-local, which is not there",
    ),
    # apt takes a key that comes after none, and not the other way round
    "signed-by-conflict": (
        f"echo 'deb [signed-by=/usr/share/keyrings/lab-ubuntu.asc] {TWICE} /' "
        "> /etc/apt/sources.list.d/toolkit.list;"
        f"echo 'deb {TWICE} /' > /etc/apt/sources.list.d/zz-old-toolkit.list",
        "apt-get check: E: Conflicting values set for option Signed-By",
    ),
    "hand-made-link": (
        "base64 -d > /usr/local/lib/libcudart.so.12 && cd /usr/local/lib && "
        "cp libcudart.so.12 libcudart.so.11.0",
        "/usr/local/lib/libcudart.so.11.0 is libcudart.so.12",
    ),
}  # fmt: skip
LOGIN = "/root/cudnn-11.2-linux-x64-v8.1.0.77.tgz"


def test_each_is_named_and_fixed(host: Focal, tmp_path: Path) -> None:
    data = base64.b64encode(library(tmp_path, "libcudart.so.12")).decode()
    for case, (script, _evidence) in CURED.items():
        host.root(script, stdin=data if case == "hand-made-link" else None)
    page = "<!DOCTYPE html>\n<html><head><title>Log in | NVIDIA Developer</title></head></html>\n"
    host.root(f"cat > {LOGIN}", stdin=page)

    code, findings, output = doctor(host)
    assert code == 5, output
    assert set(findings) == {*CURED, "login-wall"}, output
    for case, (_script, evidence) in CURED.items():
        assert evidence in "\n".join(findings[case]["evidence"]), findings[case]
    assert LOGIN in findings["login-wall"]["evidence"][0]

    code, findings, output = doctor(host, "--fix")
    assert set(findings) == {"login-wall"}, output
    assert code == 5, output
    # nothing is lost
    kept = host.root("ls /var/backups/provision-doctor /etc/apt/sources.list.d").split()
    assert {"libcudart.so.11.0", f"initrd.img-{KERNEL}"} <= set(kept)
    assert any(name.startswith("zz-old-toolkit.list.") for name in kept)
    assert f"{NVIDIA_LIST.rsplit('/', 1)[1]}.provision-saved" in kept
    blacklist = f"lsinitramfs /boot/initrd.img-{KERNEL} | grep blacklist-nouveau"
    assert host.root(blacklist).strip() == "etc/modprobe.d/blacklist-nouveau.conf"

    host.root(f"rm {LOGIN}")
    code, findings, output = doctor(host)
    assert (code, findings) == (0, {}), output


ROTATED = "/etc/apt/sources.list.d/cuda.list"


def test_the_key_that_was_rotated(host: Focal) -> None:
    """The tutorials of before April 2022: NVIDIA's real 7fa2af80, given to apt-key."""
    host.root(
        "apt-get -qq install gnupg >/dev/null && apt-key add - >/dev/null 2>&1 && echo 'deb "
        "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64/ /' "
        f"> {ROTATED}",
        stdin=(Path(__file__).parent / "data" / "7fa2af80.pub").read_text("ascii"),
    )
    code, findings, output = doctor(host)
    assert (code, set(findings)) == (5, {"key-rotated"}), output
    assert "is signed by A4B469963BF863CC; /etc/apt/trusted.gpg" in output
    code, findings, output = doctor(host, "--fix")
    assert (code, findings) == (0, {}), output
    kept = host.root("ls /etc/apt/sources.list.d").split()
    assert f"{ROTATED.rsplit('/', 1)[1]}.provision-saved" in kept


def test_what_a_person_cures(host: Focal) -> None:
    """Each by the very command that is printed."""
    # The fabric manager was moved alone.
    package(host, "nvidia-fabricmanager-470", "470.239.06-1")
    code, findings, output = doctor(host)
    assert (code, set(findings)) == (5, {"fabric-manager"}), output
    assert "nvidia-fabricmanager-470 is 470.239.06, the driver is 470.256.02" in output
    cure(host.root, findings["fabric-manager"], "sudo apt-get install 'nvidia-fabricmanager-470=")
    assert doctor(host)[:2] == (0, {})

    # Everything is on hold, so that no security update comes.
    names = host.root(
        "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' "
        "| awk '$1 == \"ii\" && $2 ~ /^lib/ && $2 !~ /nv|cu/ { print $2 }' | head -40"
    )
    host.root("apt-mark hold " + names.replace("\n", " ") + ">/dev/null")
    code, findings, output = doctor(host)
    assert (code, set(findings)) == (5, {"everything-held"}), output
    assert " packages are held, " in output
    host.root("apt-mark unhold " + names.replace("\n", " ") + ">/dev/null")
    assert doctor(host)[:2] == (0, {})

    # Ubuntu made the packages of a branch that ended empty ones, which bring the next.
    package(host, "nvidia-driver-450-server", "470.256.02-0ubuntu0.20.04.1")
    code, findings, output = doctor(host)
    assert (code, set(findings)) == (5, {"transitional-branch"}), output
    assert "nvidia-driver-450-server is 470.256.02-0ubuntu0.20.04.1" in output
    host.root("dpkg --purge nvidia-driver-450-server")
    assert doctor(host)[:2] == (0, {})


def test_held_back_by_somebody_and_then_one_run(host: Focal) -> None:
    """A part of the driver is held at another version, by a hand that wrote no pins."""
    host.root("rm /etc/apt/preferences.d/provision-nvidia-driver")
    package(
        host, "nvidia-utils-470", "470.223.02-0ubuntu1", "Depends: libnvidia-compute-470",
        "Provides: nvidia-utils", "Conflicts: nvidia-utils",
    )  # fmt: skip
    host.root("apt-mark hold nvidia-utils-470")
    code, findings, output = doctor(host)
    assert code == 5, output
    assert "held-broken" in findings, output
    assert "nvidia-utils-470 470.223.02-0ubuntu1" in output
    cure(host.root, findings["held-broken"], "sudo apt-mark unhold nvidia-utils-470")
    host.cured(NETWORK, "nvidia_driver")
    code, findings, output = doctor(host)
    assert (code, findings) == (0, {}), output


@pytest.fixture(scope="module")
def whole(host: Focal) -> Focal:
    """The host without what else it was given, which can't be reached."""
    host.root("rm -f /etc/apt/sources.list.d/toolkit.list")
    host.cured(NETWORK)
    assert doctor(host)[:2] == (0, {})
    return host


PIP = "/opt/tensorflow/current/bin/python -m pip install --quiet --upgrade --no-deps"
LIBRARIES = "/usr/local/cuda-11.2/targets/x86_64-linux/lib"


def test_what_pip_upgraded_in_the_environment(whole: Focal) -> None:
    """By somebody who wanted the newest; TensorFlow itself says what came of it."""
    whole.root(f"{PIP} numpy==2.0.2 protobuf==4.25.8 2>/dev/null")
    code, findings, output = doctor(whole)
    assert (code, set(findings)) == (5, {"numpy-2", "protobuf"}), output
    assert "the current environment has TensorFlow 2.9.3 and numpy 2.0.2" in output
    assert "the current environment has TensorFlow 2.9.3 and protobuf 4.25.8" in output
    assert any(line.startswith("TensorFlow: ") for line in findings["protobuf"]["evidence"]), output
    code, findings, output = doctor(whole, "--fix")
    assert (code, findings) == (0, {}), output
    assert whole.left(NETWORK) == []


def test_a_library_that_tensorflow_can_not_open(whole: Focal) -> None:
    whole.root(f"rm {LIBRARIES}/libcusolver.so.11")
    code, findings, output = doctor(whole)
    assert (code, set(findings)) == (5, {"cuda-libraries"}), output
    words = findings["cuda-libraries"]["evidence"]
    assert any("Could not load dynamic library 'libcusolver.so.11'" in word for word in words), (
        output
    )
    code, findings, output = doctor(whole, "--fix")
    assert (code, findings) == (0, {}), output
    assert whole.left(NETWORK) == []


def test_a_cudnn_that_is_older(whole: Focal, tmp_path: Path) -> None:
    """One in /usr/local/lib, and the stack's own taken from the loader's list."""
    data = base64.b64encode(library(tmp_path, "libcudnn.so.8")).decode()
    whole.root(
        "base64 -d > /usr/local/lib/libcudnn.so.8.0.5 && rm /etc/ld.so.conf.d/*cudnn* && ldconfig",
        stdin=data,
    )
    code, findings, output = doctor(whole)
    assert code == 5, output
    assert "cudnn-older" in findings, output
    assert "the loader finds 8.0.5 at /usr/local/lib/libcudnn.so.8" in output
    code, findings, output = doctor(whole, "--fix")
    assert (code, findings) == (0, {}), output
    assert whole.left(NETWORK) == []
