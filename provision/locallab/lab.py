"""Labs: groups of hosts in containers, reached over real SSH with their own keys.

Every container carries labels (lab, run, state directory, owner), so that `down` removes only its
own, two runs on one machine never collide, and `sweep` finds the containers of a killed run without
a record that could be lost with it.
"""

from __future__ import annotations

import shlex
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from provision.errors import InputError
from provision.locallab import cache, gpu, image
from provision.locallab.host import (
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
    require,
    silent,
)
from provision.locallab.owner import is_alive, owner


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
                        "ansible_user": host.user,
                        "ansible_ssh_private_key_file": str(host.key_file),
                    }
                    for host in self.hosts
                },
                "vars": {"ansible_ssh_common_args": shlex.join(self.ssh_arguments())},
            }
        }

    def down(self) -> None:
        """Remove this lab's containers and its state."""
        _remove(self.podman, self.podman.containers(run=self.run), cache_directory())


@dataclass(frozen=True)
class LabStatus:
    """A lab, by its containers' labels. `hosts` is {name: address, '' when not running}."""

    name: str
    run: str
    state_dir: Path
    keep: bool
    owner_alive: bool
    hosts: dict[str, str]


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
    system = image.platform(shape.platform)
    gpu.model(shape.gpu_name)
    limits = measure()
    require(limits)
    podman = connect(limits)
    state = state_dir.resolve()
    _refuse_if_up(podman, name, state)
    cached = cache_directory()
    base = image.ensure(podman, shape.platform, cached, progress)
    # The download cache needs no identity.
    plain = system.over or shape.platform
    cache_base = image.ensure(podman, plain, cached, progress) if system.over else base
    libraries = gpu.compile_libraries(cached) if shape.with_gpu else {}
    key, public = _make_state(state, name)
    run = uuid.uuid4().hex[:10]
    labels = _labels(state, cached, keep=keep, owner_pid=owner_pid)
    recipe = Recipe(name, run, state, cached, base, public, libraries, labels, shape)
    try:
        with locked(cached / "labs.lock"):
            if with_cache:
                proxy = cache.ensure(podman, cached, cache_base, plain, progress)
                recipe = replace(recipe, proxy=proxy)
            containers = [create(podman, recipe, host, progress) for host in names]
        lab_hosts = []
        for host, container in zip(names, containers, strict=True):
            finish(podman, container, shape)
            where = address_of(podman, container)
            lab_hosts.append(LabHost(host, where, 22, USER, key, container))
        lab = Lab(name, run, state, lab_hosts, podman)
        _write_known_hosts(lab)
        for lab_host in lab_hosts:
            wait_for_ssh(lab_host)
            progress(f"{lab_host.name} answers at {lab_host.address}")
    except BaseException:
        _remove(podman, podman.containers(run=run), cached)
        shutil.rmtree(state, ignore_errors=True)
        raise
    return lab


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


def _refuse_if_up(podman: Podman, name: str, state: Path) -> None:
    """Raises InputError where this lab is up from this place."""
    for entry in podman.containers(lab=name, state=str(state), host=""):
        raise InputError(
            f"the lab {name} is up already",
            where=str(state),
            got=entry["Names"][0],
            hint=f"take it down first: provision lab down {name}",
        )


def down(name: str, *, state_dir: Path | None = None, progress: Progress = silent) -> bool:
    """Remove the lab's containers and its state; False if there was none.

    Where several labs have the name, `state_dir` must say which.
    """
    podman = connect()
    labels = {"lab": name} | ({"state": str(state_dir.resolve())} if state_dir else {})
    containers = podman.containers(**labels)
    places = sorted({entry["Labels"]["provision.state"] for entry in containers})
    if len(places) > 1:
        raise InputError(
            f"there are {len(places)} labs named {name}",
            got=", ".join(places),
            hint="say which by its state directory",
        )
    _remove(podman, containers, cache_directory(), progress)
    return bool(containers)


def status(name: str | None = None) -> list[LabStatus]:
    """The labs of this machine (with `name`, those of that name), sorted by name."""
    podman = connect()
    containers = podman.containers(lab=name or "")
    runs: dict[str, list[dict[str, Any]]] = {}
    for entry in containers:
        runs.setdefault(entry["Labels"]["provision.run"], []).append(entry)
    labs = []
    for run, entries in runs.items():
        labels = entries[0]["Labels"]
        hosts = {
            entry["Labels"]["provision.host"]: address_of(podman, entry["Names"][0])
            if entry["State"] == "running"
            else ""
            for entry in entries
        }
        labs.append(
            LabStatus(
                labels["provision.lab"],
                run,
                Path(labels["provision.state"]),
                labels["provision.keep"] == "true",
                is_alive(labels["provision.owner"]),
                dict(sorted(hosts.items())),
            )
        )
    return sorted(labs, key=lambda lab: (lab.name, lab.run))


def sweep(*, podman: Podman | None = None, progress: Progress = silent) -> list[str]:
    """Remove the labs of killed runs; returns their names.

    A lab is left over when the process that created it has ended, and it was not to be kept.
    """
    podman = podman or connect()
    dead = leftovers(podman.containers(lab=""))
    _remove(podman, dead, cache_directory(), progress)
    return sorted({entry["Labels"]["provision.lab"] for entry in dead})


def leftovers(containers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those containers whose owner has ended and that were not to be kept."""
    return [
        dict(entry)
        for entry in containers
        if entry["Labels"].get("provision.keep") != "true"
        and not is_alive(entry["Labels"].get("provision.owner", ""))
    ]


def _make_state(state: Path, name: str) -> tuple[Path, str]:
    """Creates the state directory with the lab's key pair; returns (key file, public key)."""
    if state.exists():
        marker = state / "lab"
        if not marker.exists() and any(state.iterdir()):
            raise InputError(
                "this directory holds something other than a lab's state", where=str(state)
            )
        shutil.rmtree(state)
    state.mkdir(parents=True, mode=0o700)
    (state / "lab").write_text(name + "\n", "utf-8")
    key = state / "id_ed25519"
    keygen(key, f"lab {name}")
    return key, key.with_suffix(".pub").read_text("ascii")


def _write_known_hosts(lab: Lab) -> None:
    lines = []
    for host in lab.hosts:
        public = lab.state_dir / "hosts" / host.name / "ssh_host_ed25519_key.pub"
        kind, key = public.read_text("ascii").split()[:2]
        lines.append(f"{host.address} {kind} {key}\n")
    lab.known_hosts.write_text("".join(lines), "ascii")


def _remove(
    podman: Podman,
    containers: Sequence[Mapping[str, Any]],
    cached: Path,
    progress: Progress = silent,
) -> None:
    """Remove containers, state that no other container uses, and an idle cache."""
    if containers:
        names = [entry["Names"][0] for entry in containers]
        progress("Removing " + ", ".join(names))
        podman.call("rm", "--force", "--volumes", "--time=0", *names)
    for state in {entry["Labels"].get("provision.state", "") for entry in containers}:
        # Only a lab's directory that no other container uses.
        if state and (Path(state) / "lab").exists() and not podman.containers(state=state):
            shutil.rmtree(state, ignore_errors=True)
    with locked(cached / "labs.lock"):
        cache.release(podman, cached)
