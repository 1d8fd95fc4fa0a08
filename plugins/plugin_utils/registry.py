"""The registry of components for the controller's plugins, without the look around it.

Imported by its full name, the registry would bring its package along: everything that looks at
hosts, 60 ms of each run.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def _read() -> ModuleType:
    plugins = Path(__file__).resolve().parents[1]
    path = plugins / "module_utils" / "gpu_stack" / "components" / "__init__.py"
    spec = importlib.util.spec_from_file_location("provision_gpu_components", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_REGISTRY = _read()
NAMES: tuple[str, ...] = _REGISTRY.NAMES
run_steps = _REGISTRY.run_steps
