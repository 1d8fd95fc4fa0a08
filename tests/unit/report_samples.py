"""Reports to render: hosts recorded from real runs on local hosts, alone and as a lab of any size.

`report_hosts.json` has one host of each kind as the callback wrote it (only names, addresses and
keys are neutral). A lab is made of them by arithmetic, so that its bytes never change.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "report_hosts.json").read_text(encoding="utf-8")
)
# Which hosts of a large lab are not like the others: (every so many, the kind).
ODD = ((97, "failed_check"), (61, "unreachable"), (89, "failed_task"), (71, "blocked"))
GPUS = (("Tesla T4", "15360 MiB"), ("NVIDIA A100-SXM4-40GB", "40960 MiB"))


def host(kind: str) -> dict[str, Any]:
    """A copy of a recorded host."""
    return copy.deepcopy(RECORDED[kind])


def report(mode: str = "run", seconds: float = 776.3, **hosts: dict[str, Any]) -> dict[str, Any]:
    """A report of these hosts."""
    return {
        "format": 1,
        "provision": "0.1.0",
        "lock_digest": "sha256:7385b4ce03f10b1b93246f7163bd40556db3d7a82eb526ab39fbca6c4f6c6336",
        "mode": mode,
        "started": "2026-11-21T14:14:19.801Z",
        "finished": "2026-11-21T14:27:16.098Z",
        "seconds": seconds,
        "hosts": hosts,
        "proven": {},
    }


def lab(count: int, *, installed: int | None = None) -> dict[str, Any]:
    """A lab: most hosts are proven, some odd; the first `installed` of them were bare before."""
    bare = count // 3 if installed is None else installed
    hosts = {}
    for number in range(1, count + 1):
        odd = next((kind for every, kind in ODD if number % every == 7 % every), None)
        hosts[f"gpu{number:03d}"] = _numbered(host(odd or _ordinary(number, bare)), number, odd)
    made = report(**hosts)
    made["proven"] = {
        name: {"time": one["last_proven"], "stack": one["stack"]}
        for name, one in hosts.items()
        if one["last_proven"]
    } | {"gpu-spare": {"time": "2026-10-02T08:11:40.000Z", "stack": "debian11-tensorflow2.9.3"}}
    return made


def _ordinary(number: int, bare: int) -> str:
    return "installed" if number <= bare else "proven"


def _numbered(one: dict[str, Any], number: int, odd: str | None) -> dict[str, Any]:
    """What differs from host to host: GPUs' keys, durations, addresses."""
    name, memory = GPUS[number % 5 == 0]
    for place, device in enumerate(one["found"].get("gpu_devices") or []):
        uuid = f"GPU-{number:08x}-0efb-09ca-dc97-{place:012x}"
        device.update(name=name, memory=memory, uuid=uuid)
    for place, part in enumerate(one["components"].values()):
        part["seconds"] = round(part["seconds"] * (1 + (number * 7 + place * 3) % 23 / 20), 3)
    if odd == "unreachable":
        message = one["failure"]["message"]
        one["failure"]["message"] = message.replace("192.0.2.9", f"192.0.2.{number % 250}")
    return one
