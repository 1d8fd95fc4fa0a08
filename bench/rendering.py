"""Part (c): `provision render` for many hosts, without what ansible-inventory itself takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PER_RACK = 40

# Runs `provision render` and prints at its end the CPU seconds and memory of it and its child.
PROGRAM = """\
import atexit, json, resource, sys
def tell():
    own = resource.getrusage(resource.RUSAGE_SELF)
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({
        "cpu": own.ru_utime + own.ru_stime, "rss_kib": own.ru_maxrss,
        "inventory_cpu": child.ru_utime + child.ru_stime, "inventory_rss_kib": child.ru_maxrss,
    }))
atexit.register(tell)
from provision.cli import main
main()
"""


def inventory(count: int) -> str:
    """hosts.yml of a big lab: racks of 40 hosts with five variables each, one of them ours."""
    racks = [range(start, min(start + PER_RACK, count)) for start in range(0, count, PER_RACK)]
    lines = ["all:", "  children:", "    gpu_hosts:", "      children:"]
    lines += [f"        rack{number:03}: {{}}" for number in range(len(racks))]
    for number, rack in enumerate(racks):
        lines += [f"    rack{number:03}:", "      hosts:"]
        for host in rack:
            place = f"{host // 65536}.{host // 256 % 256}.{host % 256}"
            lines += [
                f"        gpu{host:05}:",
                f"          ansible_host: 10.{place}",
                f"          bmc_address: 172.{place}",
                f"          asset_tag: A{host:07}",
                f"          owner_team: team{host % 17}",
                f"          nvidia_driver_persistence: {'true' if host % 2 else 'false'}",
            ]
    return "\n".join(lines) + "\n"


def project(folder: Path, count: int) -> Path:
    """Writes a project of `count` hosts, with the golden lab's wish and lock."""
    golden = ROOT / "tests" / "labs" / "golden"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(golden / "lab" / "group_vars", folder / "lab" / "group_vars")
    (folder / "lab" / "hosts.yml").write_text(inventory(count), encoding="utf-8")
    shutil.copy(golden / "lock.yml", folder / "lock.yml")
    return folder


def figures_of(program: str, *arguments: str, **environment: str) -> dict[str, float]:
    """Runs a PROGRAM with our command line and returns the figures that it prints at its end."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(
    folder: Path, *, counts: Sequence[int], rounds: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """CPU seconds and memory of each render, by the number of hosts."""
    runs: dict[str, list[dict[str, float]]] = {str(count): [] for count in counts}
    for count in counts:
        project(folder / str(count), count)
    for _ in range(rounds):
        for count in counts:
            run = figures_of(PROGRAM, "render", str(folder / str(count)))
            runs[str(count)].append(run)
            say(
                f"render of {count} hosts: {run['cpu']:.2f} s of CPU and "
                f"{run['rss_kib'] // 1024} MiB beside ansible-inventory's "
                f"{run['inventory_cpu']:.2f} s and {run['inventory_rss_kib'] // 1024} MiB"
            )
    return {"runs": runs}
