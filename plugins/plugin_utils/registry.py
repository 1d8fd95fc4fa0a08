"""The registry of components for the controller's plugins, without the look around it.

An import by its full name would also import its package, the whole look: 60 ms of each run.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def _load() -> ModuleType:
    plugins = Path(__file__).resolve().parents[1]
    path = plugins / "module_utils" / "gpu_stack" / "components" / "__init__.py"
    spec = importlib.util.spec_from_file_location("provision_gpu_components", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_REGISTRY = _load()
NAMES: tuple[str, ...] = _REGISTRY.NAMES
run_steps = _REGISTRY.run_steps
