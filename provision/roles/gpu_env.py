"""gpu_env: the environment in which nvcc, CUDA and TensorFlow find each other."""

from __future__ import annotations

from typing import Any

from provision.roles.base import Options, Role, Row, State, option, state


class GpuEnvOptions(Options):
    """Public variables of the role."""

    gpu_env_state: State = state()
    """absent: remove the environment's files and lines, and leave what was there before."""
    gpu_env_stack_path: list[str] = option([], identity=True)
    """Directories of programs that the stack brings."""
    gpu_env_stack_library: list[str] = option([], identity=True)
    """Directories of libraries that the stack brings."""
    gpu_env_stack_xla_cuda_data_dir: str = option("auto", identity=True)
    """Where the stack keeps nvvm/libdevice. auto: where the platform's CUDA does. Empty: nowhere
    for all; TensorFlow finds a CUDA that came as its wheels by itself.
    """
    gpu_env_path: list[str] = option([], looked_at=True)
    """Further directories for PATH."""
    gpu_env_library: list[str] = option([], looked_at=True)
    """Further directories for the loader (ld.so.conf.d)."""
    gpu_env_ld_library_path: bool = option(False, looked_at=True)
    """Set LD_LIBRARY_PATH too, as tutorials do: the loader's directories, or lib64 beside the
    stack's programs. The loader does not need it, and every program reads it.
    """
    gpu_env_xla_cuda_data_dir: str = option("", looked_at=True)
    """Where XLA looks for nvvm/libdevice (XLA_FLAGS). Empty: where the stack keeps it."""
    gpu_env_variables: dict[str, str] = option(
        {}, looked_at=True, example='{TF_FORCE_GPU_ALLOW_GROWTH: "true"}'
    )
    """Further environment variables for shells, cron and services."""
    gpu_env_bashrc_users: list[str] = option([], looked_at=True, example="[alice]")
    """Users who get a block in their ~/.bashrc as well."""
    gpu_env_modes: list[str] = option([], repair=True)
    """Directories of these files, and the loader's cache, whose mode or owner is wrong, each with
    its mode (`/etc/profile.d 0755`).
    """


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """Identity of the environment in one stack."""
    env = row["gpu_env"]
    return {
        "gpu_env_stack_path": env["path"],
        "gpu_env_stack_library": env["library"],
        "gpu_env_stack_xla_cuda_data_dir": env["xla_cuda_data_dir"],
    }


ROLE = Role("gpu_env", GpuEnvOptions, variables)
