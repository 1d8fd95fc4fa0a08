"""The modules that import every component's, rendered from the registry.

Ansible packs what a module imports by reading its source, so nothing can be imported by a name that
is made up at run time.
"""

from __future__ import annotations

import json

from provision import collection
from provision.registry import COMPONENTS

FOLDER = "plugins/module_utils/gpu_stack"
_HEADER = '''\
"""{title}

Rendered by `provision roles sync` from the registry, components/__init__.py; edit that.
"""

'''
_PLACE = "the components' repositories.py"


def render() -> dict[str, bytes]:
    """The modules' paths in the collection and their texts."""
    return {
        f"{FOLDER}/registered.py": _components().encode(),
        f"{FOLDER}/registered_doctors.py": _doctors().encode(),
        f"{FOLDER}/registered_removals.py": _removals().encode(),
        f"{FOLDER}/registered_repositories.py": _repositories().encode(),
        f"{FOLDER}/registered_rules.py": _rules().encode(),
        "provision/verify/registered.py": _checked().encode(),
    }


def _components() -> str:
    names = sorted(component.name for component in COMPONENTS)
    imports = "from .components import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"
    packages = "".join(f"    {component.name},\n" for component in COMPONENTS)
    apt = "".join(f"    {component.name},\n" for component in COMPONENTS if component.packages)
    return (
        _HEADER.format(title="The components' packages, in the order of application.")
        + f"{imports}\n# Each has NAME, look and differ.\nCOMPONENTS = (\n{packages})\n"
        + "BY_NAME = {component.NAME: component for component in COMPONENTS}\n"
        + f"# Each has packages too.\nWITH_PACKAGES = (\n{apt})\n"
    )


def _removals() -> str:
    """Apart from the packages: most hosts have nothing to remove."""
    names = [component.name for component in COMPONENTS if component.state]
    return _modules("removal", names, "What the removal of each component needs to know.")


def _doctors() -> str:
    names = [component.name for component in COMPONENTS if component.doctor]
    return _modules("doctor", names, "The components' cases for the doctor.")


def _checked() -> str:
    """The checks have no collection beside them."""
    names = "".join(f'    "{component.name}",\n' for component in COMPONENTS)
    free = "".join(f'    "{component.name}",\n' for component in COMPONENTS if not component.locked)
    return (
        _HEADER.format(title="The components, in the order of their checks.")
        + f"NAMES = (\n{names})\n# No lock has a part for these.\nUNLOCKED = (\n{free})\n"
    )


def _modules(module: str, names: list[str], title: str) -> str:
    """A table of the components' modules of one name."""
    imports = "".join(
        f"from .components.{name} import {module} as {name}\n" for name in sorted(names)
    )
    rows = "".join(f'    "{name}": {name},\n' for name in names)
    return _HEADER.format(title=title) + f"{imports}\nMODULES = {{\n{rows}}}\n"


def _repositories() -> str:
    """The data itself: who only needs a repository is not to carry its whole component."""
    rows = ""
    for component in COMPONENTS:
        if component.repositories:
            file = ("module_utils", "gpu_stack", "components", component.name, "repositories.py")
            for name, fields in collection.module(*file).REPOSITORIES.items():
                texts = "".join(f'        "{key}": {_literal(fields[key])},\n' for key in fields)
                rows += f'    "{name}": {{\n{texts}    }},\n'
    header = _HEADER.format(title="The repositories that roles name to apt.")
    return (
        header.replace("the registry, components/__init__.py; edit that", f"{_PLACE}; edit those")
        + "from __future__ import annotations\n\nfrom .type_checking import TYPE_CHECKING\n\n"
        + "if TYPE_CHECKING:\n    from typing import Any\n\n"
        + f"REPOSITORIES: dict[str, Any] = {{\n{rows}}}\n"
    )


def _literal(value: str | tuple[str, ...]) -> str:
    """A text or some of them, as the formatter writes them."""
    if isinstance(value, str):
        return json.dumps(value)
    if len(value) < 2:
        return "(" + "".join(f"{json.dumps(text)}," for text in value) + ")"
    return "(\n" + "".join(f"            {json.dumps(text)},\n" for text in value) + "        )"


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
