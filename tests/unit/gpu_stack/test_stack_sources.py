"""What runs on a host is Python 3.7, the standard library, and nothing of Ansible."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.collection import GPU_STACK, PLUGINS, ROOT, RUN_LOCK

# Everything that a host's own Python runs; action and callback plugins run on the controller.
ON_HOSTS = sorted(
    [
        *PLUGINS.glob("module_utils/**/*.py"),
        *PLUGINS.glob("modules/*.py"),
        *ROOT.glob("roles/*/files/*.py"),
    ]
)


def test_there_is_something_to_check() -> None:
    assert {GPU_STACK / "__init__.py", RUN_LOCK / "hold.py"} <= set(ON_HOSTS)


@pytest.mark.parametrize("path", ON_HOSTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_host_of_python_3_7_can_read_it(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7))


# What TensorFlow's own Python runs.
PROGRAMS = GPU_STACK / "acceptance" / "programs"
THEIRS = {"numpy", "tensorflow"}


@pytest.mark.parametrize(
    "path", sorted(GPU_STACK.rglob("*.py")), ids=lambda path: str(path.relative_to(GPU_STACK))
)
def test_the_package_imports_only_the_standard_library_and_itself(path: Path) -> None:
    known = sys.stdlib_module_names | (THEIRS if path.parent == PROGRAMS else set())
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= known
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert (node.module or "").split(".")[0] in known
        elif isinstance(node, ast.ImportFrom) and path.parent == PROGRAMS:
            # They lie on hosts without the rest of the package.
            assert node.level == 1
