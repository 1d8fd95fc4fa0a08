"""The modules that import every component's, rendered from the registry.

Ansible packs what a module imports by reading its source, so nothing can be imported by a name that
is made up at run time.
"""

from __future__ import annotations

from provision.registry import COMPONENTS

FOLDER = "plugins/module_utils/gpu_stack"
_HEADER = '''\
"""{title}

Rendered by `provision roles sync` from the registry, components/__init__.py; edit that.
"""

'''


def render() -> dict[str, bytes]:
    """The modules' paths in the collection and their texts."""
    return {
        f"{FOLDER}/registered.py": _components().encode(),
        f"{FOLDER}/registered_rules.py": _rules().encode(),
    }


def _components() -> str:
    names = sorted(component.name for component in COMPONENTS)
    imports = "from .components import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"
    packages = "".join(f"    {component.name},\n" for component in COMPONENTS)
    return (
        _HEADER.format(title="The components' packages, in the order of application.")
        + f"{imports}\n# Each has NAME, look and differ.\nCOMPONENTS = (\n{packages})\n"
    )


def _rules() -> str:
    """Apart from the packages: a host with nothing to do imports no rules."""
    rules = [(component.name, part) for component in COMPONENTS for part in component.rules]
    imports = "".join(
        f"from .components.{name} import {part} as {name}_{part}\n" for name, part in sorted(rules)
    )
    modules = "".join(f"    {name}_{part},\n" for name, part in rules)
    return (
        _HEADER.format(title="The components' preflight rules.")
        + f"{imports}\n# Each has RULES.\nMODULES = (\n{modules})\n"
    )
