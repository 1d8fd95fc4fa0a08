"""A node's part of the cluster's configuration: what this host has to give to jobs."""

from __future__ import annotations

import os
import re

from ...host import platform
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context

CPU = "/sys/devices/system/cpu"
CARDS = "/proc/driver/nvidia/gpus"
# MiB; the kernel's own share of memory differs a little from boot to boot.
STEP = 256


def part(context: Context, host: dict[str, Any], reserve: int) -> dict[str, Any]:
    """{name, hostname, address, sockets, cores, threads, memory, gpus: [{type, file}]}.

    host: {name, address} of the inventory. reserve: MiB that no job gets. gpus: all of the host's.
    """
    sockets, cores, threads = _processors(context)
    return {
        "name": host["name"],
        "hostname": hostname(context),
        "address": host["address"],
        "sockets": sockets,
        "cores": cores,
        "threads": threads,
        "memory": max(0, (_memory(context) - reserve) // STEP * STEP),
        "gpus": gpus(context),
    }


def hostname(context: Context) -> str:
    """The host's own short name, as slurmctld and slurmd ask for it."""
    if context.root == "/":
        return os.uname()[1].partition(".")[0]
    return (context.read("/etc/hostname") or "").strip().partition(".")[0]


def reserved(context: Context, reserve: int) -> str | None:
    """Why a reserve is too large for this host; None where jobs get some memory."""
    total = _memory(context)
    if not total or total - reserve >= STEP:
        return None
    return f"slurm_memory_reserve: {reserve} MiB of this host's {total} leave jobs none"


def _memory(context: Context) -> int:
    """MiB of memory."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", context.read("/proc/meminfo") or "", re.M)
    return int(match.group(1)) // 1024 if match else 0


def _processors(context: Context) -> tuple[int, int, int]:
    """(sockets, cores of each, threads of each core) of the processors that are online."""
    seen = []
    for name in context.listdir(CPU):
        if re.fullmatch(r"cpu\d+", name):
            base = f"{CPU}/{name}/topology/"
            package = context.read(base + "physical_package_id")
            core = context.read(base + "core_id")
            if package is not None and core is not None:  # else it is offline
                seen.append((package.strip(), core.strip()))
    packages, cores, count = {thread[0] for thread in seen}, set(seen), len(seen)
    even = packages and len(cores) % len(packages) == 0 and count % len(cores) == 0
    if not even:
        # Cores of several kinds: each thread counts as a core.
        text = context.read("/proc/cpuinfo") or ""
        return 1, count or max(1, len(re.findall(r"^processor\s*:", text, re.M))), 1
    return len(packages), len(cores) // len(packages), count // len(cores)


def type_of(model: str) -> str:
    """ "NVIDIA A100-SXM4-40GB" as a type of Slurm's: a100_sxm4_40gb."""
    word = re.sub(r"[^a-z0-9]+", "_", model.lower()).strip("_")
    return re.sub(r"^nvidia_", "", word) or "gpu"


def gpus(context: Context) -> list[dict[str, str]]:
    """[{type, file}] of the host's GPUs, in the order of their device files, there or not."""
    cards = []
    for address in context.listdir(CARDS):
        text = context.read(f"{CARDS}/{address}/information") or ""
        model = re.search(r"^Model:\s+(.+?)\s*$", text, re.M)
        minor = re.search(r"^Device Minor:\s+(\d+)", text, re.M)
        if model and minor:
            cards.append((int(minor.group(1)), type_of(model.group(1))))
    if not cards and platform.simulated_gpu(context):
        # Nothing pretends to be a loaded driver; the files are the lab's.
        simulated = platform.os_release(context.read(platform.SIMULATED) or "")
        kind = type_of(simulated.get("name", ""))
        cards = [(gpu["index"], kind) for gpu in platform.gpus(context)]
    return [{"type": kind, "file": f"/dev/nvidia{minor}"} for minor, kind in sorted(cards)]


def gres(gpus: Sequence[dict[str, str]]) -> str:
    """ "gpu:tesla_t4:2", as a node's Gres says it; "" without GPUs."""
    kinds = [gpu["type"] for gpu in gpus]
    return ",".join(f"gpu:{kind}:{kinds.count(kind)}" for kind in sorted(set(kinds)))


def closed(part: dict[str, Any]) -> list[str]:
    """The device files that no job of this node may open."""
    files: list[str] = part.get("closed") or []
    return files


def words(part: dict[str, Any]) -> str:
    """A part for people."""
    cpus = part["sockets"] * part["cores"] * part["threads"]
    return "{0} CPUs, {1} MiB, {2}".format(cpus, part["memory"], gres(part["gpus"]) or "no GPU")


def differs(noted: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether the host is no longer what its part says. A little memory more or less is nothing."""
    rough = dict(now, memory=noted.get("memory"))
    return rough != noted or abs(now["memory"] - noted["memory"]) > 2 * STEP
