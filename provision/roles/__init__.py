"""The Python roles, in the order in which their components are brought to their lock."""

from __future__ import annotations

import importlib

from provision.registry import COMPONENTS
from provision.roles import gpu_front_door, gpu_workspace, site
from provision.roles.base import Option, Role

# Each component's is in the module of its name.
ROLES: tuple[Role, ...] = tuple(
    importlib.import_module(f"provision.roles.{component.name}").ROLE for component in COMPONENTS
)
SITE = site.ROLE

# What several variables of a host say together.
JUDGES = (gpu_workspace.Workspaces(), gpu_front_door.FrontDoor())

# Variables that begin with one of these look like ours; an unknown one is worth a warning.
PREFIXES = (*(f"{role.name}_" for role in ROLES), "gpu_")


def all_options() -> dict[str, Option]:
    """Every public variable by name: the components' and the run's."""
    return {option.name: option for role in (*ROLES, SITE) for option in role.options}
