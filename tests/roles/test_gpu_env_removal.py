"""The lines in /etc/environment go with the role, by Ansible itself on a file of the test's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from provision.run import find_program

ROLE = Path(__file__).parents[2] / "roles/gpu_env"
MARKER = yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8"))["__gpu_env_marker"]
BLOCK = "\n".join(
    [MARKER.replace("{mark}", "BEGIN"), "XLA_FLAGS=x", MARKER.replace("{mark}", "END"), ""]
)


def remove(folder: Path, *more: str) -> str:
    """The host's counts, by the tasks of absent.yml that are about /etc/environment."""
    tasks = yaml.safe_load((ROLE / "tasks/absent.yml").read_text("utf-8"))
    ours = [task for task in tasks if "/etc/environment" in json.dumps(task)]
    text = json.dumps(ours).replace("/etc/environment", str(folder / "environment"))
    play = {
        "hosts": "localhost", "gather_facts": False,
        "vars": {"__gpu_env_marker": MARKER}, "tasks": json.loads(text),
    }  # fmt: skip
    (folder / "play.yml").write_text(json.dumps([play]), "utf-8")
    done = subprocess.run(
        [find_program(), "play.yml", *more],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.rpartition("localhost")[2]


@pytest.mark.parametrize("mode", [[], ["--check"]], ids=["run", "check"])
def test_a_file_that_somebody_deleted_is_no_failure(tmp_path: Path, mode: list[str]) -> None:
    assert "changed=0" in remove(tmp_path, *mode)
    assert not (tmp_path / "environment").exists()


def test_the_lines_go_and_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "environment"
    file.write_text("MINE=1\n" + BLOCK, "utf-8")
    assert "changed=1" in remove(tmp_path, "--check")
    assert file.read_text("utf-8") == "MINE=1\n" + BLOCK
    assert "changed=1" in remove(tmp_path)
    assert file.read_text("utf-8") == "MINE=1\n"
    assert "changed=0" in remove(tmp_path)
