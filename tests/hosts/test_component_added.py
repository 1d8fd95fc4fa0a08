"""A component added to a copy of the repository is brought to a host, proven and removed again.

It is added by files and one line in the registry alone (tests/made_up_component.py), as
docs/architecture.md says. Everything else is absent, so that nothing is downloaded.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Project

from tests import made_up_component as made_up

HOST = "bare1"
OTHERS = ("nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up.copy_with_it(tmp_path_factory.mktemp("made-up"))


def provision(
    copy: Path, project: Project, *arguments: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = made_up.provision(copy, project.path, *arguments)
    assert done.returncode == code, done.stdout[-6000:] + done.stderr
    return done


def wish(project: Project, **options: Any) -> None:
    """Writes the host's variables: the other components are absent."""
    variables = {f"{name}_state": "absent" for name in OTHERS} | options
    path = project.path / "lab/host_vars" / f"{HOST}.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(variables), "utf-8")


def entry(project: Project) -> Any:
    return project.entry(HOST)


def planned(project: Project) -> list[str]:
    """The items of the made-up component in the last report."""
    return [
        change["item"]
        for change in entry(project)["changes"]
        if change["component"] == made_up.NAME
    ]


def checks(project: Project) -> dict[str, str]:
    """{check: result} of the last run."""
    return {check["id"]: check["result"] for check in entry(project)["checks"]}


def test_it_is_brought_proven_and_removed(bare: Project, copy: Path) -> None:
    wish(bare, gpu_note_text="hello")
    provision(copy, bare, "lock")
    provision(copy, bare, "render", ".")

    provision(copy, bare, "plan", "-i", "lab", code=5)
    assert planned(bare) == [made_up.PATH]
    provision(copy, bare, "apply", "-i", "lab")
    assert bare.ssh(HOST, f"cat {made_up.PATH}") == "hello\n"
    assert entry(bare)["status"] == "proven"
    assert checks(bare)["gpu_note.text"] == "passed"

    # As wished: nothing is planned, and the check alone says so too.
    provision(copy, bare, "plan", "-i", "lab")
    assert entry(bare)["changes"] == []
    provision(copy, bare, "verify", "-i", "lab")
    assert checks(bare)["gpu_note.text"] == "passed"

    # Damage is seen by the plan.
    bare.ssh(HOST, f"echo other | sudo tee {made_up.PATH}")
    provision(copy, bare, "plan", "-i", "lab", code=5)
    assert planned(bare) == [made_up.PATH]

    wish(bare, gpu_note_text="hello", gpu_note_state="absent")
    provision(copy, bare, "apply", "-i", "lab")
    assert bare.ssh(HOST, f"ls {made_up.PATH} 2>/dev/null || echo none") == "none\n"
    assert checks(bare)["gpu_note.text"] == "not_applicable"
    provision(copy, bare, "plan", "-i", "lab")
    assert entry(bare)["changes"] == []
