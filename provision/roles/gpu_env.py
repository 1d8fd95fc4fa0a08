"""gpu_env: the environment in which nvcc, CUDA and TensorFlow find each other."""

from __future__ import annotations

from typing import Any

from provision.roles.base import Options, Role, Row, State, option, state


class GpuEnvOptions(Options):
    """Public variables of the role."""

    gpu_env_state: State = state()
    """absent: remove the environment's files and lines, and leave what was there before."""
    gpu_env_stack_path: list[str] = option([], identity=True)
    """Directories of the stack's programs."""
    gpu_env_stack_library: list[str] = option([], identity=True)
    """Directories of the stack's libraries."""
    gpu_env_stack_xla_cuda_data_dir: str = option("auto", identity=True)
    """Directory with the stack's nvvm/libdevice. auto: that of the platform's CUDA. Empty: none is
    set; TensorFlow itself finds a CUDA that was installed as wheels.
    """
    gpu_env_path: list[str] = option([], looked_at=True)
    """Additional directories for PATH."""
    gpu_env_library: list[str] = option([], looked_at=True)
    """Additional directories for the dynamic loader (ld.so.conf.d)."""
    gpu_env_ld_library_path: bool = option(False, looked_at=True)
    """Also set LD_LIBRARY_PATH, as tutorials do: to the loader's directories, or to lib64 next to
    the stack's programs. The loader does not need it, and it affects every program.
    """
    gpu_env_xla_cuda_data_dir: str = option("", looked_at=True)
    """Directory in which XLA looks for nvvm/libdevice (XLA_FLAGS). Empty: the stack's."""
    gpu_env_variables: dict[str, str] = option(
        {}, looked_at=True, example='{TF_FORCE_GPU_ALLOW_GROWTH: "true"}'
    )
    """Additional environment variables for shells, cron and services."""
    gpu_env_bashrc_users: list[str] = option([], looked_at=True, example="[alice]")
    """Users who get a block in their ~/.bashrc as well."""
    gpu_env_modes: list[str] = option([], repair=True)
    """Directories of the environment's files, and the loader's cache, that have a wrong mode or
    owner, each with its correct mode (`/etc/profile.d 0755`).
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
