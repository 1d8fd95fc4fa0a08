"""Lab hosts as virtual machines: a kernel, a boot loader, a bus and a power button of their own.

This machine is part of `make test`; test_virtual_*.py are slow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import demo
import pytest
from conftest import Project, over_ssh
from own_kernel import wait_for

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.host import wait_for_ssh
from provision.locallab.machine import cache_directory
from provision.locallab.vm import Guest, Virtual, guests
from provision.locallab.vm.hosts import patience

pytestmark = [
    pytest.mark.hosts, pytest.mark.network, pytest.mark.usefixtures("machines_possible")
]  # fmt: skip

PLATFORM = "debian12"


class Machine:
    """A lab of one virtual machine."""

    def __init__(self, name: str, folder: Path, shape: locallab.Shape) -> None:
        self.lab = locallab.up(
            f"{name}-{os.getpid()}", shape, state_dir=folder / ".lab", hosts=["vm01"]
        )
        (self.host,) = self.lab.hosts
        assert self.host.guest
        self.guest: Guest = self.host.guest

    def ssh(self, command: str, *, rc: int = 0, stdin: str | None = None) -> str:
        done = over_ssh(self.lab, command, stdin=stdin, timeout=600)
        assert done.returncode == rc, (command, done.stdout, done.stderr, self.guest.console())
        return done.stdout.strip()

    def boot_id(self) -> str:
        return self.ssh("cat /proc/sys/kernel/random/boot_id")

    def wait(self) -> None:
        """Until it answers again."""
        wait_for_ssh(self.host, *patience(self.guest))

    def wait_for_another_boot(self, before: str) -> None:
        """Until it answers in another boot; a connection opened as it goes down never does."""
        seconds, check = patience(self.guest)

        def answers() -> bool:
            check()
            try:
                done = over_ssh(self.lab, "cat /proc/sys/kernel/random/boot_id", timeout=20)
            except subprocess.TimeoutExpired:
                return False
            return done.returncode == 0 and done.stdout.strip() != before

        wait_for("another boot", seconds, answers)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A fresh install with one card on its bus."""
    folder = tmp_path_factory.mktemp("vm")
    made = Machine("vm", folder, locallab.Shape(PLATFORM, gpus=1, virtual=Virtual()))
    yield made
    made.lab.down()
    assert not made.guest.folder.exists()
    # A process that was killed gives its memory back before it ends.
    wait_for("the end of its qemu", 20, lambda: not made.guest.running)


def project_for(
    machine: Machine, path: Path, tensorflow: str = "2.14", platform: str = PLATFORM, more: str = ""
) -> Project:
    """What a person renders for it: the demo's inventory with this TensorFlow and `more` lines."""
    demo.write_inventory(path, machine.lab, cudnn_archive.pack(cache_directory()))
    wish = path / "lab" / "group_vars" / "gpu_hosts.yml"
    wish.write_text(
        f'gpu_stack: {{tensorflow: "{tensorflow}"}}\ngpu_platform: {platform}\n{more}', "utf-8"
    )
    for command in (["lock", "--project", str(path)], ["render", str(path)]):
        assert demo.provision(*command) == 0
    return Project(path, machine.lab)


@pytest.fixture(scope="module")
def project(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return project_for(machine, tmp_path_factory.mktemp("project"))


def test_it_is_a_machine_of_its_own(machine: Machine) -> None:
    assert machine.ssh("hostname") == "vm01"
    assert machine.ssh("systemctl is-system-running --wait") == "running"
    assert machine.ssh("systemd-detect-virt") in ("qemu", "kvm")
    assert machine.ssh("uname -r") != os.uname().release
    assert "disabled" in machine.ssh("mokutil --sb-state")
    assert machine.ssh("findmnt -no SOURCE /boot/efi") == "/dev/vda1"
    (status,) = [lab for lab in locallab.status() if lab.run == machine.lab.run]
    assert status.hosts == {"vm01": f"127.0.0.1:{machine.guest.port}"}
    assert status.machines["vm01"].startswith("virtual machine (")


def test_nouveau_takes_the_card_by_itself(machine: Machine) -> None:
    assert "10de:1eb8" in machine.ssh("lspci -n")
    assert machine.ssh("lsmod | grep -c ^nouveau") == "1"
    assert "nouveau" in machine.ssh("sudo dmesg | grep 'unknown chipset'")


def test_a_plan_sees_the_card_and_announces_the_reboot(machine: Machine, project: Project) -> None:
    done = project.provision("plan", "-i", "lab")
    assert done.returncode == 5, done.stdout + done.stderr
    host = project.report["hosts"]["vm01"]
    (reboot,) = [change for change in host["changes"] if change["reboot"]]
    assert reboot["item"] == "running driver", reboot
    kernel = machine.ssh("uname -r")
    assert [change for change in host["changes"] if change["item"] == f"module for kernel {kernel}"]


# A boot takes minutes under emulation: what boots the machine again is of `make test-all`.
@pytest.mark.slow
def test_a_power_cut_loses_what_was_not_synced_and_nothing_else(machine: Machine) -> None:
    before = machine.boot_id()
    machine.ssh(
        "sudo sh -c 'echo kept > /var/kept.new && sync && mv /var/kept.new /var/kept && sync; "
        "echo lost > /var/lost.new && mv /var/lost.new /var/lost'"
    )
    machine.guest.cut()
    assert not machine.guest.running
    with pytest.raises(AssertionError):
        machine.boot_id()
    machine.guest.start()
    machine.wait()
    assert machine.boot_id() != before
    assert machine.ssh("cat /var/kept") == "kept"
    assert machine.ssh("cat /var/lost 2>/dev/null || true") == ""
    assert machine.ssh("systemctl is-system-running --wait") == "running"


@pytest.mark.slow
def test_a_reboot_is_the_machines_own(machine: Machine) -> None:
    before, process = machine.boot_id(), machine.guest.pid
    machine.ssh("sudo systemd-run --on-active=1 systemctl reboot")
    machine.wait_for_another_boot(before)
    assert machine.guest.pid == process


KILLED = """
import sys
from pathlib import Path
from provision import locallab
from provision.locallab.vm import Virtual
shape = locallab.Shape(sys.argv[2], with_gpu=False, virtual=Virtual(memory_mib=512))
locallab.up(sys.argv[1], shape, state_dir=Path(sys.argv[3]), count=1, with_cache=False)
"""


def test_a_killed_run_leaves_no_machine(machine: Machine, tmp_path: Path) -> None:
    name = f"vm-killed-{os.getpid()}"
    run = subprocess.Popen([sys.executable, "-c", KILLED, name, PLATFORM, str(tmp_path / "lab")])
    cached = cache_directory()
    try:
        wait_for(
            "its qemu", 60, lambda: [guest for guest in guests(cached, lab=name) if guest.running]
        )
    finally:
        run.kill()
        run.wait()
    (guest,) = guests(cached, lab=name)
    wait_for("the end of its qemu", 20, lambda: not guest.running)
    assert name in locallab.sweep()
    assert not guest.folder.exists()
    assert machine.guest.running
