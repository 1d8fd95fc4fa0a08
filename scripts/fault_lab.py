"""What a bench's host is made as: a container on a small disk of its own, or a virtual machine."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fault_host import Disk, say

from provision import locallab
from provision.errors import MachineError
from provision.locallab.host import LabHost, wait_for_ssh
from provision.locallab.machine import Podman
from provision.locallab.vm import Guest, Virtual
from provision.locallab.vm.hosts import patience

ROOT = Path(__file__).resolve().parents[1]
PLATFORM = "debian11"
# TensorFlow's import and CUDA's libraries beside apt.
MEMORY_MIB = 3072
# Variables of the machine's group: the disk is made with them, and every run has them.
WISH = "nvidia_driver_scope: full\ncuda_profile: runtime\n"


class Host(Protocol):
    """A host that can be made, reached as root past the run's own connections, and switched off."""

    # Whether it is made bare, or with everything installed.
    bare: bool
    # Further variables of its group.
    wish: str
    lab: locallab.Lab | None

    def up(self) -> locallab.Lab:
        """Makes the host and starts it."""
        ...

    def down(self) -> None:
        """Removes the host and its disk."""
        ...

    def argv(self, *command: str) -> list[str]:
        """The command line that runs a command on the host as root, with its standard input."""
        ...

    def network(self, rules: str) -> None:
        """Gives the host's network these iptables rules."""
        ...

    def cut(self) -> None:
        """Switches it off, without a warning."""
        ...

    def power_on(self) -> None:
        """Starts it again, and waits for SSH."""
        ...


class Container:
    """What it had written before it was switched off is whole: this machine's kernel has it."""

    bare = True
    wish = ""

    def __init__(self, name: str, project: Path, options: argparse.Namespace, podman: Podman):
        self.name, self.project, self.options, self.podman = name, project, options, podman
        self.disk = Disk(podman, project)
        self.lab: locallab.Lab | None = None

    @property
    def _host(self) -> LabHost:
        assert self.lab is not None  # noqa: S101
        return self.lab.hosts[0]

    def up(self) -> locallab.Lab:
        self.disk.make()
        shape = locallab.Shape(volumes=self.disk.volumes)
        self.lab = _lab(self.name, self.project, self.options, shape)
        return self.lab

    def down(self) -> None:
        if self.lab is not None:
            self.lab.down()
            self.lab = None
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
        assert self.lab is not None  # noqa: S101
        self.podman.run("network", "disconnect", "podman", host.container)
        self.podman.call("network", "connect", "--ip", host.address, "podman", host.container)
        self.podman.call("start", host.container)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            # Not over an old connection, which only the run may use.
            done = subprocess.run(_ssh(self.lab, "true"), capture_output=True, check=False)
            if done.returncode == 0:
                return
            time.sleep(0.3)
        raise MachineError(f"{self.name} did not come back", got=done.stderr.decode()[-300:])


class Machine:
    """Everything is installed when it first boots; what was not synced is lost with the power."""

    bare = False
    wish = WISH

    def __init__(self, name: str, project: Path, options: argparse.Namespace):
        self.name, self.project, self.options = name, project, options
        self.lab: locallab.Lab | None = None

    @property
    def _guest(self) -> Guest:
        assert self.lab is not None  # noqa: S101
        guest = self.lab.hosts[0].guest
        assert guest is not None  # noqa: S101
        return guest

    def up(self) -> locallab.Lab:
        say(f"A {PLATFORM} disk with everything installed (ten minutes, then kept)")
        virtual = Virtual(memory_mib=MEMORY_MIB, disk=_provisioned()(PLATFORM, WISH))
        shape = locallab.Shape(PLATFORM, with_gpu=False, virtual=virtual)
        self.lab = _lab(self.name, self.project, self.options, shape)
        return self.lab

    def down(self) -> None:
        if self.lab is not None:
            self.lab.down()
            self.lab = None

    def argv(self, *command: str) -> list[str]:
        assert self.lab is not None  # noqa: S101
        return _ssh(self.lab, "sudo " + shlex.join(command))

    def network(self, rules: str) -> None:
        raise NotImplementedError("the network of a virtual machine is not cut")

    def cut(self) -> None:
        self._guest.cut()

    def power_on(self) -> None:
        assert self.lab is not None  # noqa: S101
        self._guest.start()
        wait_for_ssh(self.lab.hosts[0], *patience(self._guest))


def _lab(
    name: str, project: Path, options: argparse.Namespace, shape: locallab.Shape
) -> locallab.Lab:
    return locallab.up(
        f"faults-{os.getpid()}-{name}",
        shape,
        state_dir=project / ".lab",
        hosts=[name],
        keep=options.keep_failed,
    )


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
