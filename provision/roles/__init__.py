"""The Python roles, in the order in which their components are brought to their lock."""

from __future__ import annotations

from provision.roles import (
    cuda,
    cudnn,
    gpu_env,
    gpu_front_door,
    gpu_workspace,
    nvidia_container_toolkit,
    nvidia_driver,
    site,
    tensorflow,
)
from provision.roles.base import Option, Role

ROLES: tuple[Role, ...] = (
    nvidia_driver.ROLE,
    cuda.ROLE,
    cudnn.ROLE,
    gpu_env.ROLE,
    nvidia_container_toolkit.ROLE,
    tensorflow.ROLE,
    gpu_workspace.ROLE,
    gpu_front_door.ROLE,
)
SITE = site.ROLE

# What several variables of a host say together.
JUDGES = (gpu_workspace.Workspaces(), gpu_front_door.FrontDoor())

# Variables that begin with one of these look like ours; an unknown one is worth a warning.
PREFIXES = (*(f"{role.name}_" for role in ROLES), "gpu_")


def all_options() -> dict[str, Option]:
    """Every public variable by name: the components' and the run's."""
    return {option.name: option for role in (*ROLES, SITE) for option in role.options}
