"""What the removal of each component needs to know.

Rendered by `provision roles sync` from the registry, components/__init__.py; edit that.
"""

from .components.cuda import removal as cuda
from .components.cudnn import removal as cudnn
from .components.gpu_env import removal as gpu_env
from .components.nvidia_container_toolkit import removal as nvidia_container_toolkit
from .components.nvidia_driver import removal as nvidia_driver
from .components.tensorflow import removal as tensorflow

MODULES = {
    "nvidia_driver": nvidia_driver,
    "cuda": cuda,
    "cudnn": cudnn,
    "gpu_env": gpu_env,
    "nvidia_container_toolkit": nvidia_container_toolkit,
    "tensorflow": tensorflow,
}
