"""Reports to render: hosts recorded from real runs on local hosts, as a lab or fleet of any size.

`report_hosts.json` has one host of each kind as the callback wrote it (only names, addresses and
keys are neutral). Labs and fleets are made of them by arithmetic: their bytes never change.
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
        name: {"time": entry["last_proven"], "stack": entry["stack"]}
        for name, entry in hosts.items()
        if entry["last_proven"]
    } | {"gpu-spare": {"time": "2026-10-02T08:11:40.000Z", "stack": "debian11-tensorflow2.9.3"}}
    return made


def _ordinary(number: int, bare: int) -> str:
    return "installed" if number <= bare else "proven"


def _numbered(entry: dict[str, Any], number: int, odd: str | None) -> dict[str, Any]:
    """What differs from host to host: GPUs' keys, durations, addresses."""
    name, memory = GPUS[number % 5 == 0]
    for place, device in enumerate(entry["found"].get("gpu_devices") or []):
        uuid = f"GPU-{number:08x}-0efb-09ca-dc97-{place:012x}"
        device.update(name=name, memory=memory, uuid=uuid)
    for place, part in enumerate(entry["components"].values()):
        part["seconds"] = round(part["seconds"] * (1 + (number * 7 + place * 3) % 23 / 20), 3)
    if odd == "unreachable":
        message = entry["failure"]["message"]
        entry["failure"]["message"] = message.replace("192.0.2.9", f"192.0.2.{number % 250}")
    return entry


# A fleet: (group, platform, GPUs in a host), by racks of 40 hosts.
RACK = 40
RACKS = (("teaching", "debian11", 2), ("research", "debian11", 8), ("research", "ubuntu2204", 4))
KERNELS = {"debian11": "5.10.0-33-amd64", "ubuntu2204": "5.15.0-122-generic"}
UBUNTU = {
    "nvidia_driver": "535.183.01",
    "cuda": "12.2.2",
    "cudnn": "8.9.7.29",
    "tensorflow": "2.15.1",
    "python": "3.10",
}
# Which hosts of a fleet are not like the others.
FLEET_ODD = (*ODD, (23, "drift"), (43, "drift_driver"))
DRIVER = {
    "component": "nvidia_driver",
    "item": "libcuda1",
    "from": "470.199.02-1",
    "to": "470.256.02-2",
    "reason": "another version than the lock's",
    "reboot": True,
    "selected": True,
    "repair": None,
}


def fleet(count: int, *, ago: int = 0) -> dict[str, Any]:
    """The report of `provision verify` on a fleet, `ago` runs before the newest.

    Every host is checked, a tenth drifts or is bad; who it is moves slowly from run to run.
    """
    hosts = {}
    for number in range(1, count + 1):
        if ago and number > count - 2 * ago:
            continue  # fleets grow
        past = 0 if number % 3 else ago
        kinds = (kind for every, kind in FLEET_ODD if (number + past) % every == 7 % every)
        hosts[f"gpu{number:03d}"] = _of_fleet(number, next(kinds, None))
    made = report("verify", seconds=95.0 + ago, **hosts)
    day = 21 - ago
    made |= {
        "started": f"2026-11-{day:02d}T02:15:00.000Z",
        "finished": f"2026-11-{day:02d}T02:16:35.000Z",
    }
    return made


def _of_fleet(number: int, odd: str | None) -> dict[str, Any]:
    group, platform, gpus = RACKS[number // RACK % len(RACKS)]
    entry = host("drift" if odd == "drift_driver" else odd or "proven")
    if odd == "drift_driver":
        entry["changes"] = [copy.deepcopy(DRIVER)]
        entry["found"]["nvidia_driver"] = "470.199.02"
    _numbered(entry, number, odd)
    entry["groups"] = [group, "gpu_hosts", f"rack{number // RACK:02d}"]
    entry["simulated_gpu"] = entry["container"] = False
    if entry["platform"]:
        entry["platform"]["kernel"] = KERNELS[platform]
        if number % 111 == 5:
            entry["platform"]["kernel"] = "5.10.0-28-amd64"
        entry["gpus"] = [
            {**entry["gpus"][0], "index": place, "pci": f"0000:{0x3B + place:02x}:00.0"}
            for place in range(gpus)
        ]
    if entry["found"].get("gpu_devices"):
        first = entry["found"]["gpu_devices"][0]
        entry["found"]["gpu_devices"] = [
            {**first, "uuid": f"{first['uuid'][:-2]}{place:02d}", "pci": gpu["pci"]}
            for place, gpu in enumerate(entry["gpus"])
        ]
        entry["found"] |= {"gpus": gpus, "gpu_names": [first["name"]]}
        if odd is None:
            entry["found"]["tensorflow_gpus"] = gpus
    _checked(entry, number, gpus)
    if platform == "ubuntu2204" and odd != "drift_driver" and entry["platform"]:
        _as_ubuntu(entry)
    return entry


def _checked(entry: dict[str, Any], number: int, gpus: int) -> None:
    """What checks say that is of one host alone."""
    for check in entry["checks"]:
        detail = check["detail"]
        detail = detail.replace("2 x Tesla T4 (simulated GPU)", f"{gpus} x {GPUS[0][0]}")
        detail = detail.replace("2 GPUs", f"{gpus} GPUs").replace(
            "6.3 s", f"{5 + number % 40 / 10} s"
        )
        detail = detail.replace("14:26:30Z", f"14:{number % 60:02d}:30Z")
        check["detail"] = detail.replace("0.0015", f"0.00{10 + number % 20}")


def _as_ubuntu(entry: dict[str, Any]) -> None:
    entry["stack"] = "ubuntu2204-tensorflow2.15.1-cuda12.2.2-cudnn8.9.7.29-driver535.183.01"
    entry["platform"] |= {
        "distribution": "ubuntu",
        "release": "22.04",
        "pretty": "Ubuntu 22.04.5 LTS",
    }
    entry["found"] |= {key: UBUNTU[key] for key in UBUNTU if key in entry["found"]}
    entry["wanted"] = dict(UBUNTU)
