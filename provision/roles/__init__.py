"""The generator's roles, in the order in which a run applies their components."""

from __future__ import annotations

import importlib

from provision.registry import COMPONENTS
from provision.roles import (
    artifact_cache,
    gpu_front_door,
    gpu_serving,
    site,
    slurm,
    workspaces_rules,
)
from provision.roles.base import Option, Role

# Each component's role is in the module of its name.
ROLES: tuple[Role, ...] = tuple(
    importlib.import_module(f"provision.roles.{component.name}").ROLE for component in COMPONENTS
)
SITE = site.ROLE
# Roles of hosts that serve the others: no component of a stack.
SERVING = (artifact_cache.ROLE,)
# Every role that Ansible has, in the order in which people read of them.
ALL = (*ROLES, *SERVING)

# The rules over several variables of a host.
JUDGES = (
    workspaces_rules.Workspaces(),
    gpu_front_door.FrontDoor(),
    gpu_serving.Servings(),
    slurm.Cluster(),
    slurm.SharedGpus(),
)

# Variables that begin with one of these look like ours; an unknown one is worth a warning.
PREFIXES = (*(f"{role.name}_" for role in ALL), "gpu_")


def all_options() -> dict[str, Option]:
    """Every public variable by name: the roles' and the run's."""
    return {option.name: option for role in (*ALL, SITE) for option in role.options}
