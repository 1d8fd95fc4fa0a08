"""The execution environment of docs/awx: ansible-builder takes it, and its versions are the tested.

No image is built here: that needs a registry. `ansible-builder create` reads and checks the whole
definition and writes the build context of it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = ROOT / "docs" / "awx" / "execution-environment.yml"
LOCKED = re.compile(r'^name = "([^"]+)"\nversion = "([^"]+)"', re.MULTILINE)


def test_ansible_builder_makes_a_build_context_of_it(tmp_path: Path) -> None:
    context = tmp_path / "context"
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-builder"),
            *("create", "-f", str(DEFINITION), "-c", str(context)),
            *("--output-filename", "Containerfile"),
        ],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    text = (context / "Containerfile").read_text("utf-8")
    wanted = yaml.safe_load(DEFINITION.read_text("utf-8"))
    assert wanted["images"]["base_image"]["name"] in text
    assert wanted["dependencies"]["ansible_core"]["package_pip"] in text
    assert (context / "_build" / "requirements.txt").read_text("utf-8").split() == (
        wanted["dependencies"]["python"]
    )


def test_its_versions_are_those_that_the_tests_run_with() -> None:
    # A package may have a version for each Python.
    locked = set(LOCKED.findall((ROOT / "uv.lock").read_text("utf-8")))
    wanted = yaml.safe_load(DEFINITION.read_text("utf-8"))["dependencies"]
    pins = [wanted[part]["package_pip"] for part in ("ansible_core", "ansible_runner")]
    for pin in [*pins, *wanted["python"]]:
        name, _, version = pin.partition("==")
        assert (name.lower(), version) in locked, pin
