"""Part (h): six bare hosts at once, and what a fleet fetches from outside through its cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from bench import cold, rerun, state
from provision import locallab
from provision.locallab.machine import Podman
from provision.roles.artifact_cache import ArtifactCacheOptions
from tests.hosts import cached_lab

Say = Callable[[str], None]

HOSTS = 6
OUTSIDE = (1, 3, 6)
# Bytes of disk that a bare host takes at most on its way to a proven one, archives included.
DISK_EACH = 9 << 30


def require_disk(podman: Podman, count: int) -> None:
    """SystemExit where the disk of the containers has no room for so many hosts."""
    store = Path(podman.call("info", "--format", "{{.Store.GraphRoot}}").strip())
    free = shutil.disk_usage(store).free
    if free < count * DISK_EACH:
        raise SystemExit(
            f"{count} hosts take {count * DISK_EACH >> 30} GiB below {store}, where "
            f"{free >> 30} GiB are free"
        )


def names(count: int) -> list[str]:
    return [f"host{number}" for number in range(1, count + 1)]


def _cpu(podman: Podman, lab: locallab.Lab) -> float:
    return sum(rerun.host_cpu(podman, host.container) for host in lab.hosts)


def six(ground: cold.Ground, say: Say) -> tuple[dict[str, float], dict[str, Any]]:
    """(the figures of one run that brings six bare hosts, the converged state of one of them)."""
    say(f"{HOSTS} bare hosts")
    lab = locallab.up("bench-six", state_dir=ground.folder / "six", hosts=names(HOSTS))
    try:
        used = _cpu(ground.podman, lab)
        figures = cold.ours(ground, lab)
        cpu = _cpu(ground.podman, lab) - used
        converged = state.read(ground.podman, lab.hosts[0].container, ground.project)
    finally:
        lab.down()
    return {"ours": figures["proven"], "cpu": round(cpu, 1)}, converged


def one_by_hand(ground: cold.Ground, converged: dict[str, Any], say: Say) -> dict[str, float]:
    """What one host takes by hand: seconds alone, and of the processors."""
    lab = ground.host("hand", say)
    try:
        used = _cpu(ground.podman, lab)
        figures = cold.by_hand(ground, lab, converged)
        return {"wall": figures["proven"], "cpu": round(_cpu(ground.podman, lab) - used, 1)}
    finally:
        lab.down()


def measure(ground: cold.Ground, *, rounds: int, say: Say) -> dict[str, Any]:
    """Six of ours at once, and one by hand, in turn.

    `least`: what six by hand take of all processors, were none idle for a moment.
    """
    require_disk(ground.podman, HOSTS)
    cores = len(os.sched_getaffinity(0))
    runs = []
    for _ in range(rounds):
        ours, converged = six(ground, say)
        hand = one_by_hand(ground, converged, say)
        every = HOSTS * hand["cpu"]
        runs.append(
            {
                **ours,
                "hand": hand["wall"],
                "hand_cpu": round(every, 1),
                "least": round(every / cores, 1),
            }
        )
        say(f"{HOSTS} at once: {runs[-1]}")
    return {"cores": cores, "runs": runs}


def outside(
    folder: Path, podman: Podman, *, counts: Sequence[int] = OUTSIDE, say: Say
) -> dict[str, Any]:
    """Bytes that an empty cache fetches from outside for so many bare hosts at once, by count."""
    require_disk(podman, max(counts) + 1)
    fetched: dict[str, int] = {}
    seconds: dict[str, float] = {}
    pages: dict[str, Any] = {}
    for count in counts:
        say(f"an empty cache and {count} bare hosts")
        place = folder / f"outside{count}"
        place.mkdir(parents=True)
        lab = locallab.up(
            f"bench-outside{count}",
            state_dir=place / ".lab",
            hosts=[cached_lab.CACHE, *names(count)],
            with_cache=False,
        )
        try:
            project = place / "project"
            cached_lab.write_inventory(project, lab)
            for command in (["lock", "--project", str(project)], ["render", str(project)]):
                _provision(*command)
            seconds[str(count)] = cold.playbook(project, place)["proven"]
            fetched[str(count)] = cached_lab.outside(lab)
            files = (project / "stacks").glob("*requirements.txt")
            pages = pages or index_pages("".join(file.read_text() for file in files))
        finally:
            lab.down()
            shutil.rmtree(place, ignore_errors=True)
        say(f"{count} hosts: {fetched[str(count)]:,} bytes from outside")
    return {"bytes": fetched, "seconds": seconds, "index": pages}


def index_pages(requirements: str) -> dict[str, Any]:
    """{projects, bytes, validated} of the index's pages that pip reads for these requirements.

    validated: whether the index lets a page be asked for again without its content.
    """
    names = re.findall(r"^([A-Za-z0-9_.-]+)==", requirements, re.M)
    projects = sorted({canonicalize_name(name) for name in names})
    index = ArtifactCacheOptions().artifact_cache_index_url
    size, validated = 0, True
    for project in projects:
        page = urllib.request.Request(  # noqa: S310 the option's own
            f"{index}/{project}/", headers={"Accept": "text/html"}
        )
        with urllib.request.urlopen(page, timeout=60) as answer:  # noqa: S310
            size += len(answer.read())
            validated &= bool(answer.headers["ETag"] or answer.headers["Last-Modified"])
    return {"projects": len(projects), "bytes": size, "validated": validated}


def _provision(*arguments: str) -> None:
    done = subprocess.run(
        [str(cold.BIN / "provision"), *arguments], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"the project could not be made:\n{done.stderr[-2000:]}")
