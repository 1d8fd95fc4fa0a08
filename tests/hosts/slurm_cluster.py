"""A cluster of local hosts for Slurm: cgroups that they may write, GPUs as device files.

The GPUs are simulated: /dev/nvidiaN are device files with NVIDIA's numbers and nothing behind them.
A program that opens one is told that there is no such device, and one whose cgroup forbids it that
it may not: by that a test sees what a job was given. Everything of the stack but Slurm is absent.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import demo
import yaml

from provision import locallab
from provision.registry import COMPONENTS
from tests.hosts.conftest import Project

# What each platform can be locked with that needs no archive of NVIDIA's.
WISHES: dict[str, dict[str, Any]] = {
    "debian12": {"tensorflow": "2.16"},
    "debian13": {"python": "3.13"},
}
OTHERS = tuple(component.name for component in COMPONENTS if component.state)
# What nvidia-modprobe makes on a real host, at each boot; and the names of a lab's DNS.
DEVICES = """\
set -e
for n in 0 1; do mknod -m 0666 /dev/nvidia$n c 195 $n; done
mknod -m 0666 /dev/nvidiactl c 195 255
cat >> /etc/hosts
for person in ada bob eve; do useradd --create-home $person; done
"""


class Cluster(Project):
    """Three hosts, and a rendered project that wishes them to be a cluster."""

    # What the first run said, and its events.
    first: str = ""

    def root(self, host: str, command: str, check: bool = True, stdin: str = "") -> str:
        """What a shell's command prints as root; with its errors where it may fail."""
        (container,) = [each.container for each in self.lab.hosts if each.name == host]
        done = self.lab.podman.run("exec", "--interactive", str(container), "sh", "-c", command,
                                   stdin=stdin.encode())  # fmt: skip
        output = done.stdout.decode()
        if check:
            assert done.returncode == 0, output + done.stderr.decode()
            return output
        return output + done.stderr.decode()

    def as_person(self, host: str, person: str, command: str, check: bool = True) -> str:
        """What somebody's command prints."""
        return self.root(host, f"cd /home/{person} && exec runuser -u {person} -- {command}", check)

    def say(self, **values: Any) -> None:
        """Further variables of all hosts; they come after those of wish.yml."""
        path = self.path / "lab" / "group_vars" / "gpu_hosts" / "zz-said.yml"
        path.write_text(json.dumps(values), "utf-8")

    def say_of(self, host: str, **values: Any) -> None:
        """Variables of one host."""
        path = self.path / "lab" / "host_vars" / f"{host}.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(values), "utf-8")

    def site(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = self.playbook("-e", "gpu_verify=never", *arguments)
        assert done.returncode == code, done.stdout[-9000:] + done.stderr
        return done


def bring_up(
    directory: Path, name: str, platform: str, hosts: list[str], options: Mapping[str, Any],
    *, more: Path | None = None, keep: bool = False, owner_pid: int | None = None,
) -> Cluster:  # fmt: skip
    """Bare hosts of a platform, and a rendered project for them; the first is the controller.

    `more` is a folder with further files of the inventory; `keep` and `owner_pid` are locallab's.
    """
    locallab.sweep()
    directory.mkdir(parents=True, exist_ok=True)
    lab = locallab.up(
        name,
        locallab.Shape(platform=platform, privileged=True),
        state_dir=directory / ".lab",
        hosts=hosts,
        keep=keep,
        owner_pid=owner_pid,
    )
    try:
        values: dict[str, Any] = {"gpu_stack": WISHES[platform], "gpu_platform": platform}
        values |= {f"{other}_state": "absent" for other in OTHERS}
        values |= {"slurm_state": "present", "slurm_controller": hosts[0], **options}
        shutil.rmtree(directory / "lab", ignore_errors=True)
        files = directory / "lab" / "group_vars" / "gpu_hosts"
        files.mkdir(parents=True)
        (files / "wish.yml").write_text(yaml.safe_dump(values, sort_keys=False), "utf-8")
        inventory = yaml.safe_dump(lab.inventory("gpu_hosts"), sort_keys=False)
        (directory / "lab" / "hosts.yml").write_text(inventory, "utf-8")
        if more is not None:
            shutil.copytree(more, directory / "lab", dirs_exist_ok=True)
        made = Cluster(directory, lab)
        names = "".join(f"{host.address} {host.name}\n" for host in lab.hosts)
        for host in hosts:
            made.root(host, DEVICES, stdin=names)
        for command in (["lock", "--project", str(directory)], ["render", str(directory)]):
            assert demo.provision(*command) == 0
    except BaseException:
        if not keep:
            lab.down()
        raise
    return made


@contextmanager
def cluster(
    directory: Path, name: str, platform: str, hosts: list[str], options: Mapping[str, Any],
    keep: bool = False,
) -> Iterator[Cluster]:  # fmt: skip
    """`bring_up` for a test, at whose end the hosts and the project go."""
    try:
        made = bring_up(directory, name, platform, hosts, options, keep=keep)
        try:
            yield made
        finally:
            if not keep:
                made.lab.down()
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
