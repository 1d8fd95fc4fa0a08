"""Part (g): ten people's workspaces on a host, against one's."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.ground import workspace_image
from tests.hosts.docked import HOST, Docked, docked

Say = Callable[[str], None]

MANY = 10


class Host(Docked):
    """A host with docker, whose inventory names people's workspaces."""

    @functools.cached_property
    def image(self) -> dict[str, str]:
        """The inventory's variables of the image; hashes the file once."""
        path = workspace_image.pack()
        return {
            "gpu_workspace_image_file": str(path),
            "gpu_workspace_image_sha256": workspace_image.sha256(path),
        }

    def people(self, count: int, **first: object) -> None:
        """Writes the inventory with `count` people; `first` are further options of the first."""
        people: list[dict[str, Any]] = [
            {"name": f"person{number}", "gpus": "none", "port": 8800 + number, "memory": "512m"}
            for number in range(1, count + 1)
        ]
        if first:
            people[0].update(first)
        folder = self.path / "lab" / "group_vars" / "gpu_hosts"
        folder.mkdir(parents=True, exist_ok=True)
        variables = {"gpu_workspaces": people, **self.image}
        (folder / "workspaces.yml").write_text(json.dumps(variables), "utf-8")

    def applied(self) -> float:
        """Runs `provision apply`, which asks each Jupyter, and returns its seconds."""
        begun = time.perf_counter()
        done = self.provision("apply", "-i", "lab")
        taken = time.perf_counter() - begun
        if done.returncode or self.report["hosts"][HOST]["status"] not in ("proven", "converged"):
            raise SystemExit(f"the workspaces were not proven:\n{done.stdout[-3000:]}")
        return round(taken, 2)

    def containers(self) -> set[str]:
        """The ids of the running workspaces' containers."""
        listing = self.root(
            "docker", "ps", "--no-trunc", "--quiet", "--filter", "label=gpu-workspace"
        )
        return set(listing.split())


def one_round(host: Host, counts: Sequence[int]) -> dict[str, float]:
    """Measures from nobody to each count of people, and a change of one of ten."""
    figures: dict[str, float] = {}
    for count in counts:
        host.people(0)
        host.applied()
        host.people(count)
        figures[str(count)] = host.applied()
    host.people(MANY)
    host.applied()
    before = host.containers()
    host.people(MANY, memory="600m")
    figures["changed"] = host.applied()
    figures["touched"] = len(before - host.containers())
    return figures


def measure(folder: Path, *, rounds: int, say: Say) -> dict[str, Any]:
    """Measures all rounds; every second one has ten people before one."""
    runs = []
    with docked(folder, "bench-workspaces", Host) as host:
        host.people(1)
        say("a bare host with docker to one person's workspace: the image is there from then on")
        host.applied()
        for number in range(rounds):
            order = (1, MANY) if number % 2 == 0 else (MANY, 1)
            runs.append(one_round(host, order))
            say(f"workspaces: {runs[-1]}")
    return {"runs": runs}
