"""One virtual machine: its folder, its qemu process, and its power button.

Its folder lies in the user's cache and holds a record of whose machine it is beside the disk, so
that `down` and `sweep` know it without anything else. The process is recognised by its command
line, never by its number alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from provision.errors import MachineError
from provision.locallab.machine import write_atomically
from provision.locallab.vm import disk, firmware
from provision.locallab.vm.accel import Acceleration
from provision.locallab.vm.needs import firmware as firmware_files

QEMU = "qemu-system-x86_64"
# Guests are reached by a forwarded port of this machine.
ADDRESS = "127.0.0.1"
KILL_TIMEOUT = 20.0
# A boot under emulation takes 50 to 100 s on two idle processors.
BOOT_TIMEOUT = {"tcg": 420.0, "kvm": 90.0}


@dataclass(frozen=True)
class Virtual:
    """What makes a lab's hosts virtual machines, and of which kind.

    `enrol` are certificates (DER) that the firmware trusts beside Microsoft's; with Secure Boot.
    `disk`, made by `disk.build`, is what they start from instead of a fresh install.
    """

    memory_mib: int = 2048
    processors: int = 2
    secure_boot: bool = False
    enrol: tuple[Path, ...] = ()
    disk: Path | None = None


@dataclass
class Guest:
    """A virtual machine that exists, running or not. `labels` are those of a lab's containers."""

    folder: Path
    labels: Mapping[str, str]
    base: str
    port: int
    virtual: Virtual
    acceleration: Acceleration
    card: Path | None = None
    cards: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False, compare=False)

    @property
    def host(self) -> str:
        return self.labels["host"]

    @property
    def described(self) -> str:
        """What it is, for a person: "virtual machine (emulated: ...)"."""
        how = self.acceleration
        return f"virtual machine ({f'emulated: {how.reason}' if how.emulated else how.name})"

    def argv(self) -> list[str]:
        """qemu's command line."""
        files = firmware_files(self.virtual.secure_boot)
        secure = ",smm=on" if self.virtual.secure_boot else ""
        return [
            QEMU, *self.acceleration.arguments(),
            "-name", f"{self.labels['lab']}-{self.host}",
            "-machine", f"q35{secure}",
            *(["-global", "driver=cfi.pflash01,property=secure,value=on"] if secure else []),
            "-smp", str(self.virtual.processors), "-m", str(self.virtual.memory_mib),
            "-nodefaults", "-display", "none",
            "-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={files.code}",
            "-drive", f"if=pflash,unit=1,format=raw,file={self.folder / 'variables.fd'}",
            # Written data waits in this machine's memory until the guest syncs, as in a disk.
            "-drive", f"if=virtio,format=qcow2,cache=writeback,file={self.folder / 'disk.qcow2'}",
            "-netdev", f"user,id=net,hostfwd=tcp:{ADDRESS}:{self.port}-:22",
            "-device", "virtio-net-pci,netdev=net",
            "-device", "virtio-rng-pci",
            "-fw_cfg", f"name=opt/provision/host,file={self.folder / 'host.tar'}",
            # Without `append` the words before a power cut would go when the power comes back.
            "-chardev", f"file,id=console,path={self.folder / 'console.log'},append=on",
            "-serial", "chardev:console",
            *(["-device", "lab-gpu"] * self.cards),
        ]  # fmt: skip

    def start(self) -> None:
        """Powers the machine on. Raises MachineError with qemu's words where it does not start.

        A machine that is not to be kept ends with the thread that started it.
        """
        keep = self.labels["keep"] == "true"
        argv = [] if keep else ["setpriv", "--pdeathsig", "KILL", "--"]
        if self.card:
            # In env's words, so that nothing but qemu is given the library.
            argv += ["env", f"LD_PRELOAD={self.card}"]
        argv += self.argv()
        with (self.folder / "qemu.log").open("ab") as log:
            self.process = subprocess.Popen(
                argv, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=keep,
            )  # fmt: skip
        write_atomically(self.folder / "pid", f"{self.process.pid}\n".encode())
        deadline = time.monotonic() + KILL_TIMEOUT
        while time.monotonic() < deadline and not self._listens():
            self.check()
            time.sleep(0.05)

    def _listens(self) -> bool:
        """Has qemu got as far as forwarding the port?"""
        with contextlib.suppress(OSError), socket.create_connection((ADDRESS, self.port), 1):
            return True
        return False

    def check(self) -> None:
        """Raises MachineError where qemu has ended, with what it said."""
        if self.running:
            return
        try:
            text = (self.folder / "qemu.log").read_text("utf-8", "replace")
        except FileNotFoundError as error:
            raise MachineError(f"{self.host} was removed", where=str(self.folder)) from error
        lines = text.strip().splitlines()
        taken = any("hostfwd" in line or "host forwarding" in line for line in lines[-3:])
        raise MachineError(
            f"{self.host}: qemu has ended" + (f": port {self.port} is in use" if taken else ""),
            got="\n".join(lines[-3:]) or self.console(3),
            hint="free the port, or start the lab anew for another one" if taken else "",
        )

    @property
    def pid(self) -> int | None:
        """The number of this machine's qemu process; None where none runs."""
        if self.process is not None:
            # Started here: its command line may be empty for a moment, between two programs.
            return self.process.pid if self.process.poll() is None else None
        try:
            number = int((self.folder / "pid").read_text("ascii"))
        except (OSError, ValueError):
            return None
        return number if _is_of(number, self.folder) else None

    @property
    def running(self) -> bool:
        return self.pid is not None

    def cut(self) -> None:
        """Cuts the power: qemu is killed, and what the guest had not synced is lost."""
        number = self.pid
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(KILL_TIMEOUT)
        deadline = time.monotonic() + KILL_TIMEOUT
        while self.running:
            if time.monotonic() > deadline:
                raise MachineError(f"{self.host}: its qemu process {number} does not end")
            time.sleep(0.05)

    def remove(self) -> None:
        """Ends the machine and removes its disk."""
        self.cut()
        shutil.rmtree(self.folder, ignore_errors=True)

    def console(self, lines: int = 20) -> str:
        """The last lines of the serial console, of this boot and those before."""
        try:
            text = (self.folder / "console.log").read_text("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.replace("\r", "").strip().splitlines()[-lines:])

    def write(self) -> None:
        """Writes the record that `read` needs."""
        record = {
            "labels": dict(self.labels),
            "base": self.base,
            "port": self.port,
            "virtual": {
                "memory_mib": self.virtual.memory_mib,
                "processors": self.virtual.processors,
                "secure_boot": self.virtual.secure_boot,
            },
            "acceleration": asdict(self.acceleration),
            "card": str(self.card) if self.card else None,
            "cards": self.cards,
        }
        write_atomically(self.folder / "machine.json", json.dumps(record, indent=1).encode())


def create(guest: Guest, host_files: bytes) -> None:
    """Makes a guest's folder: an empty overlay, firmware variables, its own files, the record."""
    guest.folder.mkdir(parents=True, mode=0o700)
    guest.write()
    disk.overlay(Path(guest.base), guest.folder / "disk.qcow2")
    firmware.create(
        guest.folder / "variables.fd",
        secure_boot=guest.virtual.secure_boot,
        enrol=guest.virtual.enrol,
    )
    write_atomically(guest.folder / "host.tar", host_files, 0o600)


def read(folder: Path) -> Guest:
    """The guest of a folder. Raises OSError, ValueError or KeyError where it has no good record."""
    record: dict[str, Any] = json.loads((folder / "machine.json").read_text("utf-8"))
    return Guest(
        folder=folder,
        labels=record["labels"],
        base=record["base"],
        port=record["port"],
        virtual=Virtual(**record["virtual"]),
        acceleration=Acceleration(**record["acceleration"]),
        card=Path(record["card"]) if record["card"] else None,
        cards=record["cards"],
    )


def guests(cache: Path, **labels: str) -> list[Guest]:
    """The virtual machines of this cache with all these labels ('' = any value), by folder."""
    matching = []
    for folder in sorted((cache / "machines").glob("*/")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            guest = read(folder)
            if all(guest.labels[name] == value or not value for name, value in labels.items()):
                matching.append(guest)
    return matching


def free_port() -> int:
    """A TCP port of the loopback address that nobody listens on just now.

    It is below the ports that the kernel gives to whoever asks for any, so that nobody is given it
    before the caller's program opens it.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
    for _ in range(100):
        # A system that gives all of them leaves none.
        port = lowest - 1 - secrets.randbelow(lowest // 2) if lowest > 4096 else 0
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind((ADDRESS, port))
            return int(listener.getsockname()[1])
    raise MachineError("this machine has no free TCP port", where=ADDRESS)


def end_orphans(cache: Path) -> None:
    """Kills qemu processes of this cache's machines whose folder is gone."""
    machines = cache / "machines"
    for entry in Path("/proc").glob("[0-9]*"):
        for word in _command(int(entry.name)):
            place = word.partition(f"file={machines}/")[2].split("/")[0]
            if (
                place
                and not (machines / place).exists()
                and _is_of(int(entry.name), machines / place)
            ):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(int(entry.name), signal.SIGKILL)
                break


def _command(pid: int) -> list[str]:
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return data.decode("utf-8", "replace").split("\0")


def _is_of(pid: int, folder: Path) -> bool:
    """Is this process the qemu, or what starts it, of the machine in `folder`?"""
    words = _command(pid)
    return QEMU in (Path(word).name for word in words[:8]) and any(
        f"file={folder}/" in word for word in words
    )
