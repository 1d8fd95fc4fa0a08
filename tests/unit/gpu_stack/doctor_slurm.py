"""A node of Slurm's with one trouble each, for the doctor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import slurm_host
from gpu_stack.components.slurm import drain, paths
from gpu_stack.host.context import Result

AUTHENTICATION = "slurm_load_node error: Protocol authentication error\n"
DRAINED = "State=IDLE+DRAIN"


def node(host: Any) -> None:
    """Makes the doctor's patient a node that is well."""
    slurm_host.bring(host)
    host.options = slurm_host.NODE
    says(host, slurm_host.SHOWN)
    services(host)


def says(host: Any, text: str) -> None:
    """What `scontrol -o show node` prints."""
    failed = "error" in text
    host.answers["scontrol"] = Result(int(failed), "" if failed else text, text if failed else "")


def drained(host: Any, reason: str, state: str = DRAINED) -> None:
    says(host, slurm_host.SHOWN.replace("State=IDLE", state) + f" Reason={reason}")


def services(host: Any, munge: str = "active", slurmd: str = "active", journal: str = "") -> None:
    host.answers["is-active"] = Result(0, f"{munge}\n{slurmd}\n", "")
    host.answers["journalctl"] = Result(0, journal, "")


def munge_silent(host: Any) -> None:
    node(host)
    services(host, munge="failed", journal="munged: Error: Failed to check keyfile\n")
    says(host, AUTHENTICATION)


def munge_key(host: Any) -> None:
    node(host)
    host.path(paths.MUNGE_KEY).chmod(0o600)
    host.write(paths.MUNGE_KEY, b"x" * 128)
    host.path(paths.MUNGE_KEY).chmod(0o400)
    services(host, journal="error: Munge decode failed: Invalid credential\n")
    says(host, AUTHENTICATION)


def clocks_apart(host: Any) -> None:
    node(host)
    services(host, journal="error: Munge decode failed: Rewound credential\n")
    says(host, AUTHENTICATION)


def releases(host: Any) -> None:
    node(host)
    words = "error: Incompatible versions of client and server code\nfatal: no configuration\n"
    services(host, slurmd="failed", journal=words)
    drained(host, "Not responding [slurm@2026-11-26T20:53:27]", "State=DOWN*")


def controller_silent(host: Any) -> None:
    node(host)
    says(host, "slurm_load_node error: Unable to contact slurm controller (connect failure)\n")


def gpus(host: Any) -> None:
    node(host)
    host.remove("/dev/nvidia1")
    words = "gres/gpu count reported lower than configured (1 < 2)"
    drained(host, words + " [slurm@2026-11-26T20:53:27]")


def memory(host: Any) -> None:
    node(host)
    words = "Low RealMemory (reported:60000 < 100.00% of configured:62208)"
    drained(host, words + " [slurm@2026-11-26T20:53:27]")


def slurmd_stopped(host: Any) -> None:
    node(host)
    services(host, slurmd="failed", journal="slurmd: fatal: Unable to bind listen port\n")
    drained(host, "Not responding [slurm@2026-11-26T20:53:27]", "State=DOWN*")


def ours(host: Any) -> None:
    node(host)
    drained(host, "provision: health: the driver lists no GPU 1 [root@2026-11-26T20:53:27]")


def administrators(host: Any) -> None:
    node(host)
    drained(host, "a new disk [ada@2026-11-26T20:53:27]")


def of_a_killed_run(host: Any) -> None:
    """Drained by its own check, while a run that was cut off had the node for itself."""
    ours(host)
    host.write(drain.NOTE, "{}")


# {case: (what brings a host into it, a part of the evidence, a part of a command)}
BROKEN: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "munge-silent": (munge_silent, "munge.service does not run", "systemctl restart munge"),
    "munge-key": (munge_key, "munge.key is not the cluster's", "--limit gpu01 --tags slurm"),
    "clocks-apart": (clocks_apart, "Rewound credential", "timedatectl"),
    "slurm-releases": (releases, "Incompatible versions", "slurmd -V"),
    "slurmctld-silent": (controller_silent, "Unable to contact slurm controller", "scontrol ping"),
    "slurm-gpus": (gpus, "gives out /dev/nvidia1, which no", "nodename=gpu02 state=resume"),
    "slurm-memory": (memory, "reported:60000", "nodename=gpu02 state=resume"),
    "slurmd-stopped": (slurmd_stopped, "Unable to bind listen port", "restart slurmd"),
    "slurm-drained": (ours, "provision: health: the driver lists no GPU 1", "sinfo -R"),
    "slurm-away": (administrators, "idle+drain: a new disk, by ada", "nodename=gpu02 state=resume"),
}
