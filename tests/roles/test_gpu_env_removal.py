"""The lines in /etc/environment come and go, by Ansible itself on a file of the test's."""

from __future__ import annotations

import json
import os
import stat
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
    return perform("absent", folder, *more).rpartition("localhost")[2]


def perform(tasks_of: str, folder: Path, *more: str) -> str:
    """What Ansible says of the tasks of a file that are about /etc/environment."""
    tasks = yaml.safe_load((ROLE / f"tasks/{tasks_of}.yml").read_text("utf-8"))
    ours = [task for task in tasks if "/etc/environment" in json.dumps(task)]
    text = json.dumps(ours).replace('"/etc/environment"', json.dumps(str(folder / "environment")))
    text = text.replace("'etc/", f"'{ROLE}/templates/etc/")
    play = {
        "hosts": "localhost", "gather_facts": False,
        "vars": {"__gpu_env_marker": MARKER, "__gpu_env_assignments": [["XLA_FLAGS", "x"]]},
        "tasks": json.loads(text),
    }  # fmt: skip
    (folder / "play.yml").write_text(json.dumps([play]), "utf-8")
    done = subprocess.run(
        [find_program(), "play.yml", *more],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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


@pytest.mark.parametrize(
    ("mode", "expected"), [(None, 0o640), (0o600, 0o600), (0o640, 0o640), (0o666, 0o644)]
)
def test_the_file_is_not_opened_for_others(tmp_path: Path, mode: int | None, expected: int) -> None:
    """A new one is as root's umask has it."""
    file = tmp_path / "environment"
    if mode is not None:
        file.write_text("https_proxy=http://me:secret@proxy:3128\n", "utf-8")
        file.chmod(mode)
    old = os.umask(0o027)
    try:
        assert "changed=1" in perform("present", tmp_path)
        assert "changed=0" in perform("present", tmp_path)
    finally:
        os.umask(old)
    assert "XLA_FLAGS" in file.read_text("utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == expected


@pytest.mark.parametrize("tasks", ["present", "absent"])
def test_a_password_in_it_is_in_no_diff(tmp_path: Path, tasks: str) -> None:
    text = "https_proxy=http://me:secret@proxy:3128\n"
    text += BLOCK if tasks == "absent" else ""
    (tmp_path / "environment").write_text(text, "utf-8")
    said = perform(tasks, tmp_path, "--diff")
    assert "changed=1" in said
    assert "secret" not in said
