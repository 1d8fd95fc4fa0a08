"""The components' cases for the doctor.

Rendered by `provision roles sync` from the registry, components/__init__.py; edit that.
"""

from .components.cuda import doctor as cuda
from .components.gpu_serving import doctor as gpu_serving
from .components.nvidia_container_toolkit import doctor as nvidia_container_toolkit
from .components.nvidia_driver import doctor as nvidia_driver
from .components.slurm import doctor as slurm
from .components.tensorflow import doctor as tensorflow

MODULES = {
    "nvidia_driver": nvidia_driver,
    "cuda": cuda,
    "nvidia_container_toolkit": nvidia_container_toolkit,
    "tensorflow": tensorflow,
    "gpu_serving": gpu_serving,
    "slurm": slurm,
}
