"""Commands over odd files of a project: exit code 2 and the file's name, and `--upgrade` cures."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from provision import cli, inventory
from provision import lock as locks
from provision.errors import InputError, MachineError, UnsatisfiableError
from tests.unit.generator import recorded

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command on the project tmp_path, whose gpu01 wishes for TensorFlow 2.9."""
    export = {
        "_meta": {"hostvars": {"gpu01": {"gpu_stack": {"tensorflow": "2.9"}}}},
        "all": {"hosts": ["gpu01"]},
    }
    monkeypatch.setattr(inventory, "read_export", lambda *_a, **_k: export)
    monkeypatch.setattr("provision.upstream.debian.read", lambda *_a, **_k: recorded.indices())
    answer = recorded.REQUIREMENTS
    monkeypatch.setattr("provision.upstream.wheels.requirements", lambda *_a, **_k: answer)
    (tmp_path / "lab").mkdir()
    (tmp_path / "discovered.yml").write_text(
        "hosts: {gpu01: {platform: debian11, system: debian 11 x86_64, gpus: []}}\n"
    )

    def run(name: str, *arguments: str) -> Result:
        place = [str(tmp_path)] if name == "render" else ["--project", str(tmp_path)]
        return CliRunner().invoke(cli.app, [name, *place, *arguments])

    return run


def refused(result: Result) -> InputError:
    assert isinstance(result.exception, InputError), repr(result.exception)
    return result.exception


def odd(details: str, digest: str = "x") -> str:
    return f"gpu_lock: {{format: 1, digest: {digest}}}\ngpu_lock_details: {details}\n"


@pytest.mark.parametrize(
    "text",
    [
        odd("{a: 2024-01-01}"),
        odd("{~: 1, a: 2}"),
        odd("{2024-01-01: 1}"),
        odd("&a [*a]"),
        odd("!!int x"),
        odd("[" * 50_000),
        odd("{}", locks.digest_of(None, None, {})),
        "\0",
    ],
)
def test_upgrade_makes_an_odd_lock_anew(command: Command, tmp_path: Path, text: str) -> None:
    """It is the cure that the refusal names, and ended as "a fault of provision itself" too."""
    path = tmp_path / "lock.yml"
    assert command("lock").exit_code == 0
    before = path.read_bytes()
    path.write_text(text)
    for name in ("lock", "render"):
        error = refused(command(name))
        assert "`provision lock --upgrade` makes it anew" in error.hint
        assert error.where.startswith(str(path))
    done = command("lock", "--upgrade")
    assert done.exit_code == 0, repr(done.exception)
    assert "nothing of it is kept" in done.output
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["lock.yml", "discovered.yml", ".provision-manifest.json"])
@pytest.mark.parametrize("kind", ["a directory", "a named pipe"])
def test_what_is_no_file_is_refused(command: Command, tmp_path: Path, name: str, kind: str) -> None:
    """A directory was "a fault of provision itself", a named pipe waited for a writer for ever."""
    assert command("lock").exit_code == 0
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir() if kind == "a directory" else os.mkfifo(tmp_path / name)
    calls = [("render",)]
    if name != ".provision-manifest.json":
        calls += [("lock", "--upgrade"), ("explain", "gpu01")]
    for arguments in calls:
        error = refused(command(*arguments))
        assert error.message == f"{kind} is where a file should be"
        assert error.where == str(tmp_path / name)


@pytest.mark.parametrize("platform", ["debian99", "2024-01-01", "[]"])
def test_a_platform_that_this_version_does_not_know_is_refused(
    command: Command, tmp_path: Path, platform: str
) -> None:
    """discovered.yml may come from another version of provision; it was an IndexError."""
    path = tmp_path / "discovered.yml"
    path.write_text(f"hosts: {{gpu01: {{platform: {platform}, system: x, gpus: []}}}}\n")
    error = refused(command("lock"))
    assert error.where.startswith(str(path))
    assert error.hint == "remove it, then `provision discover`"


def test_wheels_that_clash_are_refused_with_the_place_of_the_wish(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`packages: ["numpy>=2"]` with TensorFlow 2.9 was refused without file and line."""
    (tmp_path / "lab" / "hosts.yml").write_text(
        "all:\n  hosts:\n    gpu01:\n      gpu_stack: {tensorflow: '2.9'}\n"
    )

    def clash(*_a: object, **_k: object) -> str:
        raise UnsatisfiableError("the index has no set of wheels that fits", where="numpy>=2")

    monkeypatch.setattr("provision.upstream.wheels.requirements", clash)
    error = command("lock").exception
    assert isinstance(error, UnsatisfiableError)
    assert error.where == f"{tmp_path}/lab/hosts.yml:4: numpy>=2"


VAULTED = {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n6234\n"}


@pytest.mark.parametrize(
    ("wish", "word"),
    [
        ({"tensorflow": VAULTED}, "tensorflow"),
        (VAULTED, "gpu_stack"),
        ({"cudnn": {"version": "8.1", "sha256": VAULTED}}, "sha256"),
        ({"tensorflow": "2.9", "packages": ["x", VAULTED]}, "packages"),
        ({"tensorflow": "2.9", "beside": [{"tensorflow": VAULTED}]}, "tensorflow"),
    ],
)
def test_a_vaulted_version_is_called_that(wish: Any, word: str) -> None:
    """It "is not a version", and the cipher text was shown."""
    with pytest.raises(InputError, match=f"^lab: {word} is vaulted") as caught:
        inventory.parse_wish(wish, where="lab")
    assert "ANSIBLE_VAULT" not in str(caught.value)


@pytest.mark.parametrize("version", ["2.9\n", "2.9 ", "\n2.9", "2.\u0669", "\uff12.9", ""])
def test_a_version_is_digits_and_dots_and_nothing_else(version: str) -> None:
    with pytest.raises(InputError, match="is not a version"):
        inventory.parse_wish({"tensorflow": version}, where="lab")


def test_a_vaulted_file_is_refused_with_the_option_that_opens_it(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6234\n")
    with pytest.raises(InputError) as caught:
        inventory.read_export([str(tmp_path / "hosts.yml")], cwd=tmp_path)
    assert "--vault-password-file FILE" in caught.value.hint


def test_an_inventory_that_never_answers_is_a_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A dynamic inventory whose cloud was silent hung every command, a nightly job for ever."""
    script = tmp_path / "cloud"
    script.write_text("#!/bin/sh\nexec sleep 20\n")
    script.chmod(0o755)
    monkeypatch.setattr("provision.inventory.export._TIMEOUT", 4)
    with pytest.raises(MachineError, match="ansible-inventory did not end") as caught:
        inventory.read_export([str(script)], cwd=tmp_path)
    error = caught.value
    assert (error.where, error.got) == (str(script), "nothing after 4 s")
    assert f"ansible-inventory -i {script} --list" in error.hint
    assert error.exit_code == 7


def test_an_empty_inventory_word_is_not_the_current_directory(command: Command) -> None:
    """`-i "$UNSET"` read every file below the folder that the user happened to be in."""
    error = refused(command("lock", "-i", ""))
    assert (error.message, error.where) == ("there is no such inventory", "-i ''")
