"""What slurmctld says of its nodes."""

from __future__ import annotations

import os
from typing import Any

from .parts import part
from .system import run


@part
def of_slurm(_row: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """{slurm: {ping, nodes, hostname, devices}} of a host that belongs to a cluster."""
    if options.get("slurm_state") != "present":
        return {}
    devices = [name for name in os.listdir("/dev") if name[:6] == "nvidia" and name[6:].isdigit()]
    return {
        "slurm": {
            "ping": run(["scontrol", "ping"], timeout=20),
            "nodes": run(["scontrol", "-o", "show", "nodes"], timeout=20, limit=0),
            "hostname": os.uname().nodename.partition(".")[0],
            "devices": len(devices),
        }
    }
