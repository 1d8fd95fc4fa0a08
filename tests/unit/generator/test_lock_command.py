"""`provision lock` as a person uses it: what it says, writes and exits with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from provision import cli
from provision import lock as locks
from provision.cli import projects
from provision.errors import InputError, ProvisionError
from provision.inventory import Fleet
from provision.lock import from_host
from tests.unit.generator import test_kept, test_twin
from tests.unit.generator.test_kept import Upstream

upstream = test_kept.upstream  # the fixture
Lock = Callable[..., Result]


@pytest.fixture
def fleet() -> dict[str, Any]:
    """The inventory: host -> gpu_stack."""
    return {"gpu01": {"tensorflow": "2.9"}}


@pytest.fixture
def lock(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fleet: dict[str, Any]
) -> Lock:
    def read(*_a: Any, **_k: Any) -> Fleet:
        return test_kept.fleet(**fleet)

    monkeypatch.setattr(projects, "read_fleet", read)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli.app, ["lock", "--project", str(tmp_path), *arguments])

    return run


def failed(result: Result) -> ProvisionError:
    assert isinstance(result.exception, ProvisionError), result.output
    return result.exception


def test_a_first_lock_gives_its_reasons(lock: Lock, tmp_path: Path) -> None:
    done = lock()
    assert done.exit_code == 0
    assert "lock.yml: written" in done.output
    assert "    cuda: TensorFlow 2.9 was built" in done.output
    assert (tmp_path / "lock.yml").exists()


def test_a_second_lock_says_unchanged(lock: Lock, tmp_path: Path) -> None:
    lock()
    before = (tmp_path / "lock.yml").read_bytes()
    done = lock()
    assert done.stdout.splitlines() == [f"{tmp_path}/lock.yml: unchanged"]
    assert (tmp_path / "lock.yml").read_bytes() == before


def test_an_upgrade_says_what_moves_for_whom(
    lock: Lock, upstream: Upstream, tmp_path: Path
) -> None:
    lock()
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    assert lock("--check").exit_code == 0
    line = (
        "  package nvidia-persistenced 470.103.01-2~deb11u1 -> 470.103.01-2~deb11u2 "
        "(debian 11: gpu01)"
    )
    checked = lock("--upgrade", "--check")
    assert checked.exit_code == 5
    assert line in checked.output
    assert "would change" in checked.output
    done = lock("--upgrade", "nvidia_driver")
    assert done.exit_code == 0
    assert line in done.output
    assert f"provision render {tmp_path}" in done.output


def test_a_lock_that_is_replaced_is_kept(lock: Lock, upstream: Upstream, tmp_path: Path) -> None:
    """For `provision rollback`, with what hosts get of it; one that stays is kept nowhere."""
    lock()
    former = (tmp_path / "lock.yml").read_bytes()
    digest = locks.parse(former, where="lock.yml").digest
    lock()
    assert not (tmp_path / "locks").exists()
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    lock("--upgrade", "--check")
    assert not (tmp_path / "locks").exists()
    assert lock("--upgrade").exit_code == 0
    (folder,) = (tmp_path / "locks").iterdir()
    assert folder.name == digest.removeprefix("sha256:")[:12]
    assert (folder / "lock.yml").read_bytes() == former
    assert (folder / "gpu_lock.yml").exists()


def test_json_has_the_same(lock: Lock, upstream: Upstream) -> None:
    lock()
    upstream.wheels["numpy"] = ["1.26.5"]
    data = json.loads(lock("--json", "--check").stdout)
    assert data["changed"] is True
    (change,) = [c for c in data["changes"] if c["kind"] == "wheel"]
    assert (change["name"], change["old"], change["new"]) == ("numpy", "1.26.4", "1.26.5")
    assert change["hosts"] == ["gpu01"]
    assert len(data["gone"]) == 1


def test_a_check_fails_for_what_is_gone(lock: Lock, upstream: Upstream, tmp_path: Path) -> None:
    lock()
    before = (tmp_path / "lock.yml").read_bytes()
    upstream.drop("debian11", name="nvidia-persistenced")
    done = lock("--check")
    assert done.exit_code == 5
    assert "gone: Debian 11 (bullseye), bullseye/contrib: nvidia-persistenced" in done.stderr
    assert "error: " in done.stderr
    assert failed(lock()).exit_code == 3
    upstream.gone = ["bullseye-security"]
    done = lock("--check", "--json")
    assert done.exit_code == 5
    assert "bullseye-security is gone" in json.loads(done.stdout)["gone"][0]
    assert (tmp_path / "lock.yml").read_bytes() == before


def test_what_upstream_changed_is_not_written(
    lock: Lock, upstream: Upstream, tmp_path: Path
) -> None:
    lock()
    before = (tmp_path / "lock.yml").read_bytes()
    package = next(p for p in upstream.packages["debian11"] if p.name == "libcurand10")
    upstream.packages["debian11"].remove(package)
    object.__setattr__(package, "sha256", "f" * 64)
    upstream.packages["debian11"].append(package)
    assert failed(lock("--upgrade")).exit_code == 2
    assert (tmp_path / "lock.yml").read_bytes() == before


def test_a_lock_that_cannot_be_read_is_kept_until_all_may_move(lock: Lock, tmp_path: Path) -> None:
    lock()
    path = tmp_path / "lock.yml"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"2.9.3", b"2.9.4"))
    error = failed(lock())
    assert isinstance(error, InputError)
    assert "was edited" in error.message
    assert "`provision lock --upgrade`" in error.hint
    assert b"2.9.4" in path.read_bytes()
    done = lock("--upgrade")
    assert done.exit_code == 0
    assert "nothing of it is kept" in done.stderr
    assert path.read_bytes() == whole


def test_a_new_host_is_a_new_row(lock: Lock, fleet: dict[str, Any]) -> None:
    lock()
    fleet["gpu02"] = {"tensorflow": "2.8"}
    done = lock()
    assert 'debian 11, gpu_stack {"tensorflow": "2.8"}: new (gpu02)' in done.output
    assert "TensorFlow 2.8 was built" in done.output
    assert "TensorFlow 2.9 was built" not in done.output


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["cuda"], "a name alone moves nothing", "--upgrade cuda"),
        (["--upgrade", "cuda"], "there is no lock yet", "provision lock"),
        (["--upgrade", "--from-host", "gpu01"], "contradict each other", "what a host has"),
        (["--from-host", "gpu1"], "no such host", "mean gpu01?"),
        (["."], "a directory is named with --project", "--project ."),
    ],
)
def test_what_makes_no_sense_is_refused(
    lock: Lock, tmp_path: Path, arguments: list[str], message: str, hint: str
) -> None:
    error = failed(lock(*arguments))
    assert message in error.message
    assert hint in error.hint
    assert error.exit_code == 2
    assert not (tmp_path / "lock.yml").exists()


def test_a_lock_of_a_host(
    lock: Lock, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = test_twin.of(test_kept.lock())
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    asked = []

    def read(*arguments: Any, **_k: Any) -> from_host.Twin:
        asked.append(arguments)
        return host

    monkeypatch.setattr(from_host, "read", read)
    (tmp_path / "lab").mkdir()
    assert lock("--from-host", "gpu01").exit_code == 0
    assert "{version: 470.103.01-2~deb11u1" in (tmp_path / "lock.yml").read_text()
    assert asked == [("gpu01", [str(tmp_path / "lab")])]
    upstream.wheels["numpy"] = ["2"]
    before = (tmp_path / "lock.yml").read_bytes()
    assert failed(lock("--from-host", "gpu01")).exit_code == 3
    assert (tmp_path / "lock.yml").read_bytes() == before
