"""Labs: groups of hosts, containers or virtual machines, reached over real SSH with their own keys.

Every host carries labels (lab, run, state directory, owner), so that `down` removes only its own,
two runs on one machine never collide, and `sweep` finds the hosts of a killed run: a container has
them in podman's record, a virtual machine beside its disk.
"""

from __future__ import annotations

import shlex
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from provision.errors import InputError
from provision.locallab import cache, existing, gpu, image, vm
from provision.locallab.host import (
    SSH_PORT,
    USER,
    LabHost,
    Recipe,
    Shape,
    address_of,
    create,
    finish,
    keygen,
    wait_for_ssh,
)
from provision.locallab.machine import (
    Podman,
    Progress,
    cache_directory,
    connect,
    locked,
    measure,
    missing,
    require,
    silent,
)
from provision.locallab.owner import is_alive, owner
from provision.locallab.vm import disk
from provision.locallab.vm import hosts as virtual

# The lab's own key pair, in its state directory.
KEY = "id_ed25519"


@dataclass
class Lab:
    """A running lab; `down()` removes it."""

    name: str
    run: str
    state_dir: Path
    hosts: list[LabHost]
    podman: Podman = field(repr=False, default_factory=Podman)

    @property
    def known_hosts(self) -> Path:
        """The file with the hosts' public keys."""
        return self.state_dir / "known_hosts"

    def ssh_arguments(self) -> list[str]:
        """Options for ssh(1), which then trusts only this lab's hosts."""
        return [
            "-o", f'UserKnownHostsFile="{self.known_hosts}"',
            "-o", "GlobalKnownHostsFile=/dev/null",
            "-o", "StrictHostKeyChecking=yes",
            "-o", "IdentitiesOnly=yes",
        ]  # fmt: skip

    def inventory(self, group: str = "gpu") -> dict[str, Any]:
        """Inventory data, as in a YAML file: one group with all hosts."""
        return {
            group: {
                "hosts": {
                    host.name: {
                        "ansible_host": host.address,
                        **({"ansible_port": host.port} if host.port != SSH_PORT else {}),
                        "ansible_user": host.user,
                        "ansible_ssh_private_key_file": str(host.key_file),
                    }
                    for host in self.hosts
                },
                "vars": {"ansible_ssh_common_args": shlex.join(self.ssh_arguments())},
            }
        }

    def down(self) -> None:
        """Remove this lab's hosts and its state."""
        cached = cache_directory()
        existing.remove(self.podman, existing.find(self.podman, cached, run=self.run), cached)


@dataclass(frozen=True)
class LabStatus:
    """A lab, by its hosts' labels. `hosts` is {name: address, '' when not running}; `machines` says
    of each what it is: a container, or a virtual machine and how it is run."""

    name: str
    run: str
    state_dir: Path
    keep: bool
    owner_alive: bool
    hosts: dict[str, str]
    machines: dict[str, str] = field(default_factory=dict)


def up(
    name: str,
    shape: Shape | None = None,
    *,
    state_dir: Path,
    count: int = 2,
    hosts: Sequence[str] | None = None,
    with_cache: bool = True,
    keep: bool = False,
    owner_pid: int | None = None,
    progress: Progress = silent,
) -> Lab:
    """Start a lab and return it when every host answers on SSH.

    `hosts` names the hosts, gpu01 to gpu<count> by default. With `keep` the lab outlives its owner
    (`provision lab up`); without, `sweep` removes it once its owner, this process or `owner_pid`,
    has ended. A failure leaves nothing behind. Raises InputError for a name in use, an unknown
    platform or GPU; MachineError otherwise.
    """
    shape = shape or Shape()
    names = _names(hosts, count)
    image.platform(shape.platform)
    gpu.model(shape.gpu_name)
    cached = cache_directory()
    limits = measure()
    if shape.virtual:
        virtual.require(shape.virtual, len(names), cached)
    else:
        require(limits)
    podman = connect(limits)
    state = state_dir.resolve()
    _refuse_if_up(podman, cached, name, state)
    base = _base(podman, shape, cached, progress)
    cache_base = _cache_base(podman, shape, cached, progress) if with_cache else ""
    libraries = gpu.compile_libraries(cached) if shape.with_gpu and not shape.virtual else {}
    public = _make_state(state, name)
    run = uuid.uuid4().hex[:10]
    labels = _labels(state, cached, keep=keep, owner_pid=owner_pid)
    recipe = Recipe(name, run, state, cached, base, public, libraries, labels, shape)
    try:
        with locked(cached / "labs.lock"):
            if cache_base:
                plain = image.platform(shape.platform).over or shape.platform
                proxy = cache.ensure(podman, cached, cache_base, plain, progress)
                recipe = replace(recipe, proxy=proxy)
            start = _virtual if shape.virtual else _container
            started = [start(podman, recipe, host, progress) for host in names]
        lab_hosts = [_reachable(podman, host, shape) for host in started]
        lab = Lab(name, run, state, lab_hosts, podman)
        _write_known_hosts(lab)
        for lab_host in lab_hosts:
            wait_for_ssh(lab_host, *virtual.patience(lab_host.guest) if lab_host.guest else ())
            progress(f"{lab_host.name} answers at {lab_host.place}")
    except BaseException:
        existing.remove(podman, existing.find(podman, cached, run=run), cached)
        shutil.rmtree(state, ignore_errors=True)
        raise
    return lab


