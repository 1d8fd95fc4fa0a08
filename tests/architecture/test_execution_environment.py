"""The execution environment of docs/awx: ansible-builder takes it, and its versions are the tested.

No image is built here: that needs a registry. `ansible-builder create` reads and checks the whole
definition and writes the build context of it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = ROOT / "docs" / "awx" / "execution-environment.yml"
LOCKED = re.compile(r'^name = "([^"]+)"\nversion = "([^"]+)"', re.MULTILINE)


def create(definition: Path, context: Path) -> subprocess.CompletedProcess[str]:
    """`ansible-builder create`, which checks a definition against its own schema."""
    return subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-builder"),
            *("create", "-f", str(definition), "-c", str(context)),
            *("--output-filename", "Containerfile"),
        ],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_ansible_builder_makes_a_build_context_of_it(tmp_path: Path) -> None:
    context = tmp_path / "context"
    done = create(DEFINITION, context)
    assert done.returncode == 0, done.stdout + done.stderr
    given = dict(re.findall(r'^ARG (\w+)="(.*)"$', (context / "Containerfile").read_text(), re.M))
    wanted = yaml.safe_load(DEFINITION.read_text("utf-8"))
    needs = wanted["dependencies"]
    assert given["EE_BASE_IMAGE"] == wanted["images"]["base_image"]["name"]
    assert given["PYPKG"] == needs["python_interpreter"]["package_system"]
    assert given["PYCMD"] == needs["python_interpreter"]["python_path"]
    installed = [needs[part]["package_pip"] for part in ("ansible_core", "ansible_runner")]
    assert given["ANSIBLE_INSTALL_REFS"].split() == installed
    for name, part in (("requirements.txt", "python"), ("bindep.txt", "system")):
        assert (context / "_build" / name).read_text("utf-8").splitlines() == needs[part], name


def test_its_image_takes_nothing_from_galaxy_and_runs_as_a_user(tmp_path: Path) -> None:
    """A project brings its own collection; AWX gives the container a user of its own."""
    context = tmp_path / "context"
    assert create(DEFINITION, context).returncode == 0
    lines = (context / "Containerfile").read_text("utf-8").splitlines()
    assert not [line for line in lines if line.startswith(("RUN", "COPY")) and "galaxy" in line]
    assert [line for line in lines if line.startswith("USER ")] == ["USER root", "USER 1000"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("base_image:", "base_images:"),
        ("package_pip: ansible-core", "package_pips: ansible-core"),
        ("version: 3", "version: 9"),
    ],
)
def test_a_definition_that_is_none_is_refused(tmp_path: Path, old: str, new: str) -> None:
    """Else the tests above would show nothing."""
    definition = tmp_path / "execution-environment.yml"
    text = DEFINITION.read_text("utf-8")
    assert old in text
    definition.write_text(text.replace(old, new), "utf-8")
    assert create(definition, tmp_path / "context").returncode != 0


def test_its_versions_are_those_that_the_tests_run_with() -> None:
    # A package may have a version for each Python.
    locked = set(LOCKED.findall((ROOT / "uv.lock").read_text("utf-8")))
    wanted = yaml.safe_load(DEFINITION.read_text("utf-8"))["dependencies"]
    pins = [wanted[part]["package_pip"] for part in ("ansible_core", "ansible_runner")]
    for pin in [*pins, *wanted["python"]]:
        name, _, version = pin.partition("==")
        assert (name.lower(), version) in locked, pin
