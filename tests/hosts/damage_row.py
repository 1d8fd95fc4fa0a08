"""One row of the damage catalogue, and the paths that several rows name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Rows whose repair has not been run to its end on a host yet; docs/damage.md says so.
UNTRIED_BATCHES: frozenset[str] = frozenset()
UNTRIED_ROWS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """One damage. `names` are the plan's items for it, exactly; `touches` what a repair may touch.

    `touches`: globs of paths, or `package:NAME` for the files of a package and dpkg's record of it.
    `undo` is what a person does where no run may: a run then refuses or says what is left.
    """

    id: str
    component: str
    title: str
    damage: str
    names: tuple[str, ...]
    batch: str
    seen_by: Literal["look", "deep"] = "look"
    touches: tuple[str, ...] = ()
    undo: str = ""

    @property
    def tried(self) -> bool:
        """Whether the catalogue's test of this row has passed on a host."""
        return self.batch not in UNTRIED_BATCHES and self.id not in UNTRIED_ROWS

    @property
    def items(self) -> set[tuple[str, str]]:
        """(component, item) of every change that the plan must show, and no other."""
        return {
            (component, item)
            for component, _, item in (
                name.partition(": ") if ": " in name else (self.component, "", name)
                for name in self.names
            )
        }


LIB = "/usr/lib/x86_64-linux-gnu"
PROFILE = "/etc/profile.d/provision-gpu.sh"
UNITS = "/etc/provision/gpu.env"
MANAGER = "/etc/systemd/system.conf.d/50-provision-gpu.conf"
CUDNN_LOADER = "/etc/ld.so.conf.d/00-provision-cudnn.conf"
CUDA_PINS = "/etc/apt/preferences.d/provision-cuda"
DRIVER_PINS = "/etc/apt/preferences.d/provision-nvidia-driver"
UPGRADES = "/etc/apt/apt.conf.d/51provision-gpu-stack"
SOURCES = "/etc/apt/sources.list.d/provision-debian-nonfree.sources"
BLACKLIST = "/etc/modprobe.d/provision-nouveau.conf"
DROP_IN = "/etc/systemd/system/nvidia-persistenced.service.d/provision-gpu.conf"
# What building the module anew writes; /boot is not compared.
MODULES = ("/lib/modules/*", "/usr/lib/modules/*", "/var/lib/dkms/*", "/etc/alternatives/*")
CUDNN_TREE = ("/opt/nvidia/cudnn/*",)
VENV_TREE = ("/opt/tensorflow/*",)
SLURM, OWN_SLURM = "/etc/slurm", "/etc/provision-slurm"
SLURMD_DROP_IN = "/etc/systemd/system/slurmd.service.d/provision.conf"
SLURM_PROGRAM = "/usr/local/lib/gpu-slurm/program"
# What a run notes of the cluster, and what it keeps of another's edits.
SLURM_NOTED = (f"{OWN_SLURM}/slurm.json", f"{OWN_SLURM}/lock", f"{SLURM}/*.conf.save")


def packages(*names: str) -> tuple[str, ...]:
    return tuple(f"package:{name}" for name in names)
