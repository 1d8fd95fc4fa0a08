"""The hosts that exist on this machine: finding them by their labels, and removing them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.locallab import cache, vm
from provision.locallab.host import address_of
from provision.locallab.machine import Podman, Progress, locked, silent
from provision.locallab.owner import is_alive

PREFIX = "provision."


@dataclass(frozen=True)
class Host:
    """One host: its labels, its address ('' when it does not run) and what it is."""

    labels: Mapping[str, str]
    address: str
    machine: str

    @property
    def name(self) -> str:
        return self.labels["host"]


@dataclass(frozen=True)
class Hosts:
    """Hosts of one or more labs: podman's entries of containers, and virtual machines."""

    containers: Sequence[Mapping[str, Any]]
    guests: Sequence[vm.Guest] = ()

    def __bool__(self) -> bool:
        return bool(self.containers or self.guests)

    def labels(self) -> list[Mapping[str, str]]:
        """The labels of each, without the prefix that containers have."""
        return [
            *(_labels(entry) for entry in self.containers),
            *(guest.labels for guest in self.guests),
        ]

    def each(self, podman: Podman) -> Iterator[Host]:
        """Each host with its address, asked for now."""
        for entry in self.containers:
            running = entry["State"] == "running"
            address = address_of(podman, entry["Names"][0]) if running else ""
            yield Host(_labels(entry), address, "container")
        for guest in self.guests:
            address = f"{vm.ADDRESS}:{guest.port}" if guest.running else ""
            yield Host(guest.labels, address, guest.described)

    def leftovers(self) -> Hosts:
        """Those whose owner has ended and that were not to be kept."""
        return Hosts(
            [entry for entry in self.containers if _is_left(_labels(entry))],
            [guest for guest in self.guests if _is_left(guest.labels)],
        )


def _labels(entry: Mapping[str, Any]) -> dict[str, str]:
    return {name.removeprefix(PREFIX): value for name, value in entry["Labels"].items()}


def _is_left(labels: Mapping[str, str]) -> bool:
    return labels.get("keep") != "true" and not is_alive(labels.get("owner", ""))


def find(podman: Podman, cached: Path, **labels: str) -> Hosts:
    """The hosts with all these labels ('' = any value). Without podman there are no containers."""
    containers = podman.containers(**labels) if podman.installed else []
    return Hosts(containers, vm.guests(cached, **labels))


def remove(podman: Podman, hosts: Hosts, cached: Path, progress: Progress = silent) -> None:
    """Remove hosts, state that no other host uses, and a download cache that none uses."""
    names = [entry["Names"][0] for entry in hosts.containers]
    if hosts:
        progress("Removing " + ", ".join([*names, *(guest.folder.name for guest in hosts.guests)]))
    if names:
        podman.call("rm", "--force", "--volumes", "--time=0", *names)
    for guest in hosts.guests:
        guest.remove()
    for state in {label.get("state", "") for label in hosts.labels()}:
        # Only a lab's directory that no other host uses.
        if state and (Path(state) / "lab").exists() and not find(podman, cached, state=state):
            shutil.rmtree(state, ignore_errors=True)
    if podman.installed:
        with locked(cached / "labs.lock"):
            user = {"cache-user": cache.identity(cached)}
            if not find(podman, cached, **user):
                cache.drop(podman, cached)
