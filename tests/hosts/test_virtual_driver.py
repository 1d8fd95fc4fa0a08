"""The driver on a booted kernel: nouveau gives way by one reboot, and the module is tried there.

The machine starts with the driver's packages and a module that DKMS built and signed (native.py),
but not installed, and with nouveau loaded as on a fresh install. Its card has ids and nothing
behind them, so the real module is loaded and refuses it: whether the kernel takes the module, and
what it says, is what such a machine can show.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import native
import pytest
import signing
from conftest import BIN, over_ssh

from provision import locallab
from provision.locallab.machine import cache_directory, locked
from provision.locallab.vm import Virtual
from tests.collection import own_project

pytestmark = [
    pytest.mark.hosts, pytest.mark.slow, pytest.mark.network,
    pytest.mark.usefixtures("machines_possible"),
]  # fmt: skip

# {platform: the driver of its archive}; their dkms (2 and 3) sign in different ways.
VERSIONS = {"debian11": "470.256.02", "debian12": "535.261.03", "debian13": "550.163.01"}
DRIVER = """\
- hosts: gpu
  become: true
  gather_facts: false
  vars: {nvidia_driver_scope: full, nvidia_driver_reboot: true}
  roles: [provision.gpu.nvidia_driver]
"""
# What the run did against nouveau is taken back; Debian's own files lead the card to NVIDIA's
# module, so a unit loads nouveau as long as our blacklist is not there.
NOUVEAU = """\
- hosts: gpu
  become: true
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        dest: /etc/systemd/system/lab-nouveau.service
        mode: '0644'
        content: |
          [Unit]
          ConditionPathExists=!/etc/modprobe.d/provision-nouveau.conf
          Before=ssh.service
          [Service]
          Type=oneshot
          ExecStart=/sbin/modprobe nouveau
          [Install]
          WantedBy=multi-user.target
    - ansible.builtin.shell: >-
        systemctl enable lab-nouveau.service
        && /usr/sbin/dkms uninstall -m nvidia-current
        -v $(ls /var/lib/dkms/nvidia-current | grep ^[0-9]) -k $(ls /lib/modules)
        && rm /etc/modprobe.d/provision-nouveau.conf
        && update-initramfs -u -k all
"""


class Run:
    """One run of the role: its exit code and what it printed."""

    def __init__(self, folder: Path) -> None:
        done = subprocess.run(
            [str(BIN / "ansible-playbook"), "-i", "hosts.yml", "driver.yml"],
            cwd=folder,
            env={**os.environ, "ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "LC_ALL": "C.UTF-8"},
            capture_output=True, text=True, check=False, timeout=2400,
        )  # fmt: skip
        self.rc, self.text = done.returncode, done.stdout + done.stderr


def keys() -> tuple[Path, Path]:
    """The lab's key pair for modules: kept, for the disk was made with it."""
    folder = cache_directory() / "module-key"
    with locked(cache_directory() / "module-key.lock"):
        if not folder.exists():
            folder.mkdir(mode=0o700)
            private, _ = signing.key_pair(folder, "lab-modules")
            private.chmod(0o600)
    return folder / "lab-modules.key", folder / "lab-modules.der"


@pytest.fixture(
    scope="module",
    params=[("debian11", True), ("debian11", False), ("debian12", True), ("debian13", True)],
    ids=[
        "debian11-secure-boot",
        "debian11-without",
        "debian12-secure-boot",
        "debian13-secure-boot",
    ],
)
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[locallab.Lab]:
    """A machine with Secure Boot on that trusts the lab's key, and one without Secure Boot."""
    private, certificate = keys()
    options = {
        "nvidia_driver_signing_key_file": str(private),
        "nvidia_driver_signing_certificate_file": str(signing.pem(certificate)),
    }
    release, secure_boot = request.param
    options["nvidia_driver_version"] = VERSIONS[release]
    options["nvidia_driver_branch"] = VERSIONS[release].partition(".")[0]
    disk = native.installed(release, DRIVER + NOUVEAU, options)
    folder = tmp_path_factory.mktemp("driver")
    trusted = {"secure_boot": True, "enrol": (certificate,)} if secure_boot else {}
    made = locallab.up(
        f"vm-driver-{os.getpid()}",
        locallab.Shape(release, gpus=1, virtual=Virtual(disk=disk, **trusted)),
        state_dir=folder / ".lab",
        hosts=["vm01"],
    )
    inventory = made.inventory(group="gpu")
    inventory["gpu"]["vars"].update(options)
    own_project(folder, inventory)
    (folder / "driver.yml").write_text(DRIVER)
    yield made
    made.down()


def ask(lab: locallab.Lab, command: str) -> str:
    done = over_ssh(lab, command)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout.strip()


def platform(lab: locallab.Lab) -> str:
    return ask(lab, ". /etc/os-release && echo $ID$VERSION_ID")


def boot_id(lab: locallab.Lab) -> str:
    return ask(lab, "cat /proc/sys/kernel/random/boot_id")


def test_nouveau_has_the_card_at_first(lab: locallab.Lab) -> None:
    assert ask(lab, "ls -d /sys/module/nouveau") == "/sys/module/nouveau"
    assert ask(lab, "ls /sys/module | grep -c ^nvidia || true") == "0"


def test_one_run_reboots_once_and_tries_the_module_on_the_booted_kernel(
    lab: locallab.Lab,
) -> None:
    """The kernel takes the module, signed or not; what stops is the card, by the kernel's words."""
    before = boot_id(lab)
    run = Run(lab.state_dir.parent)
    after = boot_id(lab)
    assert before != after, run.text[-3000:]
    assert run.text.count("Reboot the host] ") == 1, run.text[-3000:]
    assert ask(lab, "ls -d /sys/module/nouveau || true") == ""
    kernel = ask(lab, "uname -r")
    module = f"/sbin/modinfo -k {kernel} nvidia-current"
    assert ask(lab, f"{module} -F version") == VERSIONS[platform(lab)]
    assert ask(lab, f"{module} -F signer") == "lab-modules"
    log = ask(lab, "sudo dmesg")
    assert "NVRM" in log
    secure = "enabled" in ask(lab, "mokutil --sb-state")
    assert ("module verification failed" in log) is not secure
    assert "Key was rejected" not in run.text
    assert run.rc == 2, run.text[-3000:]
    assert "The driver's module does not load, and a reboot is no cure" in run.text
    assert "fallen off the bus" in run.text, run.text[-3000:]


def test_the_next_run_changes_nothing_and_does_not_reboot(lab: locallab.Lab) -> None:
    before = boot_id(lab)
    run = Run(lab.state_dir.parent)
    assert boot_id(lab) == before
    assert run.rc == 2
    assert re.search(r"^vm01 .* changed=0 ", run.text, re.M), run.text[-3000:]
    assert "a reboot is no cure" in run.text, run.text[-3000:]
