"""The module that imports every component's, rendered from the registry.

Ansible packs what a module imports by reading its source, so nothing can be imported by a name that
is made up at run time.
"""

from __future__ import annotations

from provision.registry import COMPONENTS

PATH = "plugins/module_utils/gpu_stack/registered.py"

_HEADER = '''\
"""The components' modules, in the order of application. Rendered by `provision roles sync` from the
registry, components/__init__.py; edit that.
"""

'''


def render() -> dict[str, bytes]:
    """The module's path in the collection and its text."""
    rules = [(component.name, part) for component in COMPONENTS for part in component.rules]
    names = sorted(component.name for component in COMPONENTS)
    imports = "from .components import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"
    for name in names:
        for part in sorted(part for owner, part in rules if owner == name):
            imports += f"from .components.{name} import {part} as {name}_{part}\n"
    packages = "".join(f"    {component.name},\n" for component in COMPONENTS)
    modules = "".join(f"    {name}_{part},\n" for name, part in rules)
    text = (
        f"{_HEADER}{imports}\n"
        f"# Each has NAME, look and differ.\nCOMPONENTS = (\n{packages})\n"
        f"# Each has RULES.\nRULE_MODULES = (\n{modules})\n"
    )
    return {PATH: text.encode()}
