"""Removal of the environment: files of the role's, and its lines in files of others."""

from __future__ import annotations

from ...host.owned_files import owned
from ...type_checking import TYPE_CHECKING
from .. import gpu_env

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context

# The files that the role writes whole.
FILES = owned(gpu_env.PROFILE, gpu_env.UNITS, gpu_env.LOADER, gpu_env.MANAGER)


def remains(context: Context, _packages: Sequence[str]) -> list[list[Any]]:
    """Files of others that hold our lines."""
    remains = []
    if gpu_env.shell_startup.between_markers(context.read(gpu_env.PAM)) is not None:
        remains.append([gpu_env.PAM, "our lines"])
    for user in context.options.get("gpu_env_bashrc_users") or []:
        text, fault = gpu_env.shell_startup.bashrc(context, user)
        if text is not None and fault is None:
            remains.append(["~{0}/.bashrc".format(user), "our lines"])
    return remains
