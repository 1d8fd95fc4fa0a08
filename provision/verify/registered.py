"""The components, in the order of their checks.

Rendered by `provision roles sync` from the registry, components/__init__.py; edit that.
"""

NAMES = (
    "nvidia_driver",
    "cuda",
    "cudnn",
    "gpu_env",
    "nvidia_container_toolkit",
    "tensorflow",
    "gpu_workspace",
    "gpu_front_door",
    "gpu_serving",
    "slurm",
)
# No lock has a part for these.
UNLOCKED = (
    "gpu_workspace",
    "gpu_front_door",
    "gpu_serving",
    "slurm",
)
