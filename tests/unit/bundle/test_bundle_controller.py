"""`--controller`: what rebuilds a lab from the bundle alone, on a controller without a network."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from provision import collection
from provision.bundle import controller
from provision.upstream import wheels
from tests.collection import ROOT
from tests.unit.bundle.world import World, build, contents

FILE = ROOT / "provision" / "bundle" / "controller.txt"
# What provision itself needs and a tree does not.
PRUNED = ("pydantic", "python-debian", "rich", "typer", "uv")


def test_the_requirements_are_those_of_uv_lock() -> None:
    """Made anew by PROVISION_UPDATE_GOLDEN=1; without a network."""
    command = [wheels.uv(), "export", "--frozen", "--offline", "--quiet", "--project", str(ROOT)]
    command += ["--no-dev", "--no-emit-project", "--no-annotate", "--no-header"]
    command += [f"--prune={name}" for name in PRUNED]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        FILE.write_text(done.stdout, encoding="utf-8")
    assert controller.text() == done.stdout


@pytest.mark.parametrize("python", controller.PYTHONS)
def test_each_python_has_one_version_of_what_runs_the_tree(python: str) -> None:
    lines = controller.requirements(python).splitlines()
    names = [line.partition("==")[0] for line in lines]
    assert len(names) == len(set(names))
    assert {"ansible-core", "jinja2", "pyyaml", "pytest", "pytest-testinfra"} <= {*names}
    assert not {"colorama", *PRUNED} & {*names}
    assert ("exceptiongroup" in names) == (python == "3.10")
    assert all(re.fullmatch(r"[\w.-]+==\S+( --hash=sha256:[0-9a-f]{64})+", x) for x in lines)


@pytest.fixture
def wheels_of_ansible(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel stands for all of them: the index of the tests has no others."""
    six = "six-1.16.0-py2.py3-none-any.whl"
    digest = wheel_digest(world, six)
    text = f"six==1.16.0 ; python_full_version < '3.12' \\\n    --hash=sha256:{digest}\n"
    monkeypatch.setattr(controller, "text", lambda: text)
    monkeypatch.setattr(controller, "PYTHONS", ("3.10", "3.11"))  # each asks the index by uv


def wheel_digest(world: World, file: str) -> str:
    page = world.server.files[f"/simple/{file.partition('-')[0]}/"].decode()
    return re.findall("sha256=([0-9a-f]{64})", page)[0]


def test_a_bundle_has_what_its_five_commands_need(
    world: World, tmp_path: Path, wheels_of_ansible: None
) -> None:
    folder = build(world, tmp_path / "bundle", "--controller")
    made = contents(folder)
    assert made == contents(build(world, tmp_path / "second", "--controller"))
    project = {path for path in made if path.startswith("controller/project/")}
    assert {f"controller/project/{name}" for name in ("site.yml", "ansible.cfg", "lock.yml")} <= (
        project
    )
    assert any(path.endswith("roles/tensorflow/tasks/main.yml") for path in project)
    assert made["controller/project/lock.yml"] == made["lock.yml"]
    assert made["controller/docs/bundle.md"] == (ROOT / "docs/bundle.md").read_bytes()
    text = made["README.txt"].decode()
    # Every path of the bundle that it names is there.
    for path in re.findall(r"BUNDLE/([\w./]+)", text):
        assert (folder / path).exists() or path == "manifest.json.sig"
    # Without it nothing of it stays.
    plain = contents(build(world, folder))
    assert not {path for path in plain if path.startswith("controller")}
    assert b"bundle --controller" in plain["README.txt"]


@pytest.mark.slow
def test_an_earlier_bundle_is_enough_for_the_controller_too(
    world: World, tmp_path: Path, wheels_of_ansible: None
) -> None:
    first = build(world, tmp_path / "first", "--controller")
    world.server.files.clear()
    second = build(world, tmp_path / "second", "--controller", "--from", first)
    assert contents(first) == contents(second)


def test_the_documentation_is_what_lies_in_docs() -> None:
    pages = collection.documentation()
    assert pages["README.md"] == (ROOT / "docs/README.md").read_bytes()
    assert "decisions/0015-bundle.md" in pages
