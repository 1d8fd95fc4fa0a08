"""The cluster's configuration, from the wish and the parts of its hosts. Pure."""

from __future__ import annotations

import re

from ...type_checking import TYPE_CHECKING
from . import hardware, node_files, paths

if TYPE_CHECKING:
    from typing import Any, Sequence

HEAD = "# Written by provision (role slurm) from its inventory; changes here are put back.\n"
DATABASE = "slurm_acct_db"


def files(noted: dict[str, Any], parts: Sequence[dict[str, Any]]) -> dict[str, str]:
    """{path: text} of what the controller reads and hands to the nodes.

    noted: {settings, host: {hostname, address}} of the controller.
    """
    return {
        paths.SLURM_CONF: slurm_conf(noted["settings"], noted["host"], parts),
        paths.GRES_CONF: gres_conf(parts),
        paths.CGROUP_CONF: cgroup_conf(),
    }


def decided(settings: dict[str, Any], host: dict[str, Any]) -> list[tuple[str, str]]:
    """What this program decides for every cluster, as [(name, value)] of slurm.conf."""
    lines = [
        ("ClusterName", settings["cluster"]),
        ("SlurmctldHost", "{0}({1})".format(host["hostname"], host["address"])),
        # The nodes get their configuration from slurmctld, also those that no run reaches.
        ("SlurmctldParameters", "enable_configless"),
        ("SlurmUser", "slurm"),
        ("AuthType", "auth/munge"),
        ("SlurmctldPort", str(paths.CONTROLLER_PORT)),
        ("SlurmdPort", str(paths.NODE_PORT)),
        ("StateSaveLocation", "/var/lib/slurm/slurmctld"),
        # slurmd is root's: nothing of it lies where the user slurm can write. It logs to journald.
        ("SlurmdSpoolDir", "/var/spool/slurmd"),
        ("SlurmctldLogFile", "/var/log/slurm/slurmctld.log"),
        ("SlurmctldPidFile", "/run/slurmctld.pid"),
        ("SlurmdPidFile", "/run/slurmd.pid"),
        # A job has its own GPUs, cores and memory, and no process of it is lost.
        ("ProctrackType", "proctrack/cgroup"),
        ("TaskPlugin", "task/affinity,task/cgroup"),
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_Core_Memory"),
        ("GresTypes", "gpu"),
        ("JobAcctGatherType", "jobacct_gather/cgroup"),
        ("EnforcePartLimits", "ALL"),
        # A host that was rebooted comes back by itself.
        ("ReturnToService", "2"),
        ("SlurmdTimeout", "300"),
        *node_files.LINES,
        ("HealthCheckInterval", str(settings["health_interval"])),
    ]
    if settings["accounting"]:
        lines += [
            ("AccountingStorageType", "accounting_storage/slurmdbd"),
            ("AccountingStorageHost", host["address"]),
            ("AccountingStorageTRES", "gres/gpu"),
        ]
    return lines


