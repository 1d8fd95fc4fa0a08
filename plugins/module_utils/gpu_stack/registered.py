"""The components' packages, in the order of application.

Rendered by `provision roles sync` from the registry, components/__init__.py; edit that.
"""

from .components import (
    cuda,
    cudnn,
    gpu_env,
    gpu_front_door,
    gpu_serving,
    gpu_workspace,
    nvidia_container_toolkit,
    nvidia_driver,
    slurm,
    tensorflow,
)

# Each has NAME, look and differ.
COMPONENTS = (
    nvidia_driver,
    cuda,
    cudnn,
    gpu_env,
    nvidia_container_toolkit,
    tensorflow,
    gpu_workspace,
    gpu_front_door,
    gpu_serving,
    slurm,
)
BY_NAME = {component.NAME: component for component in COMPONENTS}
# Each has packages too.
WITH_PACKAGES = (
    nvidia_driver,
    cuda,
    nvidia_container_toolkit,
)
