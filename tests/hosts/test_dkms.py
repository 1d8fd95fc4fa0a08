"""The driver's kernel part, for real: Debian's DKMS package compiled for a Debian kernel.

A container has no kernel of its own, but it can have the kernel image that a machine would boot
next; the role must leave that kernel with the module, and `modinfo -k` must find it there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from provision import locallab
from tests.collection import own_project

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.network]

VERSION = "470.256.02"
DAEMON = "nvidia-persistenced.service"
FOLDER = f"/etc/systemd/system/{DAEMON}.d"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A bare host with Debian's kernel image, and somebody's three-line playbook."""
    if shutil.which("podman") is None:
        pytest.skip("needs podman")
    directory = tmp_path_factory.mktemp("dkms")
    lab = locallab.up(
        f"dkms-{os.getpid()}",
        locallab.Shape(with_gpu=False),
        state_dir=directory / ".lab",
        hosts=["dkms01"],
    )
    try:
        own_project(directory, lab.inventory(group="gpu"))
        (directory / "kernel.yml").write_text(
            "- hosts: gpu\n  become: true\n  tasks:\n    - ansible.builtin.apt:\n"
            "        name: linux-image-amd64\n        update_cache: true\n"
            "        install_recommends: false\n"
        )
        (directory / "driver.yml").write_text(
            "- hosts: gpu\n  become: true\n  vars: {nvidia_driver_scope: full}\n"
            "  roles: [provision.gpu.nvidia_driver]\n"
        )
        (directory / "ask.yml").write_text(
            "- hosts: gpu\n  become: true\n  gather_facts: false\n  tasks:\n"
            "    - ansible.builtin.shell: '{{ ask }}'\n      changed_when: false\n"
            "      register: answer\n"
            "    - ansible.builtin.copy:\n        content: '{{ answer.stdout }}'\n"
            "        dest: '{{ playbook_dir }}/answer'\n        mode: '0644'\n"
            "      delegate_to: localhost\n      become: false\n"
        )
        play(directory, "kernel.yml")
        yield directory
    finally:
        lab.down()


