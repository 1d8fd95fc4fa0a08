"""The action plugin and the module give one answer; what cannot be piped falls back."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
from ansible import release
from ansible_collections.provision.gpu.plugins.action.gpu_state import script
from ansible_collections.provision.gpu.plugins.plugin_utils import look_sources

from tests.collection import ACTIONS, PLUGINS, collections

PLAYBOOK = """
- hosts: all
  gather_facts: false
  vars_files: [{lock}]
  vars:
    gpu_stack: {{tensorflow: "2.9"}}
  tasks:
    - ansible.builtin.import_role: {{name: provision.gpu.gpu_state}}
      tags: [always]
    - write_json: {{path: {result}, value: "{{{{ gpu_plan | to_json }}}}"}}
      tags: [always]
"""


def settings(tmp_path: Path) -> dict[str, str]:
    """The environment of an Ansible that knows the collection."""
    path = tmp_path / "collections"
    path = path if path.exists() else collections(path)
    return {
        **os.environ,
        **ACTIONS,
        "ANSIBLE_COLLECTIONS_PATH": str(path),
        "ANSIBLE_NOCOLOR": "1",
        # From ansible-core 2.21 on -vvv shows a module's arguments only where that is asked for.
        "ANSIBLE_INJECT_INVOCATION": "true",
    }


def run(tmp_path: Path, *arguments: str, **environment: str) -> tuple[dict[str, Any], str]:
    """The registered result of the look on this machine, and Ansible's output."""
    result = tmp_path / "result.json"
    # The machine's own platform, so that the lock has a row for it.
    release = dict(
        line.replace('"', "").split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    platform = {
        "distribution": release["ID"],
        "release": release.get("VERSION_ID", ""),
        "architecture": os.uname().machine,
    }
    lock = json.loads(json.dumps(made.LOCK))
    lock["rows"][0]["platform"] = platform
    (tmp_path / "lock.json").write_text(json.dumps({"gpu_lock": lock}))
    play = tmp_path / "play.yml"
    play.write_text(PLAYBOOK.format(lock=tmp_path / "lock.json", result=result))
    started = time.monotonic()
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            *["-i", "localhost,", "-c", "local", str(play), *arguments],
        ],
        env={**settings(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    print(f"{time.monotonic() - started:.2f} s")  # noqa: T201  a measurement, not a condition
    found = json.loads(result.read_text()) if result.exists() else {}
    return found, done.stdout + done.stderr


def without_ansibles_own(result: dict[str, Any]) -> dict[str, Any]:
    own = ("ansible_facts", "invocation", "warnings")
    return {key: value for key, value in result.items() if key not in own}


@pytest.fixture
def module_only(tmp_path: Path) -> str:
    """A Python that takes no program from standard input, so that the module has to do it."""
    picky = tmp_path / "python3"
    picky.write_text(f'#!/bin/sh\n[ "$2" = - ] && exit 3\nexec {sys.executable} "$@"\n')
    picky.chmod(0o755)
    return str(picky)


def test_piped_and_module_agree(tmp_path: Path, module_only: str) -> None:
    piped, log = run(tmp_path, "-vvv", "-e", f"ansible_python_interpreter={sys.executable}")
    assert "AnsiballZ_gpu_state" not in log
    assert piped["components"] == ["cuda", "cudnn", "gpu_env", "tensorflow", "receipt"], log
    assert piped["changed"] is False
    module, log = run(
        tmp_path,
        "-vvv",
        "-e",
        f"ansible_python_interpreter={module_only}",
        ANSIBLE_PIPELINING="false",
    )
    assert "using the module" in log
    assert "AnsiballZ_gpu_state" in log
    assert without_ansibles_own(module) == without_ansibles_own(piped)


SECRET = "0123456789abcdef-of-the-vault"  # noqa: S105


def test_of_a_token_the_look_gets_its_hash_alone(tmp_path: Path, module_only: str) -> None:
    """Piped or as a module, whose arguments Ansible shows with -vvv."""
    file = tmp_path / "said.json"
    file.write_text(
        json.dumps(
            {
                "gpu_workspaces": [{"name": "ada", "gpus": "none", "port": 8801}],
                "gpu_workspace_tokens": {"ada": "{{ secret }}"},
                "secret": SECRET,
            }
        )
    )
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    for python in (sys.executable, module_only):
        result, log = run(
            *(tmp_path, "-vvv", "-e", f"@{file}"),
            *("-e", f"ansible_python_interpreter={python}"),
            ANSIBLE_PIPELINING="false",
        )
        assert "gpu_workspace" in result["components"], log
        assert SECRET not in log + json.dumps(result)
        assert (digest in log) == (python == module_only)


def test_of_a_mirrors_password_the_look_gets_nothing(tmp_path: Path, module_only: str) -> None:
    """Over a connection without pipelining -vvv showed it among the module's arguments."""
    address = f"https://ada:{SECRET}@mirror.example.org/debian"
    file = tmp_path / "said.json"
    file.write_text(
        json.dumps(
            {
                "cuda_mirror": address,
                "nvidia_driver_repository_url": address,
                "nvidia_container_toolkit_docker_repository": {"url": address},
            }
        )
    )
    for python in (sys.executable, module_only):
        result, log = run(
            *(tmp_path, "-vvv", "-e", f"@{file}"),
            *("-e", f"ansible_python_interpreter={python}"),
            ANSIBLE_PIPELINING="false",
        )
        items = [change["item"] for change in result["changes"]]
        assert "/etc/apt/auth.conf.d/provision-cuda-mirror.conf" in items, log
        assert ("https://@mirror.example.org/debian" in log) == (python == module_only)
        assert SECRET not in log + json.dumps(result)


@pytest.mark.parametrize("piped", [True, False])
def test_of_a_given_key_the_look_gets_its_hash_alone(
    tmp_path: Path, module_only: str, piped: bool
) -> None:
    """Of a file that Ansible Vault keeps, the hash of what it holds."""
    key, vault = tmp_path / "key.pem", tmp_path / "vault"
    key.write_text(SECRET + "\n")
    (tmp_path / "chain.pem").write_text("chain\n")
    vault.write_text("a password of the vault's")
    tools = Path(sys.executable).parent
    subprocess.run(
        [str(tools / "ansible-vault"), "encrypt", "--vault-password-file", str(vault), str(key)],
        check=True,
        capture_output=True,
    )
    assert SECRET not in key.read_text()
    answers = {
        "gpu_front_door_name": "gpu07.example.org",
        "gpu_front_door_tls": "given",
        "gpu_front_door_certificate": str(tmp_path / "chain.pem"),
        "gpu_front_door_key": str(key),
        "gpu_workspaces": [{"name": "ada", "gpus": "none", "port": 8801}],
    }
    (tmp_path / "said.json").write_text(json.dumps(answers))
    result, log = run(
        *(tmp_path, "-vvv", "-e", f"@{tmp_path / 'said.json'}"),
        *("--vault-password-file", str(vault)),
        *("-e", f"ansible_python_interpreter={sys.executable if piped else module_only}"),
        ANSIBLE_PIPELINING="false",
    )
    assert "gpu_front_door" in result["components"], log
    assert SECRET not in log + json.dumps(result)
    assert (hashlib.sha256(f"{SECRET}\n".encode()).hexdigest() in log) == (not piped)


def test_a_given_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    answers = {
        "gpu_front_door_name": "gpu07.example.org",
        "gpu_front_door_tls": "given",
        "gpu_front_door_certificate": "/nonexistent/chain.pem",
        "gpu_front_door_key": "/nonexistent/key.pem",
    }
    (tmp_path / "said.json").write_text(json.dumps(answers))
    result, log = run(tmp_path, "-e", f"@{tmp_path / 'said.json'}")
    assert result == {}
    expected = "gpu_front_door_certificate: /nonexistent/chain.pem can't be read on this machine"
    assert expected in " ".join(log.split())


def test_check_mode_is_changed_with_a_diff(tmp_path: Path) -> None:
    result, log = run(tmp_path, "--check", "--diff")
    assert result["changed"] is True, log
    assert "+cudnn cudnn: 8.1.0.77 for CUDA 11.2" in log


def test_tags_reach_the_plan(tmp_path: Path) -> None:
    result, _log = run(tmp_path, "--tags", "cudnn")
    assert result["components"] == ["cudnn"]
    assert result["not_selected"] == ["cuda", "gpu_env", "tensorflow"]


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({"base": "/srv", "cudnn_root": "{{ base }}/cudnn"}, "/srv/cudnn/"),
        ({"cudnn_root": "{{ not_defined_anywhere }}"}, "/opt/nvidia/cudnn/"),
        ({}, "/opt/nvidia/cudnn/"),
    ],
)
def test_a_hosts_own_variable_comes_before_the_default(
    tmp_path: Path, variables: dict[str, str], root: str
) -> None:
    result, log = run(tmp_path, "-e", json.dumps(variables))
    (change,) = [change for change in result["changes"] if change["component"] == "cudnn"]
    assert change["reason"].startswith(root), log


