"""A recorded host that is a node of Slurm's, gpu02 of the controller gpu01; with two GPUs."""

from __future__ import annotations

import json
from typing import Any

from converged_host import Host
from gpu_stack.components.slurm import current, hardware, node, node_files, paths, records
from gpu_stack.components.slurm.program.node import SETTINGS
from gpu_stack.host.context import Context

from provision.render import shipped_files
from provision.roles import all_options
from tests.collection import ROOT

DEFAULTS = {
    name: option.default for name, option in all_options().items() if name.startswith("slurm_")
}
OPTIONS: dict[str, Any] = {
    **DEFAULTS,
    "slurm_state": "present",
    "slurm_controller": "gpu01",
    "slurm_host": {"name": "gpu01", "address": "10.0.0.1", "controller_address": "10.0.0.1"},
}
NODE = {**OPTIONS, "slurm_host": {"name": "gpu02", "address": "10.0.0.2",
                                  "controller_address": "10.0.0.1"}}  # fmt: skip
PART: dict[str, Any] = {
    "name": "gpu02", "hostname": "box", "address": "10.0.0.2", "sockets": 2, "cores": 4,
    "threads": 2, "memory": 62208,
    "gpus": [{"type": "tesla_t4", "file": "/dev/nvidia0"},
             {"type": "tesla_t4", "file": "/dev/nvidia1"}],
}  # fmt: skip
INFORMATION = "Model: \t\t {0}\nIRQ:   \t\t 30\nDevice Minor: \t {1}\n"
SHOWN = (
    "NodeName=gpu02 Arch=x86_64 CoresPerSocket=4  CPUAlloc=0 CPUTot=16 CPULoad=1.0 "
    "Gres=gpu:tesla_t4:2 NodeAddr=10.0.0.2 NodeHostName=box Version=22.05.8 RealMemory=62208 "
    "State=IDLE ThreadsPerCore=2 Partitions=gpu,short  BootTime=2026-11-26T16:41:54"
)


def bring(host: Host) -> None:
    """Makes it a node as PART says, with all that a run brings."""
    host.write("/etc/hostname", "box.example.org\n")
    host.write("/proc/meminfo", "MemTotal:       65959936 kB\n")
    for cpu in range(16):
        base = f"/sys/devices/system/cpu/cpu{cpu}/topology/"
        host.write(base + "physical_package_id", f"{cpu % 2}\n")
        host.write(base + "core_id", f"{cpu // 2 % 4}\n")
    for minor in range(2):
        host.write(f"{hardware.CARDS}/0000:0{minor}:00.0/information",
                   INFORMATION.format("Tesla T4", minor))  # fmt: skip
        host.write(f"/dev/nvidia{minor}", "")
    for path in paths.PROGRAMS.values():
        host.write(path, "")
    for unit in ("munge", "slurmd", "slurmctld", "slurmdbd", "mariadb"):
        host.write(f"{current.WANTS}/{unit}.service", "")
    host.write(paths.MUNGE_KEY, b"k" * 128)
    host.path(paths.MUNGE_KEY).chmod(0o400)
    noted(host, part=PART)
    context = Context(root=str(host.root), options=NODE)
    for path, text in node.files(context, NODE, PART).items():
        host.write(path, text)
    for place, mode, path in shipped_files.SLURM.files(ROOT):
        host.write(place, (ROOT / path).read_bytes())
        host.path(place).chmod(mode)


def noted(there: Host, **values: Any) -> None:
    record = {"key": records.digest(b"k" * 128), "cluster": "gpu", **values}
    there.write(paths.NOTED, json.dumps(record))
    if values.get("part"):
        there.write(SETTINGS, node_files.settings(values["part"]))
