"""The container toolkit's checks: when they can't be made, and what the probe tells them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

import check_states

from provision.verify import probe
from provision.verify.checks import Verdict

DOCKER = "nvidia_container_toolkit.docker"
PACKAGES = "nvidia_container_toolkit.packages"


def verdicts(**changes: Any) -> dict[str, Verdict]:
    data = check_states.mutated(
        check_states.containers(), {key.replace("__", "/"): one for key, one in changes.items()}
    )
    return check_states.verdicts(check_states.seen_of(data))


def test_a_host_with_toolkit_and_docker_passes_everything() -> None:
    found = verdicts()
    assert {PACKAGES, DOCKER} <= set(found)
    assert {one.result for one in found.values()} == {"passed"}
    assert found[DOCKER].detail == "runtimes nvidia, runc"
    assert found[PACKAGES].detail == "4 packages"


def test_other_stacks_are_not_asked() -> None:
    assert not {PACKAGES, DOCKER} & set(
        check_states.verdicts(check_states.seen_of(check_states.machine()))
    )


AUTO = {"options__nvidia_container_toolkit_docker": "auto"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options__nvidia_container_toolkit_docker": "none"}, "left alone"),
        ({**AUTO, "probe__docker__installed": False}, "docker is not installed"),
        ({"probe__docker__running": False}, "docker does not run"),
        ({"probe__docker__allowed": False}, "the user lab may not ask docker"),
    ],
)
def test_what_cannot_be_shown_is_not_applicable(changes: dict[str, Any], reason: str) -> None:
    # Whatever docker would say.
    changes = {**changes, "probe__docker__runtimes": check_states.said("null")}
    verdict = verdicts(**changes)[DOCKER]
    assert verdict.result == "not_applicable"
    assert reason in verdict.detail


@pytest.mark.parametrize("stdout", ["", "null", "[]", "{}", '{"runc": {}, "kata": {}}'])
def test_a_docker_without_the_runtime_fails_with_what_it_says(stdout: str) -> None:
    answer = check_states.said(stdout, "a banner\nno daemon\n", 1)
    verdict = verdicts(probe__docker__runtimes=answer)[DOCKER]
    assert verdict.result == "failed"
    if "runc" in stdout:
        assert verdict.diagnosis == "docker knows the runtimes kata, runc alone"
        assert "run the playbook again" in verdict.hint
        assert "allowed to restart docker" in verdict.hint
    else:
        assert verdict.diagnosis == "docker does not answer: no daemon"
        assert verdict.hint == "`journalctl -u docker` says why"


def test_each_package_that_is_not_held_is_named() -> None:
    names = ("libnvidia-container1", "nvidia-container-toolkit")
    verdict = verdicts(**{f"probe__packages__{name}__status": "ii" for name in names})[PACKAGES]
    assert verdict.diagnosis.startswith(f"not held: {', '.join(names)}: ")
    assert "run the playbook again" in verdict.hint


def test_where_holding_was_switched_off_nobody_asks_for_it() -> None:
    loose = {"probe__packages__libnvidia-container1__status": "ii"}
    unsaid = {**loose, "options__nvidia_container_toolkit_hold": check_states.GONE}
    assert verdicts(**unsaid)[PACKAGES].result == "failed"
    off = {**loose, "options__nvidia_container_toolkit_hold": False}
    assert verdicts(**off)[PACKAGES].result == "passed"


def test_the_probe_asks_docker_only_where_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str]) -> dict[str, Any]:
        asked.append(command)
        return {"rc": 0, "stdout": "{}", "stderr": ""}

    monkeypatch.setattr(probe, "run", run)
    socket = tmp_path / "docker.sock"
    found = probe.docker(str(socket))
    assert (found["running"], found["allowed"], found["runtimes"], asked) == (
        False,
        False,
        None,
        [],
    )
    socket.touch()
    assert probe.docker(str(socket))["runtimes"]["stdout"] == "{}"
    assert asked == [
        ["docker", "--host", f"unix://{socket}", "info", "--format", "{{json .Runtimes}}"]
    ]
