"""A lab host that looks like a machine with a kernel of its own, and can be rebooted.

A container has neither, so the driver's role asks for no reboot there. This one is given what the
roles look at: a kernel's name, its /sys/module, an id of each boot, and a power button that starts
it again when it goes down. What stands in for the kernel is small: nouveau is loaded at boot unless
it is blacklisted, `modprobe nvidia` loads what DKMS installed for this kernel, and DKMS compiles an
empty module instead of NVIDIA's (test_dkms.py compiles that one). The roles know nothing of it.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import demo
import pytest
import yaml
from conftest import Project

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory

# Archive packages of this kernel have their headers in Debian 11's archive.
ASK_KERNEL = (
    "apt-get --quiet update >/dev/null && apt-cache depends linux-headers-amd64"
    " | sed -n 's/.*Depends: linux-headers-//p' | head -1"
)

UNAME = r"""
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
int uname(struct utsname *name) {
  int rc = (int)syscall(SYS_uname, name);
  if (rc == 0) strcpy(name->release, RELEASE);
  return rc;
}
"""

MODULE = r"""
__attribute__((section(".modinfo"), used)) static const char version[] = "version=" VERSION;
__attribute__((section(".modinfo"), used)) static const char license[] = "license=none";
"""

# dkms reads it after the package's own dkms.conf.
DKMS = """
MAKE[0]="sh -e /opt/lab-kernel/make $PACKAGE_VERSION"
CLEAN="true"
"""

MAKE = r"""
for name in nvidia nvidia-modeset nvidia-drm nvidia-uvm nvidia-peermem; do
  gcc -c "-DVERSION=\"$1\"" -o "$name.ko" /opt/lab-kernel/module.c
done
"""

MODPROBE = r"""#!/bin/bash
# The kernel of this host is simulated: see tests/hosts/own_kernel.py.
[ "$*" = nvidia ] || exec -a modprobe /bin/kmod "$@"
if [ -d /sys/module/nouveau ]; then
  echo "modprobe: ERROR: could not insert 'nvidia': Device or resource busy" >&2; exit 1