def test_only_versions_travel_of_what_was_found(tmp_path: Path) -> None:
    """Ansible handles every value of every host's answer several times."""
    result, _log = run(tmp_path)
    assert {frozenset(found) for found in result["state"].values()} == {frozenset({"version"})}


def test_a_host_that_keeps_the_look_is_sent_little() -> None:
    """A hundred hosts are sent a look each, by one machine."""
    whole, little = (len(script({}, False, sources)) for sources in (True, False))
    assert little < 16_000 < 200_000 < whole
    assert len(script({"doctor": True}, False)) > whole


@pytest.mark.parametrize(("variables", "sent"), [({}, [False, True]), ({"gpu_deep": True}, [True])])
def test_sources_are_sent_where_the_host_wants_them(
    tmp_path: Path, variables: dict[str, Any], sent: list[bool]
) -> None:
    """This machine keeps nothing: a look goes twice, and one that takes minutes is sent whole."""
    python = tmp_path / "python3"
    python.write_text(
        f'#!/bin/sh\n[ "$2" = - ] && exec tee -a {tmp_path}/sent-$$ | {sys.executable} "$@"\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    given = {"ansible_python_interpreter": str(python), **variables}
    result, log = run(tmp_path, "-e", json.dumps(given))
    assert "components" in result, log
    programs = sorted(tmp_path.glob("sent-*"), key=lambda path: path.stat().st_mtime_ns)
    assert [path.stat().st_size > 100_000 for path in programs] == sent


def test_an_unknown_option_of_the_task_is_refused(tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    play.write_text(
        "- hosts: all\n  gather_facts: false\n  roles: [provision.gpu.gpu_state]\n  tasks:\n"
        "    - provision.gpu.gpu_state: {lock: {}, wisch: {}}\n"
        "      tags: [here]\n"
    )
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            *["-i", "localhost,", "-c", "local", "--tags", "here", str(play)],
            *["-e", '{"gpu_lock": {}, "gpu_stack": {}}'],
        ],
        env=settings(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "gpu_state has no option wisch" in done.stdout + done.stderr


def test_a_host_without_python_is_told_so(tmp_path: Path) -> None:
    result, log = run(tmp_path, "-e", "ansible_python_interpreter=/nonexistent/python3")
    assert result == {}
    assert "there is no Python on this host (/nonexistent/python3 was not found)" in log
    assert "apt-get install python3" in log


OLD_PYTHON = """\
import sys
sys.version_info = (3, 6, 9)
exec(compile({program}, "<given>", "exec"))
"""


@pytest.mark.parametrize("piped", [True, False])
def test_a_python_that_the_installed_core_has_dropped_is_refused_before_any_module(
    tmp_path: Path, piped: bool
) -> None:
    """Ansible's own modules end on it with a SyntaxError."""
    for name, program in (("piped", "sys.stdin.read()"), ("given", "sys.argv[1]")):
        (tmp_path / name).write_text(OLD_PYTHON.format(program=program))
    old = tmp_path / "python3"
    given = f'exec {sys.executable} {tmp_path}/given "$2"'
    pipe = f"exec {sys.executable} {tmp_path}/piped" if piped else "exit 3"
    old.write_text(f'#!/bin/sh\n[ "$1" = -c ] && {given}\n[ "$2" = - ] && {pipe}\nexit 99\n')
    old.chmod(0o755)
    result, log = run(tmp_path, "-e", f"ansible_python_interpreter={old}")
    assert result == {}
    message = " ".join(log.split())
    core = f"ansible-core {release.__version__} manages Python"
    assert f"the host's Python at {sys.executable} is 3.6.9, and {core}" in message
    assert "; set ansible_python_interpreter to a Python 3.7 or newer on that host. Noth" in message
    assert "AnsiballZ" not in log


def test_a_lock_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    _result, log = run(tmp_path, "-e", '{"gpu_lock": ["x"]}')
    assert "lock" in log
    assert "failed=1" in log


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            "Missing sudo password",
            "sudo asks the user bob for a password on this host: run with -K",
        ),
        ("Incorrect doas password", "doas does not take this password of the user bob"),
        ("Data could not be sent to remote host", None),
    ],
)
def test_a_wanted_password_is_reported_with_its_cure(
    error: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PLUGINS / "action"))
    plugin = importlib.import_module("gpu_state")
    message = plugin.no_password(error, "bob")
    assert (message is None) if expected is None else message.startswith(expected)


