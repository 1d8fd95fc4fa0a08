"""The registry of components, as the collection has it for the hosts: order, titles, needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision import collection

if TYPE_CHECKING:
    from gpu_stack.components import Component


# In the order in which a run applies them: each may need those before it.
_REGISTRY = collection.module("module_utils", "gpu_stack", "components", "__init__.py")
COMPONENTS: tuple[Component, ...] = _REGISTRY.COMPONENTS
TITLES = {component.name: component.title for component in COMPONENTS}
SHORT_TITLES = {component.name: component.short for component in COMPONENTS}
# {component: what it does not work without}
NEEDS: dict[str, tuple[str, ...]] = _REGISTRY.NEEDS
# The components that have a part in a lock.
LOCKED = tuple(component.name for component in COMPONENTS if component.locked)
