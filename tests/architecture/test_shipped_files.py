"""What hosts get as it is: its table is current, and its modules need nothing around them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_stack.components.gpu_front_door import shipped

from provision.render import registered, shipped_files
from tests.collection import ROOT

PLANNED = re.compile(r"^ +- (/\S+)", re.M)
MODULES = sorted((ROOT / shipped_files.WORKSPACE.folder).glob("*.py"))
EVERY = [
    path for program in shipped_files.PROGRAMS for path in (ROOT / program.folder).glob("*.py")
]


def test_what_is_rendered_is_current() -> None:
    """`python -m provision roles sync` writes it."""
    for path, data in (shipped_files.render(ROOT) | registered.render()).items():
        assert (ROOT / path).read_bytes() == data, path


def test_the_front_doors_scenario_expects_each_of_its_files() -> None:
    """A plan of the scenario is compared with that list exactly; `make test` does not run it."""
    text = (ROOT / "molecule" / "gpu_front_door" / "expect.yml").read_text("utf-8")
    expected = {item for item in PLANNED.findall(text) if item.startswith(shipped.LIBRARY)}
    assert expected == {path for path in shipped.FILES if path.startswith(shipped.LIBRARY)}


def outside(path: Path) -> list[str]:
    """What a module imports that is neither beside it nor of the standard library."""
    beside = {module.stem for module in path.parent.glob("*.py")}
    strange = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
            strange += [name for name in names if name not in sys.stdlib_module_names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [alias.name for alias in node.names]
            if node.level == 0:
                names = [str(node.module).partition(".")[0]]
                strange += [name for name in names if name not in sys.stdlib_module_names]
            else:
                strange += [
                    "." * node.level + str(name)
                    for name in names
                    if node.level > 1 or name not in beside
                ]
    return strange


@pytest.mark.parametrize("path", sorted(EVERY), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_module_on_a_host_imports_from_its_own_folder_alone(path: Path) -> None:
    assert outside(path) == []


def test_an_import_from_elsewhere_is_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    (tmp_path / "files.py").touch()
    module.write_text(
        "import os, yaml\nfrom . import files, other\nfrom .. import wished\nfrom ansible import x",
        "utf-8",
    )
    assert outside(module) == ["yaml", ".other", "..wished", "ansible"]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The program as it lies on a host, and what starts it."""
    library = tmp_path / "lib"
    (library / "program").mkdir(parents=True)
    for path in MODULES:
        (library / "program" / path.name).write_bytes(path.read_bytes())
    text = (ROOT / shipped_files.WORKSPACE.role_files / "gpu-workspace").read_text("utf-8")
    assert shipped_files.WORKSPACE.library in text
    start = tmp_path / "gpu-workspace"
    start.write_text(text.replace(shipped_files.WORKSPACE.library, str(library)), "utf-8")
    return start


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["list"], 0, "nobody has a workspace here\n"),
        (["gpus"], 0, '"people": {}'),
        (["command", "nobody"], 1, "nobody has no workspace here\n"),
        (["compose", "nobody"], 1, "nobody has no workspace here\n"),
        (["run", "nobody"], 1, "the workspace of nobody is unfinished; run the playbook again\n"),
        (["run"], 2, "gpu-workspace list"),
        (["look"], 2, "gpu-workspace list"),
        ([], 2, "gpu-workspace list"),
    ],
)
def test_it_runs_as_it_lies_on_a_host(
    installed: Path, tmp_path: Path, words: list[str], code: int, expected: str
) -> None:
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text("#!/bin/sh\n", "utf-8")
    docker.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-I", str(installed), *words],
        env={"PATH": f"{docker.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, expected in done.stdout + done.stderr) == (code, True), done
    # Nothing lies there that the look knows nothing of.
    library = installed.parent / "lib" / "program"
    assert sorted(path.name for path in library.iterdir()) == [path.name for path in MODULES]
