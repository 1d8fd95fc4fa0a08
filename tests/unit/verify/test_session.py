"""The checks as pytest runs them: in a rendered tree, without `provision` on the path."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded import DIGEST, PROBE, ROW, absent

from provision.verify.checks import CHECKS
from provision.verify.conftest import ask, choose_row
from tests import collection


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    collection.verify(tmp_path)
    lock = {"gpu_lock": {"digest": DIGEST, "rows": [], "stacks": {}}}
    (tmp_path / "lock.yml").write_text(json.dumps(lock))
    return tmp_path


def recorded(**hosts: dict[str, Any]) -> str:
    entries = {
        name: {"row": ROW, "options": {}, "stdout": "motd\nPROVISION-PROBE " + json.dumps(probe)}
        for name, probe in hosts.items()
    }
    return json.dumps({"lock_digest": DIGEST, "hosts": entries})


def verify(tree: Path, hosts: str | None, *more: str) -> subprocess.CompletedProcess[str]:
    source = ["--provision-hosts=-"] if hosts is not None else []
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"),
            f"--rootdir={tree / 'verify'}",
            f"--provision-checks={tree / 'report' / 'checks.json'}",
            *source,
            *more,
            str(tree / "verify"),
        ],
        input=hosts or "",
        capture_output=True,
        text=True,
        errors="replace",
        cwd=tree,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        check=False,
    )


def checks(tree: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tree / "report" / "checks.json").read_text())
    return found


def test_good_hosts_pass_and_are_written_down(tree: Path) -> None:
    done = verify(tree, recorded(gpu02=PROBE, gpu01=PROBE))
    assert done.returncode == 0, done.stdout
    results = checks(tree)
    assert list(results["hosts"]) == ["gpu01", "gpu02"]
    assert results["verdicts"] == {}
    # Checks of another kind of stack are not asked about, and not counted.
    others = (
        "tensorflow.cuda_wheels",
        "nvidia_container_toolkit",
        "gpu_workspace",
        "gpu_front_door",
        "gpu_serving",
        "slurm",
    )
    asked = [check for check in CHECKS if not check.id.startswith(others)]
    summary = {"passed": len(asked), "failed": 0, "not_applicable": 0}
    assert results["hosts"]["gpu01"]["summary"] == summary
    assert results["hosts"]["gpu01"]["found"]["nvcc"] == "11.2"
    assert (tree / "report" / "checks.json").stat().st_mode & 0o777 == 0o644


def test_a_bad_host_fails_alone_and_says_what_and_how(tree: Path) -> None:
    missing = {"libcusolver.so.11": absent("libcusolver.so.11")}
    bad = PROBE | {"libraries": PROBE["libraries"] | missing}
    done = verify(tree, recorded(gpu01=PROBE, gpu02=bad))
    assert done.returncode == 1
    assert "libcusolver.so.11 (package libcusolver11) can't be loaded" in done.stdout
    assert "Traceback" not in done.stdout
    assert "assert" not in done.stdout
    assert list(checks(tree)["verdicts"]) == ["gpu02"]
    assert "libcusolver.so.11" in checks(tree)["verdicts"]["gpu02"]


def test_what_does_not_apply_is_counted_and_said(tree: Path) -> None:
    probe = PROBE | {
        "container": True,
        "simulated_gpu": True,
        "module": {"proc": None, "sys": None, "nouveau": False},
    }
    done = verify(tree, recorded(gpu01=probe))
    assert done.returncode == 0
    assert "not applicable: a simulated GPU has no kernel module" in done.stdout
    assert checks(tree)["hosts"]["gpu01"]["summary"]["not_applicable"] == 4


def test_a_host_that_gave_no_probe_fails_with_its_last_words(tree: Path) -> None:
    entry = {"row": ROW, "stdout": "", "stderr": "x\nbash: python3: command not found"}
    done = verify(tree, json.dumps({"lock_digest": None, "hosts": {"gpu01": entry}}))
    assert done.returncode == 1
    verdict = checks(tree)["verdicts"]["gpu01"]
    assert "the probe did not run: bash: python3: command not found" in verdict


def test_a_byte_of_a_host_that_is_no_utf_8_costs_no_host_its_verdict(tree: Path) -> None:
    entry = {"row": ROW, "stdout": "", "stderr": "caf\udce9: not found"}
    hosts = {"gpu01": {"row": ROW, "stdout": "PROVISION-PROBE " + json.dumps(PROBE)}}
    done = verify(tree, json.dumps({"lock_digest": DIGEST, "hosts": {**hosts, "gpu02": entry}}))
    assert done.returncode == 1
    assert list(checks(tree)["hosts"]) == ["gpu01", "gpu02"]
    assert "the probe did not run: caf\udce9: not found" in checks(tree)["verdicts"]["gpu02"]


def test_no_host_is_an_error(tree: Path) -> None:
    """pytest itself is content with a parametrized test without parameters."""
    done = verify(tree, json.dumps({"lock_digest": None, "hosts": {}}))
    assert done.returncode == 5
    assert verify(tree, None).returncode == 5
    assert not (tree / "report").exists()


def test_nothing_passed_is_an_error(tree: Path) -> None:
    """Deselecting everything that could pass must not prove a host."""
    probe = PROBE | {"nvcc": PROBE["nvcc"] | {"systemd": None}}
    done = verify(tree, recorded(gpu01=probe), "-k", "systemd")
    assert done.returncode == 1
    assert checks(tree)["verdicts"]["gpu01"] == "no check passed"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"hosts": 3}'])
def test_input_that_is_not_the_playbooks_is_a_usage_error(tree: Path, text: str) -> None:
    done = verify(tree, text)
    assert done.returncode not in (0, 1)
    assert "not the verify play's JSON" in done.stdout + done.stderr


PLATFORM = {"distribution": "debian", "release": "11", "architecture": "x86_64"}
LOCK: dict[str, Any] = {
    "digest": DIGEST,
    "rows": [
        {"platform": PLATFORM, "wish": {"tensorflow": "2.9"}, "stack": "a"},
        {"platform": PLATFORM, "wish": {"tensorflow": "2.8"}, "stack": "b"},
    ],
    "stacks": {"a": {"name": "a"}, "b": {"name": "b"}},
}


def test_by_hand_the_stack_is_chosen_by_wish_then_by_receipt() -> None:
    assert choose_row(LOCK, PLATFORM, {"tensorflow": "2.8"}, None) == {"name": "b"}
    assert choose_row(LOCK, PLATFORM, None, "a") == {"name": "a"}
    with pytest.raises(LookupError, match="several stacks"):
        choose_row(LOCK, PLATFORM, None, None)
    with pytest.raises(LookupError, match="no stack for ubuntu"):
        choose_row(LOCK, PLATFORM | {"distribution": "ubuntu"}, None, None)


def test_by_hand_the_environments_beside_come_with_the_stack() -> None:
    part = {"version": "2.14.1"}
    rows = [LOCK["rows"][0] | {"beside": ["c"]}, LOCK["rows"][1]]
    lock = LOCK | {"rows": rows, "stacks": LOCK["stacks"] | {"c": {"tensorflow": part}}}
    expected = {"name": "a", "beside": [part]}
    assert choose_row(lock, PLATFORM, {"tensorflow": "2.9"}, None) == expected
    assert choose_row(lock, PLATFORM, None, "a") == expected
    assert choose_row(lock, PLATFORM, {"tensorflow": "2.8"}, None) == {"name": "b"}


def test_environments_beside_are_judged_and_written_down(tree: Path) -> None:
    part = ROW["tensorflow"] | {"version": "2.8.4"}
    probe = PROBE | {"beside": [PROBE["tensorflow"]]}
    entry = {"row": ROW | {"beside": [part]}, "stdout": "PROVISION-PROBE " + json.dumps(probe)}
    done = verify(tree, json.dumps({"lock_digest": DIGEST, "hosts": {"gpu01": entry}}))
    assert done.returncode == 1, done.stdout
    results = {check["id"]: check for check in checks(tree)["hosts"]["gpu01"]["checks"]}
    assert results["tensorflow.imports@2.8.4"]["result"] == "passed"
    assert results["tensorflow.version@2.8.4"]["result"] == "failed"
    assert results["tensorflow.version"]["result"] == "passed"
    assert (
        "TensorFlow and its Python are the locked versions (2.8.4): NO"
        in (checks(tree)["verdicts"]["gpu01"])
    )


def test_by_hand_testinfra_connects_and_runs_the_probe(tree: Path) -> None:
    """testinfra's local backend: this machine has no stack, so every check but one is red."""
    release = dict(
        line.replace('"', "").split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    row = {
        "platform": {
            "distribution": release["ID"],
            "release": release["VERSION_ID"],
            "architecture": platform.machine(),
        },
        "wish": {},
        "stack": "s",
    }
    lock = {"gpu_lock": {"digest": DIGEST, "rows": [row], "stacks": {"s": ROW}}}
    (tree / "lock.yml").write_text(json.dumps(lock))
    done = verify(tree, None, "--connection=local")
    assert done.returncode == 1, done.stdout + done.stderr
    (host,) = checks(tree)["hosts"].values()
    results = {check["id"]: check["result"] for check in host["checks"]}
    assert results["host.answers"] == "passed"
    assert results["cuda.libraries"] == "failed"


def test_a_host_that_testinfra_cannot_reach_is_an_answer_not_a_crash() -> None:
    class Broken:
        @property
        def ansible(self) -> Any:
            raise RuntimeError("ansible is only available with ansible backend")

    class Refused(Broken):
        def check_output(self, _: str) -> str:
            raise RuntimeError("ssh: connect to host gpu01 port 22: Connection refused")

    seen = ask(Refused(), LOCK)
    assert "Connection refused" in seen.error
