"""Passwords of mirrors and proxies stand in no command line.

What Ansible is given as a task's `environment` is part of the command line of `sh -c`, and of ssh
on the controller: everybody may read that. Addresses go by standard input or in the module's own
arguments, and into files that root alone reads.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_stack.components.tensorflow import pip_install

from tests.collection import IMPORTABLE

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
ROLES = Path(__file__).parents[2] / "roles"
# Options whose value may be an address with a password, and what the roles make of them.
ADDRESS = re.compile(
    r"\bapt_login\b|\b\w+_(mirror|proxy|urls?|index_urls|addresses"
    r"|(repository|runfile|mirror|installer|key)_from)\b"
)
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
        text = re.sub(
            r"\b__[a-z0-9_]+\b",
            lambda m: m[0] if ADDRESS.fullmatch(m[0]) else variables.get(m[0], m[0]),
            text,
        )
    return text


def spoken(role: str) -> Iterator[str]:
    """ "file: task: address" of each environment and argument list that has one."""
    variables: dict[str, str] = {}
    for path in sorted((ROLES / role / "vars").glob("*.yml")):
        for name, value in (yaml.safe_load(path.read_text("utf-8")) or {}).items():
            if not name.endswith(WITHOUT):
                variables.setdefault(name, str(value))
    for path in sorted((ROLES / role / "tasks").rglob("*.yml")):
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
    "role", ["tensorflow", "cudnn", "cuda", "nvidia_driver", "nvidia_container_toolkit", "apt"]
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
    assert len(found) == 2


def test_apt_is_given_passwords_in_files_that_root_alone_reads() -> None:
    """A package source is read by everybody who asks apt something."""
    (task,) = tasks(ROLES / "apt/tasks/password.yml")
    (file,) = task["provision.gpu.managed_files"]["files"]
    assert file["mode"] == "0600"
    assert (task["no_log"], task["diff"]) == (True, False)
    for role in ("nvidia_driver", "cuda", "nvidia_container_toolkit"):
        for path in (ROLES / role / "templates/etc/apt/sources.list.d").glob("*.j2"):
            for line in path.read_text("utf-8").splitlines():
                if line.startswith("URIs: "):
                    assert re.search(r"_(bare|told)\b", line), (path.name, line)


def played(tmp_path: Path, play: dict[str, Any], **options: Any) -> None:
    """Runs a play on this machine; the options take precedence of all other variables."""
    options["ansible_python_interpreter"] = sys.executable
    words = ["-i", "localhost,", "-c", "local", "-e", json.dumps(options)]
    book = [{"hosts": "localhost", "gather_facts": False, **play}]
    (tmp_path / "play.yml").write_text(json.dumps(book))
    done = subprocess.run(
        [str(PLAYBOOK), *words, str(tmp_path / "play.yml")],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(IMPORTABLE)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_apt_reads_the_password_as_its_address_has_it(tmp_path: Path) -> None:
    """As apt_auth.conf(5) wants it: percent signs undone, http said."""
    cases = {
        "http://ada:s%40cr:t+x@127.0.0.1:8099/debian/": (
            "machine http://127.0.0.1:8099/debian/ login ada password s@cr:t+x"
        ),
        "https://ada:pw@Mirror.example.org/cuda": (
            "machine Mirror.example.org/cuda login ada password pw"
        ),
        "https://mirror.example.org/cuda": None,
    }
    include = str(ROLES / "apt/tasks/password.yml")
    tasks = [
        {
            "ansible.builtin.include_tasks": include,
            "vars": {
                "apt_login": address,
                "apt_login_file": str(tmp_path / f"{number}.conf"),
            },
        }
        for number, address in enumerate(cases)
    ]
    (tmp_path / "2.conf").write_text("left by a former address")
    # What a bind mount leaves in a file's place.
    (tmp_path / "1.conf").mkdir()
    played(tmp_path, {"tasks": tasks})
    for number, line in enumerate(cases.values()):
        path = tmp_path / f"{number}.conf"
        assert path.exists() == (line is not None)
        if line is not None:
            assert path.read_text("utf-8").splitlines()[1:] == [line]
            assert path.stat().st_mode & 0o777 == 0o600


def test_pip_reads_addresses_with_a_password_from_standard_input(tmp_path: Path) -> None:
    """It reads its configuration more than once, and a pipe gives it once."""
    venv.create(tmp_path / "venv", with_pip=True)
    options = {
        "index_url": "https://ada:s%40cret@mirror.example.org/simple",
        "extra_index_urls": ["https://a.example.org/x", "https://b.example.org/y"],
        "proxy": "http://p:q@proxy.example.org:3128",
    }
    # What it lists goes where a test can read it: of pip itself standard error is kept alone.
    pip = [str(tmp_path / "venv/bin/python"), "-I", "-m", "pip", "config", "list"]
    code, output = pip_install.run(
        ["/bin/sh", "-c", 'exec "$@" >&2', "sh", *pip], str(tmp_path), options
    )
    assert code == 0, output
    assert "global.index-url='https://ada:s%40cret@mirror.example.org/simple'" in output
    assert "global.extra-index-url='https://a.example.org/x https://b.example.org/y'" in output
    assert "global.proxy='http://p:q@proxy.example.org:3128'" in output
    environment = pip_install.environment(str(tmp_path), options)
    assert "cret" not in str(environment), "it is in the environment as well"
    assert os.listdir(tmp_path) == ["venv"], "it is in a file that stays"
    assert "cret" not in str(pip_install.command(str(tmp_path)))


def test_addresses_without_a_password_go_to_pip_as_its_environment(tmp_path: Path) -> None:
    options = {
        "index_url": "https://mirror.example.org/simple",
        "extra_index_urls": ["https://a.example.org/x", "https://b.example.org/y"],
        "proxy": "", "ca_bundle": "/etc/ca.pem",
    }  # fmt: skip
    assert pip_install.settings(options) == ""
    assert pip_install.environment("/place", options) == {
        "TMPDIR": "/place",
        "LC_ALL": "C.UTF-8",
        "PIP_CERT": "/etc/ca.pem",
        "PIP_INDEX_URL": "https://mirror.example.org/simple",
        "PIP_EXTRA_INDEX_URL": "https://a.example.org/x https://b.example.org/y",
    }
    code, output = pip_install.run(
        ["/bin/sh", "-c", "cat >&2; umask >&2; exit 3", "sh"], str(tmp_path), {}
    )
    assert (code, output) == (3, "0022\n")
