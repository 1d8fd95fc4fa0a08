"""The same tree under ansible-runner, which AWX is made of: to the outcome of ansible-playbook."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, Project, bare_hosts

pytestmark = [pytest.mark.slow]

HOST = "runner1"

runner = bare_hosts("runner", HOST)


def by_runner(project: Project, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A run of site.yml by ansible-runner, whose folder names the tree as its project."""
    folder.mkdir()
    (folder / "project").symlink_to(project.path)
    command = [str(BIN / "ansible-runner"), "run", str(folder), "-p", "site.yml"]
    return subprocess.run(
        [*command, "--inventory", str(project.path / "lab"), "--cmdline", " ".join(options)],
        capture_output=True, text=True, check=False, timeout=1800,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
    )  # fmt: skip


def test_ansible_runner_comes_to_the_outcome_of_ansible_playbook(
    runner: Project, tmp_path: Path
) -> None:
    assert runner.playbook("--tags", "gpu_env", "--check").returncode == 0
    planned = runner.entry(HOST)
    done = by_runner(runner, tmp_path / "first", "--tags", "gpu_env")
    assert done.returncode == 0, done.stdout + done.stderr
    entry = runner.entry(HOST)
    assert runner.report["mode"] == "run"
    for key in ("changes", "wanted", "stack", "platform", "status"):
        assert entry[key] == planned[key], key
    assert entry["components"]["gpu_env"]["changed"]
    # And ansible-playbook finds nothing of it left to do.
    assert runner.playbook("--tags", "gpu_env", "--check").returncode == 0
    assert [change for change in runner.entry(HOST)["changes"] if change["selected"]] == []


def test_a_limit_that_matches_nothing_is_refused_there_too(runner: Project, tmp_path: Path) -> None:
    """AWX's jobs have a field for it, in which a renamed host would be passed over in silence."""
    done = by_runner(runner, tmp_path / "second", "--limit", "runner9")
    assert done.returncode != 0
    assert "runner9" in done.stdout
