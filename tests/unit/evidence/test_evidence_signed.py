"""Signatures by the real ssh-keygen: good ones, and everything that must not pass for one."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision import evidence, signing
from provision.errors import DriftError, InputError, MachineError
from provision.evidence import signing as of_evidence
from tests.unit.evidence import made

# Not evidence: a signature is over bytes, and every one of so few can be changed in turn.
SMALL = b'{"format": 1, "host": "gpu07", "gpus": [{"uuid": "GPU-0000"}]}\n'
SAMPLES = 60


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ada's and eve's keys, and a file in which ada alone may sign."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ada", "eve"):
        made.key(folder / name)
    made.allowed(folder / "allowed", ("ada@example.org", folder / "ada"))
    return folder


def signed(folder: Path, data: bytes, key: Path) -> Path:
    """The file of a signature over the data."""
    path = folder / "data.sig"
    path.write_bytes(evidence.sign(data, key))
    return path


def written(folder: Path, keys: Path, project: Path | None = None) -> Path:
    """A file that `provision evidence` wrote, with ada's signature beside it."""
    path = folder / "evidence.json"
    home = project or made.project(folder / "project")
    code, _ = made.provision(made.HOST, "-p", home, "--key", keys / "ada", "-o", path)
    assert code == 0
    return path


def test_it_is_good_by_one_of_the_allowed_signers(tmp_path: Path, keys: Path) -> None:
    signature = signed(tmp_path, SMALL, keys / "ada")
    signer = evidence.verify(SMALL, signature, keys / "allowed")
    assert signer.identity == "ada@example.org"
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", str(keys / "ada.pub")], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert signer.key == f"ED25519 key {fingerprint}"


def test_one_changed_byte_fails_wherever_it_is(tmp_path: Path, keys: Path) -> None:
    signature = signed(tmp_path, SMALL, keys / "ada")
    for place in range(len(SMALL)):
        altered = bytearray(SMALL)
        altered[place] ^= 1
        with pytest.raises(DriftError):
            evidence.verify(bytes(altered), signature, keys / "allowed", "ada@example.org")


def test_one_changed_byte_of_evidence_fails(tmp_path: Path, keys: Path) -> None:
    path = written(tmp_path, keys)
    data = path.read_bytes()
    for place in range(0, len(data), len(data) // SAMPLES):
        altered = bytearray(data)
        altered[place] ^= 1
        path.write_bytes(altered)
        with pytest.raises(DriftError, match="is not good for this file"):
            made.provision("--verify", path, "--allowed-signers", keys / "allowed")
    path.write_bytes(data)
    code, output = made.provision("--verify", path, "--allowed-signers", keys / "allowed")
    assert code == 0
    assert output.startswith("good: gpu07 of ")
    assert "signed by ada@example.org (ED25519 key SHA256:" in output


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b" ", lambda _: b""])
def test_a_byte_more_or_less_fails(
    tmp_path: Path, keys: Path, change: Callable[[bytes], bytes]
) -> None:
    signature = signed(tmp_path, SMALL, keys / "ada")
    with pytest.raises(DriftError):
        evidence.verify(change(SMALL), signature, keys / "allowed")


def test_a_key_that_is_not_allowed_fails(tmp_path: Path, keys: Path) -> None:
    signature = signed(tmp_path, SMALL, keys / "eve")
    with pytest.raises(DriftError, match="of nobody in the file of allowed signers"):
        evidence.verify(SMALL, signature, keys / "allowed")
    with pytest.raises(DriftError, match="is not good for this file"):
        evidence.verify(SMALL, signature, keys / "allowed", "ada@example.org")


def test_another_allowed_signer_is_not_the_named_one(tmp_path: Path, keys: Path) -> None:
    both = made.allowed(tmp_path / "both", ("ada", keys / "ada"), ("eve", keys / "eve"))
    signature = signed(tmp_path, SMALL, keys / "eve")
    assert evidence.verify(SMALL, signature, both).identity == "eve"
    with pytest.raises(DriftError) as caught:
        evidence.verify(SMALL, signature, both, "ada")
    assert caught.value.exit_code == 5


