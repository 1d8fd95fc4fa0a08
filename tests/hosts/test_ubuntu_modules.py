"""Ubuntu's way to a kernel module on a host without a kernel: which packages apt installs, and why.

A container with Ubuntu's names and a stand-in archive; test_virtual_ubuntu_way.py has a kernel that
takes the module or does not.
"""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from conftest import over_ssh
from test_virtual_driver import Run
from ubuntu_modules import HWE, OTHER, PLAY, STEM, VERSION, Archive, tied

from provision import locallab
from tests.collection import own_project

pytestmark = [pytest.mark.slow, pytest.mark.network]

KERNEL = "6.8.0-79-generic"
MODULE = (
    f'__attribute__((section(".modinfo"), used)) static const char version[] = "version={VERSION}";'
)


class Ubuntu:
    """The host, its archive, and a file that modinfo takes for the module."""

    def __init__(self, folder: Path, lab: locallab.Lab) -> None:
        self.folder, self.lab = folder, lab
        self.ssh(
            "sudo apt-get update -qq && sudo apt-get install -y -qq kmod"
            f" && sudo touch /boot/vmlinuz-{KERNEL}"
            f" && sudo mkdir -p /etc/modprobe.d /lib/modules/{KERNEL}"
        )
        (folder / "nvidia.c").write_text(MODULE)
        subprocess.run(["gcc", "-c", "nvidia.c", "-o", "nvidia.ko"], cwd=folder, check=True)
        self.archive = Archive(self.ssh, folder, KERNEL)
        self.archive.first_day((folder / "nvidia.ko").read_bytes())
        own_project(folder, lab.inventory(group="gpu"))
        play = copy.deepcopy(PLAY)
        play[0]["tasks"][0]["provision.gpu.driver_kernels"]["container"] = True
        play[0]["vars"]["__nvidia_driver_container"] = True
        (folder / "driver.yml").write_text(yaml.safe_dump(play))

    def ssh(self, command: str, *, stdin: str | None = None) -> str:
        done = over_ssh(self.lab, command, stdin=stdin)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout.strip()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ubuntu]:
    folder = tmp_path_factory.mktemp("ubuntu-modules")
    lab = locallab.up(
        f"ubuntu-modules-{os.getpid()}", locallab.Shape("debian12"),
        state_dir=folder / ".lab", hosts=["built1"],
    )  # fmt: skip
    try:
        yield Ubuntu(folder, lab)
    finally:
        lab.down()


def test_hwes_metapackage_and_none_of_the_locks_flavour(host: Ubuntu) -> None:
    run = Run(host.folder)
    assert run.rc == 0, run.text[-4000:]
    assert host.archive.installed() == sorted([f"{STEM}-{HWE}", f"{STEM}-{KERNEL}"])
    assert host.ssh(f"/sbin/modinfo -k {KERNEL} -F version nvidia") == VERSION
    # Nothing is left for another run; a container's initramfs images are none.
    again = Run(host.folder)
    assert again.rc == 0, again.text[-4000:]
    assert host.archive.installed() == sorted([f"{STEM}-{HWE}", f"{STEM}-{KERNEL}"])


def test_a_kernel_that_the_metapackage_left_behind_gets_its_own_package(host: Ubuntu) -> None:
    host.archive.package(f"{STEM}-{HWE}", "2", f"{STEM}-{OTHER}, {tied()}")
    host.archive.publish()
    host.ssh(
        f"sudo apt-get install -y -qq {STEM}-{HWE} && sudo apt-get purge -y -qq {STEM}-{KERNEL}"
    )
    run = Run(host.folder)
    assert run.rc == 0, run.text[-4000:]
    assert f"{STEM}-{KERNEL}" in host.archive.installed()


def test_modules_of_a_newer_driver_are_left_alone(host: Ubuntu) -> None:
    """The archive has moved on, and no longer has the locked driver's."""
    newer = tied().replace(VERSION, "470.999.01")
    host.archive.package(f"{STEM}-{KERNEL}", "2", newer)
    host.archive.publish()
    host.ssh(f"sudo rm /lib/modules/{KERNEL}/kernel/nvidia-470srv/nvidia.ko")
    run = Run(host.folder)
    output = " ".join(run.text.split())
    assert run.rc == 2, run.text[-4000:]
    assert f"There is no signed module of driver {VERSION} for kernel {KERNEL}" in output
    assert "driver_modules: dkms" in output
