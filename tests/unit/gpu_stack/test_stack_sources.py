"""What runs on a host is Python 3.7, the standard library, and nothing of Ansible."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROLES = Path(__file__).parents[3] / "roles"
PACKAGE = ROLES / "gpu_state" / "module_utils" / "gpu_stack"
# Everything in the roles that a host's own Python runs; action plugins run on the controller.
ON_HOSTS = sorted(
    [
        *ROLES.glob("*/module_utils/**/*.py"),
        *ROLES.glob("*/library/*.py"),
        *ROLES.glob("*/files/*.py"),
    ]
)


def test_there_is_something_to_check() -> None:
    assert PACKAGE / "__init__.py" in ON_HOSTS


@pytest.mark.parametrize("path", ON_HOSTS, ids=lambda path: str(path.relative_to(ROLES)))
def test_a_host_of_python_3_7_can_read_it(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_the_package_imports_only_the_standard_library_and_itself(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert (node.module or "").split(".")[0] in sys.stdlib_module_names