def test_a_signature_for_another_purpose_fails(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signature of Git's or of a file's is no word about a host."""
    monkeypatch.setattr(of_evidence, "NAMESPACE", "git")
    signature = signed(tmp_path, SMALL, keys / "ada")
    monkeypatch.undo()
    with pytest.raises(DriftError, match="namespace does not match"):
        evidence.verify(SMALL, signature, keys / "allowed")


def test_a_file_that_is_no_signature_fails(tmp_path: Path, keys: Path) -> None:
    path = signed(tmp_path, SMALL, keys / "ada")
    for data in (b"", b"none\n", path.read_bytes()[:-40]):
        path.write_bytes(data)
        with pytest.raises(DriftError):
            evidence.verify(SMALL, path, keys / "allowed")


def test_evidence_of_another_version_is_no_evidence(tmp_path: Path, keys: Path) -> None:
    path = written(tmp_path, keys)
    good = json.loads(path.read_text())

    def without(*place: str | int) -> dict[str, Any]:
        """The acceptance whose verdict lacks this."""
        acceptance = copy.deepcopy(good["acceptance"])
        part = acceptance["verdict"]
        for step in place[:-1]:
            part = part[step]
        del part[place[-1]]
        return {"acceptance": acceptance}

    for change, match in (
        ({"format": 2}, "format known here"),
        ({"lock": "sha256:"}, "`lock` is not as in evidence"),
        ({"acceptance": {"finished": "", "verdict": {}}}, r"acceptance\.verdict\.format"),
        ({"versions": {"cuda": "11.2"}}, r"`versions\.cuda` is not as in evidence"),
        ({"versions": {"cuda": {"locked": "11.2", "found": 11}}}, r"`versions\.cuda\.found`"),
        (without("stand_in"), r"`acceptance\.verdict\.stand_in` is not as in evidence"),
        (without("checks", 0, "action"), r"`acceptance\.verdict\.checks\[0\]\.action`"),
        (without("gpus", 1, "checks", 0, "how"), r"\.gpus\[1\]\.checks\[0\]\.how`"),
    ):
        path.write_bytes(evidence.dump(good | change))
        evidence.signature_of(path).write_bytes(evidence.sign(path.read_bytes(), keys / "ada"))
        with pytest.raises(InputError, match=match):
            made.provision("--verify", path, "--allowed-signers", keys / "allowed")


def test_a_missing_file_is_named(tmp_path: Path, keys: Path) -> None:
    path = written(tmp_path, keys)
    with pytest.raises(InputError, match="there is no such file of allowed signers"):
        made.provision("--verify", path, "--allowed-signers", tmp_path / "nobody")
    evidence.signature_of(path).unlink()
    with pytest.raises(InputError, match=r"evidence\.json\.sig: there is no signature"):
        made.provision("--verify", path, "--allowed-signers", keys / "allowed")
    path.unlink()
    with pytest.raises(InputError, match="there is no such file"):
        made.provision("--verify", path, "--allowed-signers", keys / "allowed")


def test_a_named_pipe_for_a_file_does_not_hang(tmp_path: Path, keys: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    signature = signed(tmp_path, SMALL, keys / "ada")
    for signature_file, signers_file in (
        (tmp_path / "pipe", keys / "allowed"),
        (signature, tmp_path / "pipe"),
    ):
        with pytest.raises(InputError, match="a named pipe is where a file should be"):
            evidence.verify(SMALL, signature_file, signers_file)


def test_without_a_key_nothing_is_written(tmp_path: Path) -> None:
    project = made.project(tmp_path / "project")
    with pytest.raises(InputError, match="there is no such key") as caught:
        made.provision(made.HOST, "-p", project, "--key", tmp_path / "none")
    assert "ssh-keygen -t ed25519" in caught.value.hint
    assert not (project / "evidence").exists()


def test_a_passphrase_that_nobody_can_give_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job without a terminal: ssh-keygen can't ask, and says so."""
    monkeypatch.setattr(signing, "_at_terminal", lambda: False)
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    with pytest.raises(InputError, match="the key can't sign"):
        evidence.sign(SMALL, made.key(tmp_path / "locked", "open sesame"))


def test_a_key_of_an_agents_signs(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        for _ in range(100):
            if subprocess.run(["ssh-add", "-l"], capture_output=True, check=False).returncode == 1:
                break
        subprocess.run(["ssh-add", "-q", str(keys / "ada")], check=True)
        (tmp_path / "ada.pub").write_text((keys / "ada.pub").read_text())
        signature = signed(tmp_path, SMALL, tmp_path / "ada.pub")
        assert evidence.verify(SMALL, signature, keys / "allowed").identity == "ada@example.org"
    finally:
        agent.kill()
        agent.wait()


def test_without_ssh_keygen_the_machine_lacks_it(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="ssh-keygen can't be started") as caught:
        evidence.sign(SMALL, keys / "ada")
    assert "openssh-client" in caught.value.hint


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("echo 'ssh-keygen: unknown option -- Y' >&2; exit 1", "knows no signatures"),
        ("exec sleep 60", r"did not answer within 0\.2 s"),
    ],
)
def test_an_old_or_hanging_ssh_keygen_is_named(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    stand_in = tmp_path / "ssh-keygen"
    stand_in.write_text(f"#!/bin/sh\n{program}\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(signing, "_at_terminal", lambda: False)
    monkeypatch.setattr(signing, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(MachineError, match=message):
        evidence.sign(SMALL, keys / "ada")


def test_evidence_is_never_written_over(tmp_path: Path, keys: Path) -> None:
    path = written(tmp_path, keys)
    before = path.read_bytes()
    arguments = (made.HOST, "-p", tmp_path / "project", "--key", keys / "ada", "-o", path)
    with pytest.raises(InputError, match="evidence is not written over"):
        made.provision(*arguments)
    path.unlink()
    with pytest.raises(InputError, match=r"evidence\.json\.sig: the file is there already"):
        made.provision(*arguments)
    assert not path.exists()
    path.write_bytes(before)
    code, _ = made.provision("--verify", path, "--allowed-signers", keys / "allowed")
    assert code == 0


def test_by_default_it_is_in_the_project_by_its_date(tmp_path: Path, keys: Path) -> None:
    project = made.project(tmp_path / "project")
    code, output = made.provision(made.HOST, "-p", project, "--key", keys / "ada", "--json")
    assert code == 0
    answer = json.loads(output)
    path = Path(answer["evidence"])
    found = evidence.parse(path.read_bytes(), where=str(path))
    assert path == project / "evidence" / evidence.file_name(made.HOST, found["written"])
    assert evidence.verify(path.read_bytes(), Path(answer["signature"]), keys / "allowed")


def test_a_disk_that_refuses_is_named(tmp_path: Path, keys: Path) -> None:
    project = made.project(tmp_path / "project")
    inside = project / "lock.yml" / "evidence.json"
    with pytest.raises(MachineError, match="it cannot be written"):
        made.provision(made.HOST, "-p", project, "--key", keys / "ada", "-o", inside)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "only one of them"),
        (("gpu07", "--verify", "file"), "only one of them"),
        (("--verify", "file", "--compare", "old", "new"), "only one of them"),
        (("--verify", "file"), "--verify needs --allowed-signers"),
        (("gpu07", "--identity", "ada"), "--identity needs --allowed-signers"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        made.provision(*arguments)
