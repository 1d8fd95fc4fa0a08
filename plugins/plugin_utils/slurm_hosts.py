"""A host's place in its cluster of Slurm's, as the inventory or the role's play has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.provision.gpu.plugins.plugin_utils.host_options import DEFAULTS, plain

# Addresses by which nobody but a host itself reaches it.
OWN = ("localhost", "127.", "::1")
# What the role slurm says of each host: variables of a play are in no host's `hostvars`.
SAID = "__slurm_said"


def place(templar: Any, task_vars: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """{name, address, controller_address, faults} of the host that the variables are of.

    With `staying` where Slurm is to be removed: the hosts that are to stay nodes of this
    controller. {} for a host that has nothing to do with Slurm.
    """
    if options.get("slurm_state") != "present" and not options.get("slurm_controller"):
        return {}
    name = str(task_vars.get("inventory_hostname", ""))
    controller = str(options.get("slurm_controller") or "")
    hosts = task_vars.get("hostvars") or {}
    mine = plain(templar.template(task_vars.get("ansible_host") or ""))
    address = str(options.get("slurm_address") or mine or name)
    host: dict[str, Any] = {"name": name, "address": address, "controller_address": ""}
    if not controller:
        return {**host, "faults": ["slurm_controller names no host; expected slurmctld's"]}
    if controller not in hosts:
        return {**host, "faults": [f"slurm_controller: {controller} is not in the inventory"]}
    if options.get("slurm_state") != "present":
        return {
            **host,
            "faults": [],
            "staying": _staying(name, hosts) if controller == name else [],
        }
    if controller == name:
        host["controller_address"] = address
        faults = _of_partitions(name, hosts, options)
        return {**host, "faults": faults + _unreachable(name, address)}
    its = hosts[controller]
    address_there = wish(its, "slurm_address") or plain(its.get("ansible_host")) or controller
    host["controller_address"] = str(address_there)
    faults = _of_controller(controller, its, options)
    if not options.get("slurm_compute", True):
        faults.append(
            f"slurm_compute is false here, and only {controller}, the controller, can be without "
            "jobs; expected slurm_state: absent for a host outside the cluster"
        )
    return {**host, "faults": faults + _unreachable(name, address)}


def wish(its: Mapping[str, Any], option: str) -> Any:
    """An option of another host: as the role has set it in this play, else as the inventory has."""
    published = its.get(SAID) or {}
    return plain(published[option] if option in published else its.get(option, DEFAULTS[option]))


def _staying(controller: str, hosts: Mapping[str, Any]) -> list[str]:
    return [
        str(name)
        for name in hosts
        if wish(hosts[name], "slurm_state") == "present"
        and wish(hosts[name], "slurm_controller") == controller
    ]


def _of_partitions(
    controller: str, hosts: Mapping[str, Any], options: Mapping[str, Any]
) -> list[str]:
    """Nodes of partitions that the cluster does not have; other faults are found elsewhere."""
    wished = [entry for entry in options.get("slurm_partitions") or [] if isinstance(entry, dict)]
    lists = [(entry.get("name"), entry.get("nodes")) for entry in wished]
    named = {
        node: name
        for name, nodes in lists
        if isinstance(nodes, list)
        for node in nodes
        if isinstance(node, str)
    }
    if not named:
        return []
    computes = bool(options.get("slurm_compute", True))
    members = [node for node in _staying(controller, hosts) if node != controller or computes]
    return [
        f"slurm_partitions: {named[node]} has the node {node}, which is none of this cluster's"
        for node in named
        if node not in members
    ]


def _of_controller(
    controller: str, its: Mapping[str, Any], options: Mapping[str, Any]
) -> list[str]:
    """What of the controller's own variables does not fit this host's."""
    if its.get("gpu_stack") is None and SAID not in its:
        return [f"slurm_controller: {controller} has no gpu_stack and no role slurm in this play, "
                "so nothing brings it slurmctld"]  # fmt: skip
    faults = []
    for word in ("slurm_state", "slurm_controller", "slurm_cluster"):
        theirs = wish(its, word)
        if theirs != options[word]:
            faults.append(f"{word} is {options[word]!r} here, and {theirs!r} on {controller}")
    return faults


def _unreachable(name: str, address: str) -> list[str]:
    if not address.startswith(OWN):
        return []
    return [f"{address} is how {name} reaches itself: set slurm_address to one for the others"]