def play(directory: Path, playbook: str, *arguments: str) -> str:
    """Output of one playbook run that must succeed."""
    result = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "-i",
            "hosts.yml",
            playbook,
            *arguments,
        ],
        cwd=directory,
        env={**os.environ, "ANSIBLE_CONFIG": str(directory / "ansible.cfg"), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    return result.stdout


def ask(directory: Path, question: str) -> str:
    play(directory, "ask.yml", "-e", yaml.safe_dump({"ask": question}, default_flow_style=True))
    return (directory / "answer").read_text()


def test_modinfo_answers_for_the_next_boot_kernel_and_a_second_run_changes_nothing(
    project: Path,
) -> None:
    """The whole role with scope full: packages, DKMS, nouveau out of the initramfs, hold."""
    kernel = ask(project, "ls /boot | sed -n s/^vmlinuz-//p")
    assert re.fullmatch(r"5\.10\.0-\d+-amd64", kernel)
    assert ask(project, f"modinfo -k {kernel} nvidia-current || true") == ""

    output = play(project, "driver.yml")
    assert "belongs to the machine that" in " ".join(output.split())

    assert ask(project, f"modinfo -F version -k {kernel} nvidia-current") == VERSION
    modules = ask(project, f"ls /lib/modules/{kernel}/updates/dkms").split()
    assert {f"nvidia-current{part}.ko" for part in ("", "-uvm", "-modeset", "-drm")} <= set(modules)
    # nouveau may not come back from the initramfs
    blacklisted = f"lsinitramfs /boot/initrd.img-{kernel} | grep provision-nouveau"
    assert ask(project, blacklisted).strip() == "etc/modprobe.d/provision-nouveau.conf"
    held = ask(project, "apt-mark showhold").split()
    assert {"nvidia-kernel-dkms", "libcuda1", "nvidia-smi"} <= set(held)
    # a later install of a sibling stays in the branch
    policy = ask(project, "apt-cache policy libnvidia-encode1 | sed -n 's/ *Candidate: //p'")
    assert policy.startswith(VERSION)

    assert re.search(r"changed=0 .*failed=0", play(project, "driver.yml"))


def restarted(project: Path) -> str:
    """ "failed" or "inactive", after systemd was asked to start the daemon, as at a boot."""
    ask(project, f"systemctl restart {DAEMON} || true")
    return ask(project, f"systemctl is-failed {DAEMON} || true")


def test_without_a_gpu_on_the_bus_the_daemon_is_skipped_and_does_not_fail(project: Path) -> None:
    if ask(project, "grep -l 0x10de /sys/bus/pci/devices/*/vendor || true"):
        pytest.skip("needs a machine without NVIDIA's devices")
    # Debian's package had started it before the drop-in was there.
    assert ask(project, f"systemctl is-failed {DAEMON} || true") == "inactive"
    assert restarted(project) == "inactive"

    # A host of before, on which an administrator has a drop-in of their own.
    ask(project, f"rm {FOLDER}/provision-gpu.conf && systemctl daemon-reload")
    ask(project, f"printf '[Service]\\nNice=5\\n' > {FOLDER}/mine.conf")
    assert restarted(project) == "failed"
    play(project, "driver.yml")
    assert ask(project, f"systemctl is-failed {DAEMON} || true") == "inactive"
    assert restarted(project) == "inactive"
    assert re.search(r"changed=0 .*failed=0", play(project, "driver.yml"))

    without = ("-e", "nvidia_driver_persistence=false")
    play(project, "driver.yml", *without)
    assert ask(project, f"ls {FOLDER}") == "mine.conf"
    assert re.search(r"changed=0 .*failed=0", play(project, "driver.yml", *without))
    ask(project, f"rm -r {FOLDER}")
    play(project, "driver.yml")
    assert ask(project, f"systemctl is-enabled {DAEMON}") == "enabled"
    assert restarted(project) == "inactive"


def test_a_module_that_went_missing_is_built_again(project: Path) -> None:
    kernel = ask(project, "ls /boot | sed -n s/^vmlinuz-//p")
    ask(project, f"dkms uninstall -m nvidia-current -v {VERSION} -k {kernel}")
    assert ask(project, f"modinfo -k {kernel} nvidia-current || true") == ""
    play(project, "driver.yml")
    assert ask(project, f"modinfo -F version -k {kernel} nvidia-current") == VERSION


@pytest.mark.parametrize("place", ["the kernel's folder", "DKMS's own folder"])
def test_modules_left_empty_by_a_power_cut_are_there_again(project: Path, place: str) -> None:
    """DKMS goes on calling them installed; a kept build that is whole is installed again.

    Which files a cut really empties is seen on virtual machines (`make faults MACHINE=vm`).
    """
    kernel = ask(project, "ls /boot | sed -n s/^vmlinuz-//p")
    loaded = f"/lib/modules/{kernel}/updates/dkms"
    kept = f"/var/lib/dkms/nvidia-current/{VERSION}/{kernel}/x86_64/module"
    if place == "the kernel's folder":
        ask(project, f"truncate -s 0 {loaded}/nvidia-*.ko")
    else:
        ask(project, f"truncate -s 0 {kept}/nvidia-current-uvm.ko")
    assert "installed" in ask(project, f"dkms status -m nvidia-current -v {VERSION} -k {kernel}")
    play(project, "driver.yml")
    assert ask(project, f"find {loaded}/ {kept}/ -name '*.ko' -size -2") == ""
    for part in ("", "-uvm", "-modeset", "-drm", "-peermem"):
        name = f"nvidia-current{part}"
        assert ask(project, f"modinfo -F vermagic -k {kernel} {name}").startswith(f"{kernel} ")
    assert re.search(r"changed=0 .*failed=0", play(project, "driver.yml"))


def test_a_failing_build_shows_the_compilers_line(project: Path) -> None:
    """The reason stands in make.log on the host, where nobody looks."""
    kernel = ask(project, "ls /boot | sed -n s/^vmlinuz-//p")
    source = f"/usr/src/nvidia-current-{VERSION}/nvidia/nv.c"
    ask(
        project,
        f"dkms remove -m nvidia-current -v {VERSION} -k {kernel} ; "
        f"dkms add -m nvidia-current -v {VERSION} 2>/dev/null; "
        f"cp {source} /root/nv.c && echo '#error made for the test' >> {source}",
    )
    try:
        with pytest.raises(AssertionError, match="made for the test"):
            play(project, "driver.yml")
    finally:
        ask(project, f"cp /root/nv.c {source}")


def test_the_daemons_drop_in_goes_with_the_driver(project: Path) -> None:
    assert ask(project, f"ls {FOLDER}") == "provision-gpu.conf"
    play(project, "driver.yml", "-e", "nvidia_driver_state=absent")
    assert ask(project, f"ls -d {FOLDER} || true") == ""
    assert ask(project, f"systemctl show --property=DropInPaths --value {DAEMON}") == ""
