"""What a host's options wish for: the settings of a cluster, and this host's place in it."""

from __future__ import annotations

from ...host import gpu_shares as share
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import words

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Options

# Option, the function of words.py that reads it.
READ = (
    *(("cluster", words.cluster), ("controller", words.controller), ("address", words.address)),
    *(("partitions", words.partitions), ("default_time", words.time), ("max_time", words.time)),
    *(("memory_reserve", words.reserve), ("extra", words.extra), ("gpus", share.fault)),
)


def is_wished(options: Options) -> bool:
    return options.get("slurm_state") == "present"


def faults(options: Options) -> list[str]:
    """What is wrong with the options, in words."""
    messages = [
        f"slurm_{name}: {fault}"
        for name, read in READ
        for fault in [read(options["slurm_" + name])]
        if fault is not None
    ]
    mine = options.get("slurm_host") or {}
    messages += list(mine.get("faults") or [])
    # Of the inventory too, and of no option: the host's name there, and ansible_host.
    for word, read in (("name", words.node), ("address", words.address)):
        fault = read(mine[word]) if mine.get(word) else None
        if fault is not None:
            messages.append(fault)
    return messages


def check(options: Options) -> None:
    """RefusalError with what is wrong."""
    messages = faults(options)
    if messages:
        raise RefusalError("; ".join(messages))


def host(options: Options) -> dict[str, Any]:
    """{name, address, controller_address} of this host, from the inventory."""
    return options.get("slurm_host") or {"name": "", "address": "", "controller_address": ""}


def staying(options: Options) -> list[str]:
    """The hosts that stay nodes of this controller, which is to be none."""
    return list(host(options).get("staying") or [])


def has_controller(options: Options) -> bool:
    """Whether the controller of a host that Slurm is to go from is in the inventory."""
    return "staying" in host(options)


def controls(options: Options) -> bool:
    """Whether this host runs slurmctld."""
    return bool(host(options)["name"]) and host(options)["name"] == options["slurm_controller"]


def computes(options: Options) -> bool:
    """Whether jobs run on this host."""
    return bool(options["slurm_compute"]) or not controls(options)


def settings(options: Options) -> dict[str, Any]:
    """What the controller makes a configuration of."""
    names = ("cluster", "controller", "partitions", "default_time", "max_time", "accounting")
    return {name: options["slurm_" + name] for name in (*names, "health_interval", "extra")}


def packages(options: Options) -> list[str]:
    """The packages that this host needs."""
    names = ["munge", "openssl", "slurm-client"]
    if computes(options):
        names.append("slurmd")
    if controls(options):
        names.append("slurmctld")
        if options["slurm_accounting"]:
            names += ["slurmdbd", "mariadb-server"]
    return names


def units(options: Options, nodes: bool) -> list[str]:
    """The services that run on this host. nodes: whether the controller has any."""
    names = ["munge"]
    if controls(options) and options["slurm_accounting"]:
        names += ["mariadb", "slurmdbd"]
    if controls(options) and nodes:
        names.append("slurmctld")
    if computes(options):
        names.append("slurmd")
    return names
