"""Many hosts on one machine: each is an sshd on its own port of one converged host.

Every connection is real, with its own key exchange, login and sudo; only the disk is shared. So the
fleet costs its logins and looks, but not the memory of a hundred systems.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from provision.locallab.machine import Podman

FIRST_PORT = 2201
START_SECONDS = 60.0
START_SECONDS_EACH = 0.2

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


@contextlib.contextmanager
def up(podman: Podman, target: Target, count: int, folder: Path) -> Iterator[Fleet]:
    """Starts one sshd per host in the target's container; they end with the block."""
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


def close_masters(folder: Path) -> None:
    """Ends the connection masters whose sockets lie in `folder`."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_socket():
            subprocess.run(
                ["ssh", "-o", f"ControlPath={path}", "-O", "exit", "any"],
                capture_output=True,
                check=False,
            )
