"""What root trusts on a host: not the directory it starts in, and no driver to answer."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.collection import GPU_STACK

ROLES = Path(__file__).parents[2] / "roles"
# Nothing of the role verify runs as root but one command without Python.
TASKS = sorted(
    path for path in ROLES.glob("*/tasks/**/*.yml") if path.relative_to(ROLES).parts[0] != "verify"
)
# python ... - / -c / -m, in a list that is YAML or Jinja
PYTHON = re.compile(
    r"python[\w.]*(?:\s*\}\})?['\"]?\)?\s*,\s*(?P<first>['\"]?-[^,\]\s]*)|"
    r"- [\"']?\S*python[^\n]*\n\s+- (?P<second>\S+)"
)
GPU = re.compile(r"\bnvidia-smi\b|\bmodprobe\b")


def commands(tasks: Any) -> Iterator[dict[str, Any]]:
    """Every task that runs a program, those in blocks included."""
    for task in tasks or []:
        for part in ("block", "rescue", "always"):
            yield from commands(task.get(part))
        if {"ansible.builtin.command", "ansible.builtin.shell"} & set(task):
            yield task


@pytest.mark.parametrize("path", TASKS, ids=lambda path: str(path.relative_to(ROLES)))
def test_no_python_of_roots_imports_from_where_it_was_started(path: Path) -> None:
    """A json.py in the login's home ran as root: with a program on its standard input, or with -c
    or -m, Python looks in the current directory first.
    """
    for match in PYTHON.finditer(path.read_text(encoding="utf-8")):
        option = (match["first"] or match["second"]).strip("'\"")
        assert not option.startswith("-") or option.startswith("-I"), match.group()


def test_the_pattern_sees_what_it_is_for() -> None:
    for text in (
        "argv: [/usr/bin/python3, '-', take]",
        '[__cuda_python, "-", 1]',
        "argv: [\"{{ __cuda_python }}\", '-', look]",
        "[x['python']['executable'] | default('/usr/bin/python3'), '-', 1]",
        "argv:\n  - python3\n  - '-'\n",
    ):
        found = [m["first"] or m["second"] for m in PYTHON.finditer(text)]
        assert [word.strip("'\"") for word in found] == ["-"], text


@pytest.mark.parametrize("path", TASKS, ids=lambda path: str(path.relative_to(ROLES)))
def test_a_task_that_asks_the_driver_has_an_end(path: Path) -> None:
    for task in commands(yaml.safe_load(path.read_text(encoding="utf-8"))):
        words = task.get("ansible.builtin.command") or task.get("ansible.builtin.shell")
        text = yaml.safe_dump(words)
        if GPU.search(re.sub(r"case .*esac", "", text, flags=re.S)):
            assert task.get("timeout"), task["name"]


def test_the_look_opens_files_by_one_function() -> None:
    """What a user may have put there is neither waited for nor followed (regular.py)."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import gpu_stack.look, gpu_stack.doctor.look\n"
        "for name, module in sys.modules.items():\n"
        "    if name.startswith('gpu_stack.'): print(module.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(GPU_STACK.parent)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    paths = [Path(line) for line in done.stdout.splitlines()]
    assert GPU_STACK / "components" / "cudnn" / "layout.py" in paths
    found = {
        path.name: node.lineno
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    }
    assert found == {}


def test_the_look_does_not_import_what_unpacks() -> None:
    """It is imported on every host of every run."""
    heavy = ("tarfile", "urllib.request", "lzma")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import gpu_stack.look\n"
        "print([name for name in sys.argv[2:] if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(GPU_STACK.parent), *heavy],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"
