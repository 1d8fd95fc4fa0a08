"""The components' preflight rules.

Rendered by `provision roles sync` from the registry, components/__init__.py; edit that.
"""

from .components.cuda import rules as cuda_rules
from .components.cudnn import rules as cudnn_rules
from .components.gpu_env import rules as gpu_env_rules
from .components.gpu_front_door import rules as gpu_front_door_rules
from .components.gpu_serving import rules as gpu_serving_rules
from .components.gpu_workspace import rules as gpu_workspace_rules
from .components.nvidia_container_toolkit import rules as nvidia_container_toolkit_rules
from .components.nvidia_driver import kernel_rules as nvidia_driver_kernel_rules
from .components.nvidia_driver import method_rules as nvidia_driver_method_rules
from .components.nvidia_driver import rules as nvidia_driver_rules
from .components.slurm import rules as slurm_rules
from .components.tensorflow import rules as tensorflow_rules
from .components.tensorflow import venv_use as tensorflow_venv_use

# Each has RULES.
MODULES = (
    nvidia_driver_rules,
    nvidia_driver_kernel_rules,
    nvidia_driver_method_rules,
    cuda_rules,
    cudnn_rules,
    gpu_env_rules,
    nvidia_container_toolkit_rules,
    tensorflow_rules,
    tensorflow_venv_use,
    gpu_workspace_rules,
    gpu_front_door_rules,
    gpu_serving_rules,
    slurm_rules,
)
