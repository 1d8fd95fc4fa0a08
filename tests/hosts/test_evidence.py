"""Evidence of a host as accept and verify have really left it in the project."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Project

HOST = "spine1"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key, and beside it a file in which it is allowed to sign."""
    path = tmp_path_factory.mktemp("key") / "ada"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    public = path.with_name("ada.pub").read_text("utf-8")
    path.with_name("allowed").write_text(f"ada@example.org {public}", "utf-8")
    return path


def test_a_host_is_signed_and_verified(spine: Project, key: Path) -> None:
    for command in ("verify", "accept"):
        done = spine.provision(command, "-i", "lab", "--limit", HOST)
        assert done.returncode == 0, done.stdout + done.stderr
    done = spine.provision("evidence", HOST, "--key", str(key), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    path = spine.path / json.loads(done.stdout)["evidence"]
    signers = ("--allowed-signers", str(key.with_name("allowed")))
    verified = spine.provision("evidence", "--verify", str(path), *signers, "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    answer = json.loads(verified.stdout)
    assert answer["signer"] == "ada@example.org"
    found = answer["evidence"]
    assert (found["host"], found["simulated"]) == (HOST, True)
    assert found["run"]["status"] == "proven"
    assert len(found["acceptance"]["verdict"]["gpus"]) == 2
    assert found["versions"]["tensorflow"]["found"].startswith("2.9.")

    path.write_bytes(path.read_bytes().replace(b'"simulated": true', b'"simulated": false'))
    altered = spine.provision("evidence", "--verify", str(path), *signers)
    assert altered.returncode == 5, altered.stdout + altered.stderr
    assert "is not good for this file" in altered.stderr


def test_a_host_that_was_not_accepted_is_named_with_the_command(spine: Project, key: Path) -> None:
    (spine.path / "report" / "acceptance.json").unlink(missing_ok=True)
    done = spine.provision("evidence", HOST, "--key", str(key))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "`provision accept`" in done.stderr
