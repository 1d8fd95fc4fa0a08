"""What the roles let apt do: nothing is removed unasked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from gpu_stack.host import apt_commands

ROLES = Path(__file__).parents[2] / "roles"
OURS = sorted(path.parent.name for path in ROLES.glob("*/tasks"))


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


def test_packages_come_without_python3_apt() -> None:
    """ansible.builtin.apt fetches it first where it is missing, and fails with any bad source."""
    assert "gpu_front_door" in OURS
    assert [where for where, task, _words in calls() if "ansible.builtin.apt" in task] == []
    assert (
        len([where for where, task, _words in calls() if "provision.gpu.named_packages" in task])
        > 5
    )


def test_no_installation_removes_a_package() -> None:
    """For an exact version apt removed somebody's own package, with no further question."""
    assert "--no-remove" in apt_commands.INSTALL
    commands = {
        where: words for where, _task, words in calls() if "apt-get" in words and "install" in words
    }
    asked = ("--no-remove", "--simulate")
    assert [
        where for where, words in commands.items() if not any(option in words for option in asked)
    ] == []


def test_the_hosts_own_settings_remove_nothing() -> None:
    asked = {
        where: words for where, _task, words in calls() if "apt-get" in words and "install" in words
    }
    assert asked
    for setting in apt_commands.SETTINGS:
        assert [where for where, words in asked.items() if setting not in words] == []


def test_only_modules_remove_packages() -> None:
    """With APT::Get::AutomaticRemove in apt.conf apt would take along what nobody asked for."""
    assert [
        where
        for where, _task, words in calls()
        if "apt-get" in words and re.search(r"(?<!-)\b(remove|purge|autoremove)\b", words)
    ] == []
