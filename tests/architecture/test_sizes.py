"""Size is a smell with a number: a module of 400 lines and a function of 60 are split."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

from tests.collection import ROOT

MODULE, FUNCTION = 400, 60


def programs() -> list[Path]:
    """The product's Python: what git tracks, the tests left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    paths = [ROOT / path for path in listed if not path.startswith("tests/")]
    return [path for path in paths if path.exists()]


def too_long(path: Path) -> list[str]:
    """What in the file is longer than it may be: the module, or functions of it."""
    text = path.read_text("utf-8")
    long = [f"{len(text.splitlines())} lines"] if len(text.splitlines()) > MODULE else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            long += [f"{node.name}: {lines} lines"] if lines > FUNCTION else []
    return long


def test_no_module_and_no_function_is_too_long() -> None:
    paths = programs()
    assert len(paths) > 300
    assert {str(path.relative_to(ROOT)): too_long(path) for path in paths if too_long(path)} == {}


def test_what_is_too_long_is_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    body = "    pass\n"
    module.write_text("def short():\n" + body * 59 + "def long():\n" + body * 60)
    assert too_long(module) == ["long: 61 lines"]
    module.write_text("pass\n" * 401)
    assert too_long(module) == ["401 lines"]
