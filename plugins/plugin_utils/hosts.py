"""Reads a run's hosts from Ansible's own objects.

They are no stable interface, so each function returns a default where an Ansible lacks them.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any


def hosts_of(play: Any, *, all_batches: bool = False) -> list[Any]:
    """The hosts of a play's batch, --limit applied; [] where Ansible's objects differ."""
    try:
        manager = play.get_variable_manager()
        return list(manager._inventory.get_hosts(play.hosts, ignore_restrictions=all_batches))
    except Exception:
        return []


def groups_of(host: Any) -> list[str]:
    """The names of a host's groups, sorted, without Ansible's own two; [] where objects differ."""
    try:
        names = {str(group.name) for group in host.get_groups()}
    except Exception:
        return []
    return sorted(names - {"all", "ungrouped"})


def unmatched_limit(playbook: Any) -> list[str]:
    """The parts of --limit that match no host, in its order; [] where Ansible's objects differ.

    Ansible ignores them with a warning and works on the others: a renamed host would drop out of a
    nightly job that still reports success. An excluded host (`!gpu09`) counts too: a misspelt one
    would not be left out.
    """
    try:
        inventory = playbook.get_plays()[0].get_variable_manager()._inventory
        return [
            pattern
            for pattern in inventory._subset or ()
            if not inventory.get_hosts(
                pattern.lstrip("!&"), ignore_limits=True, ignore_restrictions=True
            )
        ]
    except Exception:
        return []


def not_begun(play: Any, begun: Container[str]) -> list[str]:
    """Hosts of all batches of a play that have a wish and are not in `begun`, in its order.

    Raises whatever Ansible's internals raise while it exits.
    """
    variables = play.get_variable_manager()
    return [
        host.get_name()
        for host in hosts_of(play, all_batches=True)
        if host.get_name() not in begun
        and variables.get_vars(play=play, host=host, include_hostvars=False).get("gpu_stack")
    ]
