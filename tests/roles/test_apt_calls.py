"""What the roles let apt do: nothing is removed unasked, and its cache keeps what was in it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).parents[2] / "roles"
OURS = ("nvidia_driver", "cuda", "nvidia_container_toolkit", "tensorflow", "apt")


def tasks(path: Path) -> Iterator[dict[str, Any]]:
    waiting = list(yaml.safe_load(path.read_text("utf-8")) or [])
    while waiting:
        task = waiting.pop(0)
        yield task
        for key in ("block", "rescue", "always"):
            waiting += task.get(key) or []


def calls() -> Iterator[tuple[str, dict[str, Any], str]]:
    """("role/file: task", the task, the words of its command) of each task of these roles."""
    for role in OURS:
        for path in sorted((ROLES / role / "tasks").rglob("*.yml")):
            for task in tasks(path):
                command = task.get("ansible.builtin.command") or ""
                if isinstance(command, dict):
                    command = command.get("argv", command.get("cmd", ""))
                yield f"{role}/{path.name}: {task.get('name')}", task, str(command)


def test_no_installation_removes_a_package() -> None:
    """For an exact version apt removed somebody's own package, with no further question."""
    modules = {
        where: task["ansible.builtin.apt"].get("fail_on_autoremove")
        for where, task, _words in calls()
        if "name" in task.get("ansible.builtin.apt", {})
    }
    assert len(modules) >= 7
    assert [where for where, value in modules.items() if value is not True] == []
    commands = {
        where: words
        for where, _task, words in calls()
        if ("apt-get" in words or "__nvidia_driver_apt_get" in words) and "install" in words
    }
    assert len(commands) >= 5
    asked = ("--no-remove", "--simulate")
    assert [
        where for where, words in commands.items() if not any(one in words for one in asked)
    ] == [
        # Names what goes, which was asked and refused where it is not in the plan.
        "nvidia_driver/branch.yml: branch | Install, and remove the other branch"
    ]


def test_a_removal_takes_no_others_along() -> None:
    """With APT::Get::AutomaticRemove in apt.conf apt would take along what nobody asked for."""
    words = [words for _where, _task, words in calls() if "'remove'" in words and "apt" in words]
    assert len(words) >= 2
    shared = yaml.safe_load((ROLES / "nvidia_driver/vars/main.yml").read_text("utf-8"))
    option = "-oAPT::Get::AutomaticRemove=false"
    assert option in shared["__nvidia_driver_apt_get"]
    assert [
        one for one in words if option not in one and "__nvidia_driver_apt_get" not in one
    ] == []


@pytest.mark.parametrize(("keep", "left"), [("", ["mine.deb"]), ("true", ["mine.deb", "new.deb"])])
def test_what_a_run_downloaded_leaves_the_cache_and_nothing_else(
    keep: str, left: list[str], tmp_path: Path
) -> None:
    cache = tmp_path / "archives"
    cache.mkdir()
    (cache / "mine.deb").touch()
    config = f"#!/bin/sh\necho \"archives='{cache}/'\"\n" + (f"echo keep={keep}\n" if keep else "")
    (tmp_path / "apt-config").write_text(config)
    (tmp_path / "apt-config").chmod(0o755)
    time.sleep(0.05)
    began = f"{time.time():.9f}"
    time.sleep(0.05)
    (cache / "new.deb").touch()
    os.utime(cache / "new.deb", (1, 1))  # as old as on the server
    (task,) = tasks(ROLES / "apt/tasks/cache.yml")
    argv = [*task["ansible.builtin.command"]["argv"][:-1], began]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(argv, check=True, env=environment, capture_output=True)
    assert sorted(path.name for path in cache.iterdir()) == left
