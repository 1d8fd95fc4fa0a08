"""Ubuntu's way to a kernel module, by stand-ins: built and signed elsewhere, one package a kernel.

Ubuntu's archive and kernels are at no test's hand. The machine is Debian 12 with Secure Boot on
and says that it is Ubuntu 22.04; the packages have Ubuntu's names and relations; the module in
them is a small one that was built for the machine's own kernel and calls itself nvidia. `ours`,
which the firmware trusts, stands for Canonical's key. What is real: Secure Boot, the kernel that
takes a module or does not, apt, and the role's own modules and tasks. The machine has no card, so
that the role loads nothing: the tests do. Not shown: the rendered project of an Ubuntu host, its
preflight, NVIDIA's module.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import native
import pytest
import signing
import yaml
from conftest import over_ssh
from test_virtual import Machine
from test_virtual_driver import Run
from test_virtual_kernels import SHELL
from ubuntu_modules import HWE, OTHER, PLAY, STEM, VERSION, Archive, tied

from provision import locallab
from provision.locallab.vm import Virtual
from tests.collection import own_project

pytestmark = [
    pytest.mark.hosts, pytest.mark.slow, pytest.mark.network,
    pytest.mark.usefixtures("machines_possible"),
]  # fmt: skip

PLATFORM = "debian12"
# Built at this machine's own speed, before the disk is packed.
BUILD = """set -e
        apt-get update -qq
        kernel=$(basename /lib/modules/*)
        apt-get install -y -qq --no-install-recommends linux-headers-$kernel make
        mkdir -p /opt/stand-in && cd /opt/stand-in
        printf '%s\\n' '#include <linux/module.h>' \\
          'static int __init up(void) { pr_info("stand-in for nvidia\\n"); return 0; }' \\
          'static void __exit down(void) { }' \\
          'module_init(up); module_exit(down);' \\
          'MODULE_LICENSE("GPL"); MODULE_VERSION("470.256.02");' > nvidia.c
        echo 'obj-m := nvidia.o' > Makefile
        make -C /lib/modules/$kernel/build M=/opt/stand-in modules"""


class Ubuntu(Machine):
    """The machine, its archive, and the module signed by `ours` and by `stranger`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        keys = {name: signing.key_pair(folder, name) for name in ("ours", "stranger")}
        disk = native.installed(PLATFORM, SHELL.format(script=BUILD), {}, kind="ubuntu-way")
        virtual = Virtual(disk=disk, secure_boot=True, enrol=(keys["ours"][1],))
        shape = locallab.Shape(PLATFORM, with_gpu=False, virtual=virtual)
        super().__init__("vm-ubuntu-way", folder, shape)
        self.kernel = self.ssh("uname -r")
        built = signing.unsigned(base64.b64decode(self.ssh("base64 /opt/stand-in/nvidia.ko")))
        self.signed = {name: signing.signed(built, *pair) for name, pair in keys.items()}
        self.archive = Archive(self.ssh, folder, self.kernel)
        self.archive.first_day(self.signed["ours"])
        own_project(folder, self.lab.inventory(group="gpu"))
        (folder / "driver.yml").write_text(yaml.safe_dump(PLAY))

    def run(self) -> tuple[Run, str]:
        run = Run(self.folder)
        return run, " ".join(run.text.split())

    def load(self) -> tuple[int, str]:
        """modprobe's exit code, and its words with the kernel's."""
        self.ssh("sudo dmesg --clear; sudo modprobe -r nvidia 2>/dev/null || true")
        done = over_ssh(self.lab, "sudo modprobe nvidia; rc=$?; sudo dmesg; exit $rc")
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ubuntu]:
    made = Ubuntu(tmp_path_factory.mktemp("ubuntu-way"))
    yield made
    made.lab.down()


def test_hwes_metapackage_brings_the_booted_kernels_module_and_the_kernel_takes_it(
    machine: Ubuntu,
) -> None:
    """The lock names GA's, which would have brought another kernel's."""
    assert "enabled" in machine.ssh("mokutil --sb-state")
    assert "ID=ubuntu" in machine.ssh("cat /etc/os-release")
    run, output = machine.run()
    assert run.rc == 0, run.text[-4000:]
    assert machine.archive.installed() == sorted([f"{STEM}-{HWE}", f"{STEM}-{machine.kernel}"])
    assert machine.ssh("/sbin/modinfo -F version nvidia") == VERSION
    assert machine.ssh("/sbin/modinfo -F signer nvidia") == "ours"
    rc, output = machine.load()
    assert rc == 0, output
    assert "stand-in for nvidia" in output
    assert machine.ssh("cat /sys/module/nvidia/version") == VERSION
    again, _ = machine.run()
    assert "changed=0" in again.text, again.text[-4000:]


def test_a_booted_kernel_that_the_metapackage_left_behind_gets_its_own_package(
    machine: Ubuntu,
) -> None:
    """HWE has moved on to a kernel that this machine has not booted."""
    machine.archive.package(f"{STEM}-{HWE}", "2", f"{STEM}-{OTHER}, {tied()}")
    machine.archive.publish()
    machine.ssh(
        f"sudo modprobe -r nvidia; sudo apt-get install -y -qq {STEM}-{HWE}"
        f" && sudo apt-get purge -y -qq {STEM}-{machine.kernel}"
    )
    assert machine.archive.installed() == sorted([f"{STEM}-{HWE}", f"{STEM}-{OTHER}"])
    run, _ = machine.run()
    assert run.rc == 0, run.text[-4000:]
    assert f"{STEM}-{machine.kernel}" in machine.archive.installed()
    rc, output = machine.load()
    assert rc == 0, output


def test_a_module_that_a_stranger_signed_is_refused_by_the_kernel_and_named_by_the_run(
    machine: Ubuntu,
) -> None:
    machine.archive.modules("3", machine.signed["stranger"])
    machine.archive.publish()
    machine.ssh(f"sudo modprobe -r nvidia; sudo apt-get install -y -qq {STEM}-{machine.kernel}")
    rc, output = machine.load()
    assert rc != 0
    assert "Key was rejected by service" in output, output
    run, output = machine.run()
    assert run.rc == 2, run.text[-4000:]
    assert f"kernel {machine.kernel} will refuse the module" in output, run.text[-4000:]
    assert '"stranger" signed it' in output.replace("\\", ""), run.text[-4000:]
    assert "mokutil --import" in output
    # The archive has the right one again.
    machine.archive.modules("4", machine.signed["ours"])
    machine.archive.publish()
    machine.ssh(f"sudo apt-get install -y -qq {STEM}-{machine.kernel}")
    run, _ = machine.run()
    assert run.rc == 0, run.text[-4000:]
    rc, output = machine.load()
    assert rc == 0, output


def test_an_archive_without_a_module_for_the_kernel_stops_the_run_with_what_to_do(
    machine: Ubuntu,
) -> None:
    del machine.archive.packages[f"{STEM}-{machine.kernel}"]
    machine.archive.publish()
    machine.ssh(f"sudo modprobe -r nvidia; sudo apt-get purge -y -qq {STEM}-{machine.kernel}")
    run, output = machine.run()
    assert run.rc == 2, run.text[-4000:]
    assert f"There is no signed module of driver {VERSION} for kernel {machine.kernel}" in output
    assert "driver_modules: dkms" in output
