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
# Without a password in it: nothing else is done where there is one.
HARMLESS = re.compile(r"\{[^{}]*\} if __\w+_secret \| bool else __\w+_addresses")
# Of these names only a part of the address is left: no password (the next test), a host, a file.
WITHOUT = (
    "_secret",
    "_bare",
    "_told",
    "_host",
    "_file",
    "_path",
    "_paths",
    "_installer_repository",
)
STRIPPED = "regex_replace('//[^/ ]*@', '//')"


def tasks(path: Path) -> Iterator[dict[str, Any]]:
    waiting = list(yaml.safe_load(path.read_text("utf-8")) or [])
    while waiting:
        task = waiting.pop(0)
        yield task
        if "'@' not in" in str(task.get("when")):  # only where there is no password
            continue
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
            if not name.endswith(WITHOUT):
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


@pytest.mark.parametrize(
    "role", ["tensorflow", "cudnn", "cuda", "nvidia_driver", "nvidia_container_toolkit"]
)
def test_no_address_stands_in_a_command_line(role: str) -> None:
    assert list(spoken(role)) == []


def test_what_is_called_bare_has_no_password() -> None:
    found = []
    for path in ROLES.glob("*/vars/*.yml"):
        for name, value in (yaml.safe_load(path.read_text("utf-8")) or {}).items():
            if name.endswith("_bare"):
                found.append(name)
                assert STRIPPED in value, name
    assert len(found) == 4


def test_apt_is_given_passwords_in_files_that_root_alone_reads() -> None:
    """A package source is read by everybody who asks apt something."""
    for role in ("nvidia_driver", "cuda", "nvidia_container_toolkit"):
        (first, _second) = tasks(ROLES / role / "tasks" / "password.yml")
        assert first["ansible.builtin.copy"]["mode"] == "0600"
        assert (first["no_log"], first["diff"]) == (True, False)
        for path in (ROLES / role / "templates/etc/apt/sources.list.d").glob("*.j2"):
            for line in path.read_text("utf-8").splitlines():
                if line.startswith("URIs: ") and "stanza.uri" not in line:
                    assert re.search(r"_(bare|told|uri)\b|\{ uri \}", line), (path.name, line)