def test_the_ordinary_look_ships_what_it_imports_and_nothing_of_the_doctor() -> None:
    """Every look pays for what goes down the wire; the doctor's files go when it is asked."""
    ordinary, doctors = look_sources.sources(), look_sources.sources(doctor=True)
    assert "gpu_stack.doctor.findings" in doctors
    assert "gpu_stack.components.nvidia_driver.doctor" in doctors
    # What the doctor alone does: it asks served models themselves.
    others = {"gpu_stack.components.gpu_serving.asking"}
    assert {name for name in doctors if "doctor" not in name} == set(ordinary) | others
    assert {"gpu_stack.__init__", "gpu_stack.look", "gpu_stack.host.dpkg"} <= set(ordinary)
    # What a module alone writes with.
    assert not {"gpu_stack.components.cudnn.archive", "gpu_stack.host.background"} & set(doctors)
    program = script({"doctor": True}, False)
    assert len(program) > len(script({}, False)) + 10_000


@pytest.mark.parametrize("given", ["missing", "there", "variable", "host", "none"])
def test_an_absent_archive_of_the_controller_blocks_before_anything_is_touched(
    tmp_path: Path, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "cudnn.tgz"
    if given in ("there", "variable"):
        archive.write_bytes(b"x")
    monkeypatch.setenv("ARCHIVES", str(tmp_path))
    path = "$ARCHIVES/cudnn.tgz" if given == "variable" else archive
    variables = [] if given == "none" else ["-e", f"cudnn_controller_file={path}"]
    if given == "host":
        variables += ["-e", "cudnn_host_file=/srv/cudnn.tgz"]
    plan, _ = run(tmp_path, "--check", *variables)
    named = [blocker for blocker in plan["blockers"] if blocker["id"] == "cudnn-archive"]
    assert [str(path) in reason["message"] for reason in named] == (
        [True] if given == "missing" else []
    )


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_private_key_that_others_may_read_is_refused_and_never_shown(
    tmp_path: Path, mode: int
) -> None:
    """Of the key no more than its SHA-256 goes to the host."""
    key, certificate = tmp_path / "mok.key", tmp_path / "mok.pem"
    key.write_text("MADEUPKEY")
    certificate.write_text("made up")
    key.chmod(mode)
    files = {"key": key, "certificate": certificate}
    variables = [f"-envidia_driver_signing_{name}_file={path}" for name, path in files.items()]
    plan, output = run(tmp_path, "--check", "-vvv", *variables)
    assert "MADEUPKEY" not in output + json.dumps(plan)
    refused = "is a private key that others than its owner may read" in output
    assert refused is (mode == 0o644)
    assert bool(plan) is (mode == 0o600)