def _base(podman: Podman, shape: Shape, cached: Path, progress: Progress) -> str:
    """What the hosts start from: an image of podman's, or the path of a disk."""
    if shape.virtual:
        return str(virtual.base(podman, shape, cached, progress))
    return image.ensure(podman, shape.platform, cached, progress)


def _cache_base(podman: Podman, shape: Shape, cached: Path, progress: Progress) -> str:
    """The image that the download cache runs in: the platform's, without an identity.

    Empty where virtual machines are made on a machine that can't run containers.
    """
    if shape.virtual and missing(measure()):
        progress("No download cache, hosts go direct: this machine can't run containers")
        return ""
    plain = image.platform(shape.platform).over or shape.platform
    return image.ensure(podman, plain, cached, progress)


def _container(podman: Podman, recipe: Recipe, name: str, progress: Progress) -> LabHost:
    container = create(podman, recipe, name, progress)
    return LabHost(name, "", SSH_PORT, USER, recipe.state / KEY, container)


def _virtual(podman: Podman, recipe: Recipe, name: str, progress: Progress) -> LabHost:  # noqa: ARG001
    guest = virtual.start(recipe, name, progress)
    return LabHost(name, vm.ADDRESS, guest.port, USER, recipe.state / KEY, guest=guest)


def _reachable(podman: Podman, host: LabHost, shape: Shape) -> LabHost:
    """The host with its address; a container is waited for and finished."""
    if host.guest:
        return host
    finish(podman, host.container, shape)
    return replace(host, address=address_of(podman, host.container))


def _names(hosts: Sequence[str] | None, count: int) -> list[str]:
    names = list(hosts) if hosts is not None else [f"gpu{n:02}" for n in range(1, count + 1)]
    if not names or len(set(names)) != len(names):
        raise InputError("a lab needs hosts with different names", got=", ".join(names))
    return names


def _labels(state: Path, cached: Path, *, keep: bool, owner_pid: int | None) -> dict[str, str]:
    """What all containers of a lab carry, so that it is found again and removed."""
    return {
        "state": str(state),
        "keep": "true" if keep else "false",
        "owner": owner(owner_pid),
        "cache-user": cache.identity(cached),
    }


def _refuse_if_up(podman: Podman, cached: Path, name: str, state: Path) -> None:
    """Raises InputError where this lab is up from this place."""
    for label in existing.find(podman, cached, lab=name, state=str(state), host="").labels():
        raise InputError(
            f"the lab {name} is up already",
            where=str(state),
            got=label["host"],
            hint=f"take it down first: provision lab down {name}",
        )


def down(name: str, *, state_dir: Path | None = None, progress: Progress = silent) -> bool:
    """Remove the lab's hosts and its state; False if there was none.

    Where several labs have the name, `state_dir` must say which.
    """
    podman, cached = connect(), cache_directory()
    labels = {"lab": name} | ({"state": str(state_dir.resolve())} if state_dir else {})
    hosts = existing.find(podman, cached, **labels)
    places = sorted({label["state"] for label in hosts.labels()})
    if len(places) > 1:
        raise InputError(
            f"there are {len(places)} labs named {name}",
            got=", ".join(places),
            hint="say which by its state directory",
        )
    existing.remove(podman, hosts, cached, progress)
    return bool(hosts)


def status(name: str | None = None) -> list[LabStatus]:
    """The labs of this machine (with `name`, those of that name), sorted by name."""
    podman = connect()
    runs: dict[str, list[existing.Host]] = {}
    for host in existing.find(podman, cache_directory(), lab=name or "").each(podman):
        runs.setdefault(host.labels["run"], []).append(host)
    labs = []
    for run, hosts in runs.items():
        labels = hosts[0].labels
        hosts.sort(key=lambda host: host.name)
        labs.append(
            LabStatus(
                labels["lab"],
                run,
                Path(labels["state"]),
                labels["keep"] == "true",
                is_alive(labels["owner"]),
                {host.name: host.address for host in hosts},
                {host.name: host.machine for host in hosts},
            )
        )
    return sorted(labs, key=lambda lab: (lab.name, lab.run))


def sweep(*, podman: Podman | None = None, progress: Progress = silent) -> list[str]:
    """Remove the labs of killed runs; returns their names.

    A lab is left over when the process that created it has ended, and it was not to be kept.
    """
    podman, cached = podman or connect(), cache_directory()
    dead = existing.find(podman, cached, lab="").leftovers()
    existing.remove(podman, dead, cached, progress)
    vm.end_orphans(cached)
    disk.sweep(podman, cached)
    return sorted({label["lab"] for label in dead.labels()})


def _make_state(state: Path, name: str) -> str:
    """Creates the state directory with the lab's key pair; returns the public key."""
    if state.exists():
        marker = state / "lab"
        if not marker.exists() and any(state.iterdir()):
            raise InputError(
                "this directory holds something other than a lab's state", where=str(state)
            )
        shutil.rmtree(state)
    state.mkdir(parents=True, mode=0o700)
    (state / "lab").write_text(name + "\n", "utf-8")
    key = state / KEY
    keygen(key, f"lab {name}")
    return key.with_suffix(".pub").read_text("ascii")


def _write_known_hosts(lab: Lab) -> None:
    lines = []
    for host in lab.hosts:
        public = lab.state_dir / "hosts" / host.name / "ssh_host_ed25519_key.pub"
        kind, key = public.read_text("ascii").split()[:2]
        place = host.address if host.port == SSH_PORT else f"[{host.address}]:{host.port}"
        lines.append(f"{place} {kind} {key}\n")
    lab.known_hosts.write_text("".join(lines), "ascii")
