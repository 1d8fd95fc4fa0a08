"""What a bench's host is made as: a container on a small disk of its own, or a virtual machine."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from fault_host import PLATFORM, Disk, say

from provision import locallab
from provision.errors import MachineError
from provision.locallab.host import LabHost, wait_for_ssh
from provision.locallab.machine import Podman
from provision.locallab.vm import Guest, Virtual
from provision.locallab.vm.hosts import patience

ROOT = Path(__file__).resolve().parents[1]
# TensorFlow's import and CUDA's libraries beside apt.
MEMORY_MIB = 3072
# Variables of the machine's group: the disk is made with them, and every run has them.
WISH = "nvidia_driver_scope: full\ncuda_profile: runtime\n"


class Host(ABC):
    """A host that can be made, reached as root past the run's own connections, and switched off."""

    # Whether it is made bare, or with everything installed.
    bare: bool
    # Further variables of its group.
    wish: str

    def __init__(self, name: str, project: Path, options: argparse.Namespace):
        self.name, self.project, self.options = name, project, options
        self.lab: locallab.Lab | None = None

    @property
    def made(self) -> locallab.Lab:
        """The lab that `up` has made."""
        assert self.lab is not None  # noqa: S101
        return self.lab

    def up(self) -> locallab.Lab:
        """Makes the host and starts it."""
        self.lab = locallab.up(
            f"faults-{os.getpid()}-{self.name}",
            self.shape(),
            state_dir=self.project / ".lab",
            hosts=[self.name],
            keep=self.options.keep_failed,
        )
        return self.lab

    def down(self) -> None:
        """Removes the host and its disk."""
        if self.lab is not None:
            self.lab.down()
            self.lab = None

    @abstractmethod
    def shape(self) -> locallab.Shape:
        """Makes its disk, and returns what the host is."""

    @abstractmethod
    def argv(self, *command: str) -> list[str]:
        """The command line that runs a command on the host as root, with its standard input."""

    @abstractmethod
    def network(self, rules: str) -> None:
        """Gives the host's network these iptables rules."""

    @abstractmethod
    def cut(self) -> None:
        """Switches it off, without a warning."""

    @abstractmethod
    def power_on(self) -> None:
        """Starts it again, and waits for SSH."""


class Container(Host):
    """What it had written before it was switched off is whole: this machine's kernel has it."""

    bare = True
    wish = ""

    def __init__(self, name: str, project: Path, options: argparse.Namespace, podman: Podman):
        super().__init__(name, project, options)
        self.podman = podman
        self.disk = Disk(podman, project)

    @property
    def _host(self) -> LabHost:
        return self.made.hosts[0]

    def shape(self) -> locallab.Shape:
        self.disk.make()
        return locallab.Shape(volumes=self.disk.volumes)

    def down(self) -> None:
        super().down()
        self.disk.remove()

    def argv(self, *command: str) -> list[str]:
        return self.podman.argv("exec", "--interactive", self._host.container, *command)

    def network(self, rules: str) -> None:
        """In the host's network namespace, by this machine's program."""
        container = self._host.container
        pid = self.podman.call("inspect", "--format", "{{.State.Pid}}", container).strip()
        command = ["nsenter", "--target", pid, "--net", "iptables-restore"]
        subprocess.run(
            [*self.podman.prefix, *command], input=rules, text=True, check=True, timeout=30
        )

    def cut(self) -> None:
        self.podman.call("kill", "--signal=KILL", self._host.container)
        self.podman.call("wait", self._host.container)

    def power_on(self) -> None:
        """With its old address."""
        host = self._host
        self.podman.run("network", "disconnect", "podman", host.container)
        self.podman.call("network", "connect", "--ip", host.address, "podman", host.container)
        self.podman.call("start", host.container)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            # Not over an old connection, which only the run may use.
            done = subprocess.run(_ssh(self.made, "true"), capture_output=True, check=False)
            if done.returncode == 0:
                return
            time.sleep(0.3)
        raise MachineError(f"{self.name} did not come back", got=done.stderr.decode()[-300:])


class Machine(Host):
    """Everything is installed when it first boots; what was not synced is lost with the power."""

    bare = False
    wish = WISH

    @property
    def _guest(self) -> Guest:
        guest = self.made.hosts[0].guest
        assert guest is not None  # noqa: S101
        return guest

    def shape(self) -> locallab.Shape:
        say(f"A {PLATFORM} disk with everything installed (ten minutes, then kept)")
        virtual = Virtual(memory_mib=MEMORY_MIB, disk=_provisioned()(PLATFORM, WISH))
        return locallab.Shape(PLATFORM, with_gpu=False, virtual=virtual)

    def argv(self, *command: str) -> list[str]:
        return _ssh(self.made, "sudo " + shlex.join(command))

    def network(self, rules: str) -> None:
        raise NotImplementedError("the network of a virtual machine is not cut")

    def cut(self) -> None:
        self._guest.cut()

    def power_on(self) -> None:
        self._guest.start()
        wait_for_ssh(self.made.hosts[0], *patience(self._guest))


def _ssh(lab: locallab.Lab, command: str) -> list[str]:
    host = lab.hosts[0]
    return [
        "ssh", *lab.ssh_arguments(), "-o", "ConnectTimeout=20", "-o", "ControlPath=none",
        "-o", "ServerAliveInterval=15", "-p", str(host.port), "-i", str(host.key_file),
        f"{host.user}@{host.address}", command,
    ]  # fmt: skip


def _provisioned() -> Callable[[str, str], Path]:
    """The function of the host tests that makes and keeps the disk."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "hosts")]
    import native

    return native.provisioned