fi
version=$(modinfo -F version -k "$(uname -r)" nvidia-current) || exit 1
mkdir -p /sys/module/nvidia && echo "$version" > /sys/module/nvidia/version
"""

# What a kernel does when it comes up; from outside, for a container may not mount.
BOOT = r"""
rm -rf /sys/module/nvidia /sys/module/nouveau
grep -qs 'blacklist nouveau' /etc/modprobe.d/*.conf || mkdir /sys/module/nouveau
cat /proc/sys/kernel/random/uuid > /run/lab-boot-id
: > /run/lab-environ
mount --bind /run/lab-environ /proc/1/environ
mount --bind /run/lab-boot-id /proc/sys/kernel/random/boot_id
umount /run/.containerenv || true
rm -f /run/systemd/container /run/.containerenv
touch /run/lab-booted
"""

# Nobody is let in before the kernel is there.
SSHD = """
[Service]
ExecStartPre=/bin/sh -c 'until [ -e /run/lab-booted ]; do sleep 0.2; done'
"""


class Machine:
    """The host's power button: `boots` counts how often it came up."""

    def __init__(self, lab: locallab.Lab) -> None:
        self.lab = lab
        self.container = lab.hosts[0].container
        self.boots = 0
        self._off = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def run(self, script: str) -> str:
        """What a script prints on the host, with more rights than the host itself has."""
        return self.lab.podman.call(
            "exec", "--privileged", "--interactive", self.container, "sh", "-e",
            stdin=script.encode(),
        )  # fmt: skip

    def install(self, work: Path) -> str:
        """Gives the host its kernel; its name."""
        kernel = self.run(ASK_KERNEL).strip()
        (work / "uname.c").write_text(UNAME)
        library = work / "uname.so"
        subprocess.run(
            ["gcc", "-shared", "-fPIC", f'-DRELEASE="{kernel}"', "-o", library, work / "uname.c"],
            check=True,
        )
        files = {
            "opt/lab-kernel/uname.so": (library.read_bytes(), 0o755, 0),
            "opt/lab-kernel/module.c": (MODULE.encode(), 0o644, 0),
            "opt/lab-kernel/make": (MAKE.encode(), 0o755, 0),
            "opt/lab-kernel/modprobe": (MODPROBE.encode(), 0o755, 0),
            "etc/systemd/system/ssh.service.d/lab.conf": (SSHD.encode(), 0o644, 0),
            "etc/dkms/nvidia-current.conf": (DKMS.encode(), 0o644, 0),
            f"boot/vmlinuz-{kernel}": (b"simulated\n", 0o644, 0),
            f"lib/modules/{kernel}/modules.order": (b"", 0o644, 0),
            f"lib/modules/{kernel}/modules.builtin": (b"", 0o644, 0),
        }
        self.lab.podman.call(
            "cp", "--archive=false", "-", f"{self.container}:/",
            stdin=locallab.host.archive(files),
        )  # fmt: skip
        self.run(
            "dpkg-divert --quiet --local --rename --add /sbin/modprobe\n"
            "ln -s /opt/lab-kernel/modprobe /sbin/modprobe\n"
            "echo /opt/lab-kernel/uname.so > /etc/ld.so.preload\n"
        )
        self._booted()
        self._thread.start()
        return kernel

    def _booted(self) -> None:
        self.run(BOOT)
        self.boots += 1

    def _watch(self) -> None:
        """Starts what has gone down, as a machine does that was told to reboot."""
        while not self._off.wait(0.5):
            state = self.lab.podman.run(
                "inspect", "--format", "{{.State.Running}}", self.container
            ).stdout.strip()
            if state == b"false":
                self.lab.podman.call("start", self.container)
                self._booted()

    def off(self) -> None:
        self._off.set()
        if self._thread.is_alive():
            self._thread.join(timeout=60)


@contextlib.contextmanager
def machine(work: Path, name: str, host: str, address: str) -> Iterator[Machine]:
    """A bare lab host as such a machine; its files lie in `work`.

    `address`: one that stays over a restart, for podman would give it the next free one.
    """
    (work / "module").mkdir(parents=True, exist_ok=True)
    locallab.sweep()
    lab = locallab.up(
        name,
        locallab.Shape(arguments=[f"--ip={address}"], volumes=[f"{work / 'module'}:/sys/module"]),
        state_dir=work / ".lab",
        hosts=[host],
    )
    try:
        found = Machine(lab)
        try:
            found.install(work)
            yield found
        finally:
            found.off()
    finally:
        lab.down()


def project(made: Machine, path: Path, settings: Mapping[str, Any]) -> Project:
    """A rendered project in `path` that wishes the demo's stack for the machine."""
    path.mkdir()
    demo.write_inventory(path, made.lab, cudnn_archive.pack(cache_directory()))
    folder = path / "lab" / "host_vars"
    folder.mkdir()
    host = made.lab.hosts[0].name
    (folder / f"{host}.yml").write_text(yaml.safe_dump(dict(settings)), "utf-8")
    for command in (["lock", "--project", str(path)], ["render", str(path)]):
        assert demo.provision(*command) == 0
    return Project(path, made.lab)


def fixtures(name: str, host: str, address: str, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """The fixtures `machine` and `project` of a module, for such a host and its settings."""

    @pytest.fixture(scope="module")
    def of_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
        with machine(tmp_path_factory.mktemp("kernel"), f"test-{name}", host, address) as made:
            yield made

    @pytest.fixture(scope="module")
    def of_project(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Project:
        return project(machine, tmp_path_factory.mktemp(name) / "project", settings)

    return of_machine, of_project


def wait_for(what: str, seconds: float, seen: object) -> None:
    """Until the callable says true."""
    deadline = time.monotonic() + seconds
    while not seen():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.2)
