"""What runs on a host is Python 3.7, the standard library, and nothing of Ansible."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.collection import GPU_STACK, PLUGINS, PROGRAMS, ROOT, RUN_LOCK

# Everything that a host's own Python runs; action and callback plugins run on the controller.
ON_HOSTS = sorted(
    [
        *PLUGINS.glob("module_utils/**/*.py"),
        *PLUGINS.glob("modules/*.py"),
        *ROOT.glob("roles/*/files/*.py"),
        *PROGRAMS.glob("*.py"),
    ]
)


def test_there_is_something_to_check() -> None:
    assert {GPU_STACK / "__init__.py", RUN_LOCK / "hold.py", PROGRAMS / "__main__.py"} <= set(
        ON_HOSTS
    )


@pytest.mark.parametrize("path", ON_HOSTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_host_of_python_3_7_can_read_it(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize(
    "path", sorted(GPU_STACK.rglob("*.py")), ids=lambda path: str(path.relative_to(GPU_STACK))
)
def test_the_package_imports_only_the_standard_library_and_itself(path: Path) -> None:
    assert {name for name, level in imported(path) if not level} <= sys.stdlib_module_names


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.name)
def test_tensorflow_s_programs_lie_on_hosts_without_the_package(path: Path) -> None:
    found = imported(path)
    known = sys.stdlib_module_names | {"numpy", "tensorflow"}
    assert {name for name, level in found if not level} <= known
    assert {level for _name, level in found} <= {0, 1}


def imported(path: Path) -> list[tuple[str, int]]:
    """(the package, how many dots stand before it) of each import of a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name.split(".")[0], 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(((node.module or "").split(".")[0], node.level))
    return found