def slurm_conf(
    settings: dict[str, Any], host: dict[str, Any], parts: Sequence[dict[str, Any]]
) -> str:
    """slurm.conf; the nodes and their default memory are of the parts."""
    lines = [f"{name}={value}" for name, value in decided(settings, host)]
    shares = [part["memory"] // _cpus(part) for part in parts if part["memory"]]
    if shares:
        # Without it the first job of a node takes all of its memory.
        lines.append(f"DefMemPerCPU={min(shares)}")
    lines += node_files.with_scheduler(settings["extra"])
    lines += [_node(part) for part in parts]
    names = [part["name"] for part in parts]
    lines += [_partition(entry, settings, names) for entry in partitions(settings)]
    return HEAD + "\n".join(lines) + "\n"


def _cpus(part: dict[str, Any]) -> int:
    cpus: int = part["sockets"] * part["cores"] * part["threads"]
    return cpus


def _node(part: dict[str, Any]) -> str:
    words = [
        ("NodeName", part["name"]),
        ("NodeHostname", part["hostname"]),
        ("NodeAddr", part["address"]),
        ("CPUs", _cpus(part)),
        ("Sockets", part["sockets"]),
        ("CoresPerSocket", part["cores"]),
        ("ThreadsPerCore", part["threads"]),
        ("RealMemory", part["memory"]),
    ]
    gres = hardware.gres(part["gpus"])
    if gres:
        words.append(("Gres", gres))
    return " ".join(f"{name}={value}" for name, value in [*words, ("State", "UNKNOWN")])


def partitions(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The partitions, the default one marked."""
    wished = settings["partitions"] or [{"name": "gpu"}]
    if any(entry.get("default") for entry in wished):
        return list(wished)
    return [dict(wished[0], default=True), *wished[1:]]


def _partition(entry: dict[str, Any], settings: dict[str, Any], names: Sequence[str]) -> str:
    # slurmctld ends where a partition names a node that it does not know ("Invalid node names in
    # partition"), also one that runs: a host that no run has reached yet is left out. One without
    # nodes it takes.
    nodes = [name for name in entry.get("nodes") or ["ALL"] if name in ("ALL", *names)]
    words = [
        ("PartitionName", entry["name"]),
        *([("Nodes", ",".join(nodes))] if nodes else []),
        ("Default", "YES" if entry.get("default") else "NO"),
        ("DefaultTime", entry.get("default_time", settings["default_time"])),
        ("MaxTime", entry.get("max_time", settings["max_time"])),
        ("State", "UP"),
    ]
    for word, name in (("max_nodes", "MaxNodes"), ("priority", "PriorityTier")):
        if word in entry:
            words.append((name, entry[word]))
    if entry.get("groups"):
        words.append(("AllowGroups", ",".join(entry["groups"])))
    return " ".join(f"{name}={value}" for name, value in words)


def gres_conf(parts: Sequence[dict[str, Any]]) -> str:
    """gres.conf: which device file is which GPU of which node."""
    return HEAD + "".join(
        "NodeName={0} Name=gpu Type={1} File={2}\n".format(part["name"], gpu["type"], gpu["file"])
        for part in parts
        for gpu in part["gpus"]
    )


def cgroup_conf() -> str:
    """cgroup.conf: jobs are kept to what they were given, in both versions of cgroups."""
    return HEAD + "ConstrainDevices=yes\nConstrainCores=yes\nConstrainRAMSpace=yes\n"


def dbd_conf(host: dict[str, Any]) -> str:
    """slurmdbd.conf: MariaDB knows slurmdbd by the user that it runs as, so it has no password."""
    return HEAD + "\n".join(
        [
            "DbdHost=localhost",
            "DbdAddr={0}".format(host["address"]),
            f"DbdPort={paths.ACCOUNTING_PORT}",
            "SlurmUser=slurm",
            "AuthType=auth/munge",
            "LogFile=/var/log/slurm/slurmdbd.log",
            "PidFile=/run/slurmdbd.pid",
            "StorageType=accounting_storage/mysql",
            "StorageHost=localhost",
            "StorageUser=slurm",
            f"StorageLoc={DATABASE}",
            "",
        ]
    )


def slurmd_environment(name: str, hostname: str, controller: str) -> str:
    """What slurmd is started with; its name only where the host calls itself otherwise."""
    options = f"--conf-server {controller}:{paths.CONTROLLER_PORT}"
    if name != hostname:
        options += f" -N {name}"
    return HEAD + f'SLURMD_OPTIONS="{options}"\n'


def controller_address(text: str) -> str:
    """The controller's address in what slurmd is started with; "" where there is none."""
    match = re.search(r"--conf-server (\S+):\d+", text)
    return match.group(1) if match else ""


def slurmd_drop_in(part: dict[str, Any]) -> str:
    """What the distribution's unit lacks for a node that has no slurm.conf of its own.

    GPUs that are not Slurm's are closed to slurmd and so to all jobs, which inherit its mounts:
    ConstrainDevices denies the devices of gres.conf alone, and with GPU 0 open it would be a job's
    CUDA_VISIBLE_DEVICES=0, which Slurm counts from the first GPU that it gives out.
    """
    closed = "".join(f"InaccessiblePaths=-{file}\n" for file in hardware.closed(part))
    return (
        HEAD
        + "[Unit]\nConditionPathExists=\nAfter=nvidia-persistenced.service\n\n"
        + f"[Service]\nEnvironmentFile=-{paths.SLURMD_ENVIRONMENT}\n"
        # It makes the device files, which gres.conf names, after a boot.
        # Where the driver hangs, the jobs of this node still need their slurmd.
        # The + is for the files that slurmd can't open, which must be there before it starts.
        + "ExecStartPre=-+/usr/bin/timeout --kill-after=5 45 /usr/bin/nvidia-smi -L\n"
        + closed
        # The controller may come up later than its nodes.
        + "Restart=on-failure\nRestartSec=10\n"
    )
