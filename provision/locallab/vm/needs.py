"""What this machine needs for virtual machines: programs, firmware, memory and disk."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from provision.errors import MachineError
from provision.locallab.machine import refuse

# program -> Debian package
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mcopy": "mtools",
    "mkfs.vfat": "dosfstools",
    "mkfs.ext4": "e2fsprogs",
    "sfdisk": "fdisk",
    "gcc": "gcc libc6-dev",
    "ssh-keygen": "openssh-client",
}
ENROL_PROGRAM = "virt-fw-vars"
FIRMWARE_DIRECTORY = Path("/usr/share/OVMF")
# A base image is built in a directory tree and a raw image before it is packed: 0.8 GB + 0.8 GB,
# packed 0.7 GB, and what a host writes.
DISK_FREE = 4 * 2**30
# Between qemu's properties, and between the libraries of LD_PRELOAD.
SEPARATORS = ", :"
# Of the machine's own, beside what its guests are given.
MEMORY_LEFT = 512 * 2**20


@dataclass(frozen=True)
class Firmware:
    """An OVMF build: its code, and the variables that a new machine starts with."""

    code: Path
    variables: Path


def firmware(secure_boot: bool, directory: Path = FIRMWARE_DIRECTORY) -> Firmware:
    """OVMF with Secure Boot on (Microsoft's keys enrolled) or off, as Debian's ovmf has it."""
    if secure_boot:
        return Firmware(directory / "OVMF_CODE_4M.secboot.fd", directory / "OVMF_VARS_4M.ms.fd")
    return Firmware(directory / "OVMF_CODE_4M.fd", directory / "OVMF_VARS_4M.fd")


def program(name: str) -> str | None:
    """The path of a program, also where only root's PATH has it; None without one."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def missing(secure_boot: bool, directory: Path = FIRMWARE_DIRECTORY) -> dict[str, str]:
    """{what this machine lacks: its Debian packages}, without what enrolling a key needs."""
    lacking = {name: package for name, package in PROGRAMS.items() if not program(name)}
    chosen = firmware(secure_boot, directory)
    for path in (chosen.code, chosen.variables):
        if not path.exists():
            lacking[path.name] = "ovmf"
    if os.geteuid() and not program("sudo"):
        lacking["sudo"] = "sudo"
    return lacking


def available_memory(text: str | None = None) -> int:
    """MemAvailable of /proc/meminfo, in bytes; 0 where it is not said."""
    try:
        text = Path("/proc/meminfo").read_text("ascii") if text is None else text
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def require(
    *, hosts: int, memory_mib: int, secure_boot: bool, cache: Path,
    enrol: bool = False, directory: Path = FIRMWARE_DIRECTORY,
) -> None:  # fmt: skip
    """Raises MachineError with all that is missing and the command that installs it.

    Memory and disk are looked at once the programs are there.
    """
    refuse("this machine can't run virtual machines yet", missing(secure_boot, directory))
    if enrol and not enrol_program():
        raise MachineError(
            "a key can't be enrolled in a virtual machine's firmware yet",
            got=f"missing: {ENROL_PROGRAM}",
            hint="pip install virt-firmware into the environment that has provision",
        )
    if not cache.is_absolute() or set(SEPARATORS) & set(str(cache)):
        raise MachineError(
            "virtual machines can't lie in this directory",
            where=str(cache),
            expected="an absolute path without a space, a comma or a colon",
            hint="set XDG_CACHE_HOME to one",
        )
    need = hosts * memory_mib * 2**20 + MEMORY_LEFT
    memory = available_memory()
    if memory < need:
        raise MachineError(
            f"too little memory for {hosts} virtual machines of {memory_mib} MiB",
            got=f"{memory >> 20} MiB available",
            expected=f"at least {need >> 20} MiB",
            hint="fewer hosts (--hosts), smaller ones (--memory), or end other programs",
        )
    free = shutil.disk_usage(cache).free
    if free < DISK_FREE:
        raise MachineError(
            "too little disk space for virtual machines",
            where=str(cache),
            got=f"{free >> 20} MiB free",
            expected=f"at least {DISK_FREE >> 20} MiB",
            hint="make room there, or set XDG_CACHE_HOME to a directory on another disk",
        )


def enrol_program() -> str | None:
    """`virt-fw-vars` of this Python environment, else the one on PATH; None without one."""
    beside = Path(sys.executable).parent / ENROL_PROGRAM
    return str(beside) if beside.exists() else shutil.which(ENROL_PROGRAM)
