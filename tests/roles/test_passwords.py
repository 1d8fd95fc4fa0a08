"""Passwords of mirrors and proxies stand in no command line.

What Ansible is given as a task's `environment` is part of the command line of `sh -c`, and of ssh
on the controller: everybody may read that. Addresses go by standard input or in the module's own
arguments, and into files that root alone reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).parents[2] / "roles"
# Options whose value may be an address with a password, and what the roles make of them.
ADDRESS = re.compile(
    r"\b\w+_(mirror|proxy|urls?|index_urls|addresses"
    r"|(repository|runfile|mirror|installer|key)_from)\b|\b__cudnn_url\b"
)
# These show no password: it is taken out, there is none, or another word is made of the address.
HARMLESS = re.compile(
    r"\{[^{}]*\} if __\w+_secret \| bool else __\w+_addresses"
    r"|\b\w+ \| regex_replace\('//\[\^/@\]\*@', '//'\)|\b\w+ \| urlsplit\('hostname'\)"
)


def tasks(path: Path) -> Iterator[dict[str, Any]]:
    waiting = list(yaml.safe_load(path.read_text("utf-8")) or [])
    while waiting:
        task = waiting.pop(0)
        yield task
        for key in ("block", "rescue", "always"):
            waiting += task.get(key) or []


def expanded(text: str, variables: dict[str, str]) -> str:
    """The text with the role's own variables in place of their names, a few levels deep."""
    for _level in range(4):
        text = HARMLESS.sub("", text)
        text = re.sub(
            r"\b__[a-z0-9_]+\b",
            lambda m: m[0] if ADDRESS.fullmatch(m[0]) else variables.get(m[0], m[0]),
            text,
        )
    return HARMLESS.sub("", text)


def spoken(role: str) -> Iterator[str]:
    """ "file: task: address" of each environment and argument list that has one."""
    variables: dict[str, str] = {}
    for path in sorted((ROLES / role / "vars").glob("*.yml")):
        for name, value in (yaml.safe_load(path.read_text("utf-8")) or {}).items():
            # Of a condition only its name counts.
            if not name.endswith("_secret"):
                variables.setdefault(name, str(value))
    for path in sorted((ROLES / role / "tasks").glob("*.yml")):
        for task in tasks(path):
            command = task.get("ansible.builtin.command") or task.get("ansible.builtin.shell") or ""
            if isinstance(command, dict):
                command = command.get("argv", command.get("cmd", ""))
            local = {name: str(value) for name, value in (task.get("vars") or {}).items()}
            for words in (str(task.get("environment", "")), str(command)):
                found = ADDRESS.search(expanded(words, variables | local))
                if found is not None:
                    yield f"{path.name}: {task.get('name')}: {found[0]}"


@pytest.mark.parametrize("role", ["tensorflow"])
def test_no_address_stands_in_a_command_line(role: str) -> None:
    assert list(spoken(role)) == []
