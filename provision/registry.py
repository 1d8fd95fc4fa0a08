"""The registry of components, as the collection has it for the hosts: order, titles, needs."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import TYPE_CHECKING

from provision import collection

if TYPE_CHECKING:
    from gpu_stack.components import Component


def _read() -> ModuleType:
    """The collection's module, without its package, which would import the whole look."""
    path = collection.module_utils() / "gpu_stack" / "components" / "__init__.py"
    spec = importlib.util.spec_from_file_location("provision_registry_of_components", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# In the order in which a run applies them: each may need those before it.
_REGISTRY = _read()
COMPONENTS: tuple[Component, ...] = _REGISTRY.COMPONENTS
TITLES = {component.name: component.title for component in COMPONENTS}
SHORT_TITLES = {component.name: component.short for component in COMPONENTS}
# {component: what it does not work without}
NEEDS: dict[str, tuple[str, ...]] = _REGISTRY.NEEDS
# The components that have a part in a lock.
LOCKED = tuple(component.name for component in COMPONENTS if component.locked)
