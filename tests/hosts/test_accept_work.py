"""What TensorFlow does on a host with two simulated GPUs: in order, and out of order to order.

Logical CPU devices stand in for the GPUs, in the real TensorFlow 2.9.3 of the host.
"""

from __future__ import annotations

from collections.abc import Iterator

import faulty_work
import pytest
from conftest import Project
from test_accept import HOST, accept, red, rendered

from provision import locallab

pytestmark = [pytest.mark.hosts, pytest.mark.slow]


# What lies there; systemd's own folders come and go with its timers.
LEFT = (
    "ls -A --ignore='systemd-private-*' /var/tmp /tmp; ps -eo args | grep -c '[p]rograms' || true"
)


def uuids(worker: Project) -> list[str]:
    """Of the host's GPUs, whatever was asked of it before."""
    _code, _output, entry = accept(worker)
    return [gpu["uuid"] for gpu in entry["acceptance"]["gpus"]]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A host with two simulated T4s and everything installed."""
    path = tmp_path_factory.mktemp("work") / "project"
    with rendered(path, "work", locallab.Shape(gpus=2, gpu_name="Tesla T4")) as project:
        done = project.provision("apply", "-i", "lab")
        assert done.returncode == 0, done.stdout + done.stderr
        yield project


def test_a_host_that_works_right_is_accepted_and_left_as_it_was(worker: Project) -> None:
    before = worker.ssh(HOST, LEFT)
    code, output, entry = accept(worker, "--level", "normal")
    assert (code, red(entry)) == (0, []), output
    assert "logical CPU devices computed in its place" in output
    checks = {check["check"]: check["state"] for check in entry["acceptance"]["gpus"][1]["checks"]}
    assert checks["product"] == checks["pattern"] == checks["xla"] == "ok"
    assert checks["rate_float32"] == "measured"
    assert checks["visible"] == "not applicable"
    assert worker.ssh(HOST, LEFT) == before


@pytest.mark.parametrize("name", faulty_work.WORK)
def test_a_fault_of_one_card_is_named_by_its_own_check_alone(worker: Project, name: str) -> None:
    fault = faulty_work.WORK[name]
    check, of_card, state, action = fault.red
    uuid = uuids(worker)[1]
    with faulty_work.ordered(worker.path, fault, uuid):
        code, output, entry = accept(worker, "--level", "normal")
    assert red(entry) == [(check, 1 if of_card else None, state, action)], output
    assert code == 5
    if of_card:
        lines = [line for line in output.splitlines() if line.startswith("  GPU ")]
        assert len(lines) == 1, output
        assert lines[0].startswith(f"  GPU 1 {uuid} (Tesla T4, ")


def test_a_card_in_use_is_named_and_not_loaded(worker: Project) -> None:
    locallab.sicken(
        worker.lab.name, HOST, {"processes": "1:512"}, number=0, state_dir=worker.path / ".lab"
    )
    try:
        _code, _output, entry = accept(worker, "--level", "normal")
    finally:
        locallab.sicken(worker.lab.name, HOST, cure=True, state_dir=worker.path / ".lab")
    first, second = (
        {check["check"]: check for check in gpu["checks"]} for gpu in entry["acceptance"]["gpus"]
    )
    assert first["product"]["state"] == "not applicable"
    assert first["product"]["reason"].startswith("not loaded: in use: ")
    assert second["product"]["state"] == "ok"


def test_a_run_that_asks_for_it_fails_a_host_with_a_sick_card(worker: Project) -> None:
    locallab.sicken(
        worker.lab.name, HOST, {"pcie_width": "4"}, number=1, state_dir=worker.path / ".lab"
    )
    try:
        done = worker.provision("apply", "-i", "lab", "-e", "gpu_accept=quick")
    finally:
        locallab.sicken(worker.lab.name, HOST, cure=True, state_dir=worker.path / ".lab")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "the PCIe link has 4 of 16 lanes; next: reseat" in done.stdout + done.stderr
    entry = worker.entry(HOST)
    assert (entry["status"], entry["failure"]["phase"]) == ("failed", "accept")
    done = worker.provision("apply", "-i", "lab", "-e", "gpu_accept=quick")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"acceptance: {HOST}: ok (its GPU is simulated): " in done.stdout


def test_a_host_without_tensorflow_is_told_so(worker: Project) -> None:
    worker.ssh(HOST, "sudo mv /opt/tensorflow/current /opt/tensorflow/away")
    try:
        code, output, entry = accept(worker, "--level", "normal")
    finally:
        worker.ssh(HOST, "sudo mv /opt/tensorflow/away /opt/tensorflow/current")
    assert (code, red(entry)) == (5, [("listed", None, "failed", "configure")])
    assert "there is no TensorFlow: /opt/tensorflow/current/bin/python does not exist" in output


def test_the_playbook_alone_says_the_same(worker: Project) -> None:
    done = worker.playbook("-e", "gpu_accept_level=normal", book="accept.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{HOST}: ok (its GPU is simulated; logical CPU devices" in done.stdout


def test_cards_are_burnt_in_for_as_long_as_said(worker: Project) -> None:
    code, _output, entry = accept(worker, "--level", "long", "--minutes", "1")
    assert code == 0
    checks = {check["check"]: check for check in entry["acceptance"]["gpus"][0]["checks"]}
    assert checks["burn_in"]["state"] == "ok"
    assert "products in 1 minutes without an error" in checks["burn_in"]["reason"]
