"""The driver on a booted kernel: nouveau gives way by one reboot, and the module is tried there.

The machine starts with the driver's packages and a module that DKMS built (native.py), and with
nouveau in its initramfs as on a fresh install; its card has ids and nothing behind them, so the
real module is loaded and refuses it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import native
import pytest
from conftest import BIN, over_ssh

from provision import locallab
from provision.locallab.vm import Virtual
from tests.collection import own_project

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.network]

VERSIONS = {"debian11": "470.256.02"}
DRIVER = """\
- hosts: gpu
  become: true
  gather_facts: false
  vars: {nvidia_driver_scope: full, nvidia_driver_reboot: true}
  roles: [provision.gpu.nvidia_driver]
"""
# What the run has done against nouveau is taken back, so that it takes the card at the first boot.
NOUVEAU = """\
- hosts: gpu
  become: true
  gather_facts: false
  tasks:
    - ansible.builtin.shell: >-
        rm /etc/modprobe.d/provision-nouveau.conf
        && rm -f /etc/modprobe.d/nvidia-blacklists-nouveau.conf
        && update-initramfs -u -k all
"""


class Run:
    """One run of the role: its exit code and what it printed."""

    def __init__(self, folder: Path) -> None:
        done = subprocess.run(
            [str(BIN / "ansible-playbook"), "-i", "hosts.yml", "driver.yml"],
            cwd=folder,
            env={**os.environ, "ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "LC_ALL": "C.UTF-8",
                 "COLUMNS": "200"},
            capture_output=True, text=True, check=False, timeout=2400,
        )  # fmt: skip
        self.rc, self.text = done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[locallab.Lab]:
    disk = native.installed("debian11", DRIVER + NOUVEAU, {})
    folder = tmp_path_factory.mktemp("driver")
    made = locallab.up(
        f"vm-driver-{os.getpid()}",
        locallab.Shape("debian11", gpus=1, virtual=Virtual(disk=disk)),
        state_dir=folder / ".lab",
        hosts=["vm01"],
    )
    own_project(folder, made.inventory(group="gpu"))
    (folder / "driver.yml").write_text(DRIVER)
    yield made
    made.down()


def ask(lab: locallab.Lab, command: str) -> str:
    done = over_ssh(lab, command)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout.strip()


def boots(lab: locallab.Lab) -> int:
    return len(json.loads(ask(lab, "sudo journalctl --list-boots -o json 2>/dev/null || echo []")))


def test_nouveau_has_the_card_at_first(lab: locallab.Lab) -> None:
    assert ask(lab, "lsmod | grep -c ^nouveau") == "1"
    assert ask(lab, "ls /sys/module | grep -c ^nvidia || true") == "0"


def test_one_run_reboots_once_and_tries_the_module_on_the_booted_kernel(
    lab: locallab.Lab,
) -> None:
    """The card has nothing behind it: the kernel's own words say so, and no second reboot comes."""
    before = ask(lab, "cat /proc/sys/kernel/random/boot_id")
    run = Run(lab.state_dir.parent)
    after = ask(lab, "cat /proc/sys/kernel/random/boot_id")
    assert before != after
    assert run.text.count("Reboot the host] ") == 1, run.text[-3000:]
    assert ask(lab, "lsmod | grep -c ^nouveau || true") == "0"
    kernel = ask(lab, "uname -r")
    version = VERSIONS["debian11"]
    assert ask(lab, f"/sbin/modinfo -F version -k {kernel} nvidia-current") == version
    assert "NVRM" in ask(lab, "sudo dmesg")
    assert run.rc == 2, run.text[-3000:]
    assert re.search(r"NVRM: .*", run.text), run.text[-3000:]


def test_the_next_run_does_not_reboot(lab: locallab.Lab) -> None:
    before = ask(lab, "cat /proc/sys/kernel/random/boot_id")
    run = Run(lab.state_dir.parent)
    assert ask(lab, "cat /proc/sys/kernel/random/boot_id") == before
    assert run.rc == 2
    assert "NVRM" in run.text, run.text[-3000:]
