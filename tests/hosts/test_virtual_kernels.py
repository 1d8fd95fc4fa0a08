"""The next kernel, on a machine that boots it: installed after the driver, before it, or in vain.

The disk has two kernels of Debian's archive. The driver was installed with the older alone, then
the newer came with its headers, as by last night's upgrade. The machine has no card: nothing is
loaded by a run, so each test loads the module itself and reads the kernel's own words.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import native
import pytest
from test_virtual import Machine, project_for
from test_virtual_driver import DRIVER, VERSIONS, Run

from provision import locallab
from provision.locallab.vm import Virtual
from tests.collection import own_project

pytestmark = [
    pytest.mark.hosts, pytest.mark.slow, pytest.mark.network,
    pytest.mark.usefixtures("machines_possible"),
]  # fmt: skip

PLATFORM = "debian11"
VERSION = VERSIONS[PLATFORM]
SHELL = """\
- hosts: gpu
  become: true
  gather_facts: false
  tasks:
    - ansible.builtin.shell: |
        {script}
      args: {{executable: /bin/bash}}
      environment: {{DEBIAN_FRONTEND: noninteractive, LC_ALL: C.UTF-8}}
"""
OLD_KERNEL = """set -e
        apt-get update -qq
        new=$(basename /lib/modules/*)
        old=$(apt-cache pkgnames linux-headers-5.10.0- | grep -E '[0-9]-amd64$' \\
          | sort -V | head -1 | sed s/linux-headers-//)
        apt-get install -y -qq linux-image-$old linux-headers-$old
        apt-get purge -y -qq linux-image-amd64 linux-image-$new"""
NEW_KERNEL = """set -e
        apt-get install -y -qq linux-image-amd64 linux-headers-amd64
        grub-editenv /boot/grub/grubenv create
        grub-editenv /boot/grub/grubenv set saved_entry=1"""
MODULE = "nvidia-current"


class Kernels(Machine):
    """A machine with an older and a newer kernel; it starts with the older."""

    def __init__(self, folder: Path) -> None:
        disk = native.installed(
            PLATFORM,
            SHELL.format(script=OLD_KERNEL) + DRIVER + SHELL.format(script=NEW_KERNEL),
            {},
            kind="kernels",
        )
        super().__init__(
            "vm-kernels",
            folder,
            locallab.Shape(PLATFORM, with_gpu=False, virtual=Virtual(disk=disk)),
        )
        own_project(folder, self.lab.inventory(group="gpu"))
        (folder / "driver.yml").write_text(DRIVER)
        self.folder = folder
        self.old, self.new = self.ssh("ls /lib/modules | sort -V").split()

    @property
    def kernel(self) -> str:
        return self.ssh("uname -r")

    def boot(self, kernel: str) -> None:
        """Reboots into a kernel; into the newer one as GRUB's default."""
        entry = 0 if kernel == self.new else 1
        before = self.boot_id()
        self.ssh(
            f"sudo grub-editenv /boot/grub/grubenv set saved_entry={entry} && sync"
            " && sudo systemd-run --quiet --on-active=1 systemctl reboot"
        )
        self.wait_for_another_boot(before)
        assert self.kernel == kernel, self.guest.console()

    def modules(self) -> dict[str, str]:
        """{kernel: version of the driver's module}, "" without one."""
        return {
            kernel: self.ssh(f"/sbin/modinfo -k {kernel} -F version {MODULE} 2>/dev/null || true")
            for kernel in (self.old, self.new)
        }

    def tried(self) -> str:
        """What the running kernel says to the module."""
        self.ssh(f"sudo dmesg --clear; sudo modprobe {MODULE}", rc=1)
        return self.ssh("sudo dmesg")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    made = Kernels(tmp_path_factory.mktemp("kernels"))
    yield made
    made.lab.down()


def planned(machine: Kernels, folder: Path) -> tuple[list[str], list[str], list[str]]:
    """The driver's changes, what is warned of, and the blockers, in a plan of all."""
    project = project_for(machine, folder / "project", "2.9", PLATFORM)
    project.provision("plan", "-i", "lab")
    host = project.report["hosts"]["vm01"]
    changes = [
        f"{change['item']}: {change['from']} -> {change['to']}"
        for change in host["changes"]
        if change["component"] == "nvidia_driver"
    ]
    warnings = [f"{warning['id']}: {warning['message']}" for warning in host["warnings"]]
    return (
        changes,
        warnings,
        [f"{blocker['id']}: {blocker['message']}" for blocker in host["blockers"]],
    )


def test_after_the_upgrade_the_old_kernel_runs_and_the_new_one_has_its_module(
    machine: Kernels, tmp_path: Path
) -> None:
    assert machine.kernel == machine.old
    assert machine.modules() == {machine.old: VERSION, machine.new: VERSION}
    changes, notices, _ = planned(machine, tmp_path)
    assert [change for change in changes if "module" in change or "kernel" in change] == []
    (waiting,) = [notice for notice in notices if notice.startswith("kernel-waiting")]
    assert f"kernel {machine.new} is installed and waits for its boot" in waiting
    assert f"Module {VERSION} is built for it" in waiting
    assert "NVRM: No NVIDIA" in machine.tried()


def test_the_new_kernel_is_booted_and_takes_its_module(machine: Kernels, tmp_path: Path) -> None:
    machine.boot(machine.new)
    changes, notices, _ = planned(machine, tmp_path)
    assert [change for change in changes if "module" in change or "kernel" in change] == []
    assert [notice for notice in notices if notice.startswith("kernel-waiting")] == []
    assert "NVRM: No NVIDIA" in machine.tried()


def test_a_kernel_that_came_before_the_driver_gets_its_module_before_its_boot(
    machine: Kernels, tmp_path: Path
) -> None:
    """Built modules are kept by DKMS, so that nothing is compiled under emulation."""
    machine.boot(machine.old)
    for kernel in (machine.old, machine.new):
        machine.ssh(f"sudo dkms uninstall -m {MODULE} -v {VERSION} -k {kernel}")
    assert machine.modules() == {machine.old: "", machine.new: ""}
    changes, _, _ = planned(machine, tmp_path)
    for kernel in (machine.old, machine.new):
        assert [change for change in changes if change.startswith(f"module for kernel {kernel}")], (
            changes
        )
    before = machine.boot_id()
    run = Run(machine.folder)
    assert run.rc == 0, run.text[-3000:]
    assert machine.boot_id() == before, "nothing here is cured by a reboot"
    assert machine.modules() == {machine.old: VERSION, machine.new: VERSION}
    machine.boot(machine.new)
    assert "NVRM: No NVIDIA" in machine.tried()
    again = Run(machine.folder)
    assert again.rc == 0, again.text[-3000:]
    assert "changed=0" in again.text, again.text[-3000:]


def test_no_room_in_boot_stops_the_run_before_it_begins(machine: Kernels, tmp_path: Path) -> None:
    """Nouveau's blacklist is gone, so that the initramfs is to be made anew."""
    blacklist = "/etc/modprobe.d/provision-nouveau.conf"
    machine.ssh(
        f"sudo mv {blacklist} /root/ && sudo sh -ec '"
        "size=$(du -sm /boot | cut -f1); mkdir /mnt/boot;"
        " mount -t tmpfs -o size=$((size + 4))m tmpfs /mnt/boot;"
        " cp -a --no-target-directory /boot /mnt/boot; mount --bind /mnt/boot /boot'"
    )
    try:
        state = "sudo ls -lR /boot /lib/modules /etc/modprobe.d | sha256sum"
        before = machine.ssh(state)
        project = project_for(machine, tmp_path / "project", "2.9", PLATFORM)
        done = project.provision("apply", "-i", "lab")
        assert done.returncode == 4, done.stdout + done.stderr
        blockers = {
            blocker["id"]: blocker["message"]
            for blocker in project.report["hosts"]["vm01"]["blockers"]
        }
        assert "/boot is too full" in blockers["boot-full"]
        assert machine.ssh(state) == before
    finally:
        machine.ssh(f"sudo umount /boot; sudo mv /root/{Path(blacklist).name} {blacklist}")


def test_a_module_that_does_not_build_leaves_the_old_kernel_usable(machine: Kernels) -> None:
    machine.boot(machine.old)
    headers = f"/lib/modules/{machine.new}/source/Makefile"
    machine.ssh(
        f"sudo dkms remove -m {MODULE} -v {VERSION} -k {machine.new};"
        f" sudo cp {headers} /root/Makefile"
        f" && echo '$(error this kernel is of another compiler)' | sudo tee {headers}"
    )
    run = Run(machine.folder)
    machine.ssh(f"sudo cp /root/Makefile {headers}")
    output = " ".join(run.text.split())
    assert run.rc == 2, run.text[-3000:]
    assert "this kernel is of another compiler" in output, run.text[-3000:]
    assert machine.old in output
    assert machine.modules() == {machine.old: VERSION, machine.new: ""}
    machine.boot(machine.old)
    assert "NVRM: No NVIDIA" in machine.tried()


def test_headers_that_the_archive_no_longer_has_stop_the_run_and_are_named(
    machine: Kernels, tmp_path: Path
) -> None:
    """The module for the new kernel is still missing; the old one's stays."""
    machine.ssh(
        f"sudo apt-get purge -y -qq linux-headers-{machine.new} linux-headers-amd64"
        " && printf 'Package: linux-headers-*\\nPin: release *\\nPin-Priority: -1\\n'"
        " | sudo tee /etc/apt/preferences.d/gone"
    )
    changes, _, blockers = planned(machine, tmp_path)
    assert [
        change for change in changes if change.startswith(f"module for kernel {machine.new}")
    ], changes
    (reason,) = [blocker for blocker in blockers if blocker.startswith("headers: ")]
    assert f"the headers of kernel {machine.new} are neither installed nor in the archive" in reason
    assert machine.modules()[machine.old] == VERSION
