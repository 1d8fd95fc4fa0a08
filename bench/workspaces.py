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
    """A host with docker, and whoever is said to have a workspace there."""

    @functools.cached_property
    def image(self) -> dict[str, str]:
        """The image's words in the inventory; the file is hashed once."""
        path = workspace_image.pack()
        return {
            "gpu_workspace_image_file": str(path),
            "gpu_workspace_image_sha256": workspace_image.sha256(path),
        }

    def people(self, count: int, **first: object) -> None:
        """The inventory with so many people; `first` are further words of the first."""
        people: list[dict[str, Any]] = [
            {"name": f"person{number}", "gpus": "none", "port": 8800 + number, "memory": "512m"}
            for number in range(1, count + 1)
        ]
        if first:
            people[0].update(first)
        folder = self.path / "lab" / "group_vars" / "gpu_hosts"
        folder.mkdir(parents=True, exist_ok=True)
        said = {"gpu_workspaces": people, **self.image}
        (folder / "workspaces.yml").write_text(json.dumps(said), "utf-8")

    def applied(self) -> float:
        """Seconds of a whole `provision apply`, in which each Jupyter was asked."""
        begun = time.perf_counter()
        done = self.provision("apply", "-i", "lab")
        taken = time.perf_counter() - begun
        if done.returncode or self.report["hosts"][HOST]["status"] not in ("proven", "converged"):
            raise SystemExit(f"the workspaces were not proven:\n{done.stdout[-3000:]}")
        return round(taken, 2)

    def containers(self) -> set[str]:
        """What runs, by its identity."""
        told = self.root("docker", "ps", "--no-trunc", "--quiet", "--filter", "label=gpu-workspace")
        return set(told.split())


def one_round(host: Host, counts: Sequence[int]) -> dict[str, float]:
    """From nobody to one person, from nobody to ten, and one of the ten changed."""
    found: dict[str, float] = {}
    for count in counts:
        host.people(0)
        host.applied()
        host.people(count)
        found[str(count)] = host.applied()
    host.people(MANY)
    host.applied()
    before = host.containers()
    host.people(MANY, memory="600m")
    found["changed"] = host.applied()
    found["touched"] = len(before - host.containers())
    return found


def measure(folder: Path, *, rounds: int, say: Say) -> dict[str, Any]:
    """The rounds, each second one with ten people before one."""
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
