"""The container toolkit's checks: when they can't be made, and what the probe tells them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from program import probe

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

import check_states
from states.checks.nvidia_container_toolkit import containers

from provision.verify.checks import Verdict

DOCKER = "nvidia_container_toolkit.docker"
PACKAGES = "nvidia_container_toolkit.packages"
CDI = "nvidia_container_toolkit.cdi"


def verdicts(**changes: Any) -> dict[str, Verdict]:
    data = check_states.mutated(
        containers(), {key.replace("__", "/"): value for key, value in changes.items()}
    )
    return check_states.verdicts(check_states.seen_of(data))


def test_a_host_with_toolkit_and_docker_passes_everything() -> None:
    by_check = verdicts()
    assert {PACKAGES, DOCKER, CDI} <= set(by_check)
    assert {verdict.result for verdict in by_check.values()} == {"passed"}
    assert by_check[DOCKER].detail == "runtimes nvidia, runc"
    assert by_check[PACKAGES].detail == "4 packages"
    where = "nvidia.com/gpu=all in /var/run/cdi/nvidia.yaml, podman version 4.3.1"
    assert by_check[CDI].detail == where


def test_other_stacks_are_not_asked() -> None:
    assert not {PACKAGES, DOCKER, CDI} & set(
        check_states.verdicts(check_states.seen_of(check_states.machine()))
    )


AUTO = {"options__nvidia_container_toolkit_docker": "auto"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options__nvidia_container_toolkit_docker": "none"}, "is none"),
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
    seen = probe.docker(str(socket))
    assert (seen["running"], seen["allowed"], seen["runtimes"], asked) == (
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


NONE = check_states.said(rc=127)
AUTO_CDI = {"options__nvidia_container_toolkit_cdi": "auto"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options__nvidia_container_toolkit_cdi": "none"}, "is none"),
        ({**AUTO_CDI, "probe__cdi__podman": NONE}, "podman is not installed"),
        (
            {**AUTO_CDI, "probe__cdi__podman": check_states.said("podman version 4.0.9\n")},
            "podman version 4.0.9 reads no CDI specification, 4.1 is the first that does",
        ),
    ],
)
def test_where_podman_reads_none_it_is_not_applicable(changes: dict[str, Any], reason: str) -> None:
    # Whatever is listed.
    verdict = verdicts(**changes, probe__cdi__devices=check_states.said())[CDI]
    assert verdict.result == "not_applicable"
    assert reason in verdict.detail


@pytest.mark.parametrize(
    ("podman", "version", "passes"),
    [
        ("4.1", "0.5.0", True),
        ("4.1.0", "0.5.0", True),
        ("5.0.3", "0.5.1", False),
        ("5.0.3", "0.7.0", False),
        ("5.1.0", "0.7.0", True),
        ("5.1.0", "0.7.1", False),
        ("5.1.0", "1.0.0", False),
        ("5.4.2", "0.8.0", False),
        ("4.3.1", None, True),
        ("unknown", "9.0.0", True),
    ],
)
def test_a_specification_is_no_newer_than_podman(
    podman: str, version: str | None, passes: bool
) -> None:
    output = check_states.said(f"podman version {podman}\n")
    verdict = verdicts(probe__cdi__podman=output, probe__cdi__version=version)[CDI]
    assert verdict.result == ("passed" if passes else "failed")


def test_where_it_is_required_it_is_asked_without_podman() -> None:
    assert verdicts(probe__cdi__podman=NONE)[CDI].detail.endswith("for whoever reads CDI")
    nothing = check_states.said("", "nvidia-ctk: command not found", 127)
    verdict = verdicts(probe__cdi__podman=NONE, probe__cdi__devices=nothing)[CDI]
    assert verdict.diagnosis.endswith("nvidia-ctk: command not found")
    assert "run the playbook again" in verdict.hint


def test_the_probe_reads_the_specification_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "run", lambda _: {"rc": 0, "stdout": "", "stderr": ""})
    etc, run = tmp_path / "etc.yaml", tmp_path / "run.yaml"
    places = (str(etc), str(run))
    seen = probe.cdi(places)
    assert (seen["path"], seen["version"], seen["missing"]) == (None, None, [])
    etc.write_text("cdiVersion: 0.3.0\nmounts:\n- hostPath: /no/such\n")
    seen = probe.cdi(places)
    assert (seen["path"], seen["version"], seen["missing"]) == (str(etc), "0.3.0", ["/no/such"])
    run.write_text(f'cdiVersion: "0.5.0"\nmounts:\n  - hostPath: "{etc}"\n  - hostPath: /gone\n')
    seen = probe.cdi(places)
    assert (seen["path"], seen["version"], seen["missing"]) == (str(run), "0.5.0", ["/gone"])
