"""Many hosts on one machine: each is an sshd on its own port of one converged host.

Every connection is real, with its own key exchange, login and sudo; only the disk is shared. So the
fleet costs its logins and looks, but not the memory of a hundred systems. How many a machine
carries is asked before the first is started: what breaks in the middle says something else.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from provision.locallab.machine import Podman

FIRST_PORT = 2201
START_SECONDS = 60.0
START_SECONDS_EACH = 0.2
# Of each host while its connection is open: its sshd, the two of the session, the master of Ansible
# here; and while it is asked a shell, sudo and Python, of FORKS hosts at once.
PROCESSES_EACH, PROCESSES_ASKED, FORKS = 4, 8, 50
# Bytes; the first was 4 MiB where it was weighed (each shared page counted once).
MEMORY_EACH, MEMORY_ASKED = 6 << 20, 64 << 20
# What the machine keeps for itself, and for ansible-playbook.
PROCESSES_BESIDE, MEMORY_BESIDE = 500, 2 << 30
# In a process: the workers of Ansible have pipes, and this program a socket for each port it tries.
FILES = 1024

# The same for every way, so that ciphers and key exchange make no difference.
SSH_OPTIONS = (
    "KexAlgorithms=curve25519-sha256",
    "HostKeyAlgorithms=ssh-ed25519",
    "Ciphers=aes128-ctr",
    "Compression=no",
)


@dataclass(frozen=True)
class Target:
    """One converged host to put the fleet on, as its inventory names it."""

    address: str
    user: str
    key: Path
    container: str
    host_key: str
    """The public key of its sshd, "ssh-ed25519 AAAA..."."""


@dataclass(frozen=True)
class Fleet:
    """`ports` are the hosts; they answer as long as `up` is open."""

    target: Target
    ports: tuple[int, ...]
    folder: Path

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def names(self) -> list[str]:
        return [f"bench{number:03}" for number in range(1, len(self.ports) + 1)]

    def ssh(self) -> list[str]:
        """Options for ssh(1), the same for every way that uses it."""
        settings = (
            *SSH_OPTIONS,
            f"UserKnownHostsFile={self.known_hosts}",
            "GlobalKnownHostsFile=/dev/null",
            "StrictHostKeyChecking=yes",
            "IdentitiesOnly=yes",
            "BatchMode=yes",
        )
        return [part for setting in settings for part in ("-o", setting)]

    def first(self, count: int) -> Fleet:
        """A fleet of only the first `count` hosts."""
        return Fleet(self.target, self.ports[:count], self.folder)

    def inventory(self, path: Path, group: str) -> Path:
        """Writes an ordinary Ansible inventory of the fleet."""
        hosts = {
            name: {"ansible_port": port}
            for name, port in zip(self.names(), self.ports, strict=True)
        }
        data = {
            group: {
                "hosts": hosts,
                "vars": {
                    "ansible_host": self.target.address,
                    "ansible_user": self.target.user,
                    "ansible_ssh_private_key_file": str(self.target.key),
                    "ansible_ssh_common_args": " ".join(self.ssh()),
                },
            }
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        return path


@dataclass(frozen=True)
class Room:
    """What the machine has for a fleet."""

    processes: int
    memory: int
    ports: int
    files: int


def room() -> Room:
    """What is free now: proc(5), and this process's limit of open files."""
    kernel = Path("/proc/sys/kernel")
    most = min(int((kernel / name).read_text("ascii")) for name in ("pid_max", "threads-max"))
    running = int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[2])
    memory = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text("ascii").splitlines()
        if line.startswith("MemAvailable:")
    )
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
    files, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Room(most - running, memory, first - FIRST_PORT, files)


def lacking(count: int, has: Room) -> list[str]:
    """What a fleet of so many hosts would break on, the first first; [] where it fits."""
    asked = min(count, FORKS)
    needs = Room(
        processes=PROCESSES_BESIDE + PROCESSES_EACH * count + PROCESSES_ASKED * asked,
        memory=MEMORY_BESIDE + MEMORY_EACH * count + MEMORY_ASKED * asked,
        ports=count,
        files=FILES,
    )
    shortages = []
    if has.memory < needs.memory:
        shortages.append(
            f"memory: {needs.memory >> 20} MiB of {has.memory >> 20} MiB that are free"
        )
    if has.processes < needs.processes:
        shortages.append(
            f"processes: {needs.processes} of {has.processes} that the kernel still has "
            "(kernel.pid_max, kernel.threads-max)"
        )
    if has.ports < needs.ports:
        shortages.append(
            f"ports: {needs.ports} of the {has.ports} from {FIRST_PORT} on that no connection takes"
            " (net.ipv4.ip_local_port_range)"
        )
    if has.files < needs.files:
        shortages.append(f"open files of a process: {needs.files} of {has.files} (ulimit -n)")
    return shortages


@contextlib.contextmanager
def up(podman: Podman, target: Target, count: int, folder: Path) -> Iterator[Fleet]:
    """Starts one sshd per host in the target's container; they end with the block.

    SystemExit where the machine has no room for so many.
    """
    if shortages := lacking(count, room()):
        raise SystemExit(f"{count} hosts take more than this machine has: {'; '.join(shortages)}")
    ports = tuple(range(FIRST_PORT, FIRST_PORT + count))
    folder.mkdir(parents=True, exist_ok=True)
    fleet = Fleet(target, ports, folder)
    fleet.known_hosts.write_text(
        "".join(f"[{target.address}]:{port} {target.host_key}\n" for port in ports), "ascii"
    )
    _stop(podman, target)
    start = (
        f"for port in $(seq {ports[0]} {ports[-1]}); do "
        "/usr/sbin/sshd -p $port -o PidFile=/run/bench-sshd-$port.pid || exit 1; done"
    )
    podman.call("exec", target.container, "sh", "-c", start)
    try:
        deadline = time.monotonic() + START_SECONDS + START_SECONDS_EACH * count
        for port in ports:
            _wait(target.address, port, deadline)
        yield fleet
    finally:
        _stop(podman, target)


def _stop(podman: Podman, target: Target) -> None:
    stop = (
        "for file in /run/bench-sshd-*.pid; do "
        '[ -e "$file" ] && kill "$(cat "$file")"; rm -f "$file"; done; true'
    )
    podman.run("exec", target.container, "sh", "-c", stop)


def _wait(address: str, port: int, deadline: float) -> None:
    while True:
        try:
            with socket.create_connection((address, port), timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


# OpenSSH's PROTOCOL.mux: the greeting of version 4, and "end, and close all".
MUX_HELLO, MUX_VERSION, MUX_TERMINATE = 0x00000001, 4, 0x10000005


def close_masters(folder: Path) -> None:
    """Ends the connection masters whose sockets lie in `folder`.

    By their own protocol: a thousand times `ssh -O exit` takes seconds of processor time, which
    would be counted as the masters'.
    """
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_socket():
            with contextlib.suppress(OSError):  # it has just ended
                _close(path)


def _close(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as master:
            master.settimeout(5)
            # So: the path of a socket may have 107 bytes, and a temporary folder's has more.
            master.connect(f"/proc/self/fd/{folder}/{path.name}")
            for words in ((MUX_HELLO, MUX_VERSION), (MUX_TERMINATE, 0)):
                body = struct.pack(f"!{len(words)}I", *words)
                master.sendall(struct.pack("!I", len(body)) + body)
            while master.recv(4096):  # until it closes, which it does when it ends
                pass
    finally:
        os.close(folder)
