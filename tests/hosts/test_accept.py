"""A host with four simulated GPUs: well, and sick in every way that the simulation knows."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import demo
import pytest
from conftest import Project

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory
from tests import verdicts

pytestmark = pytest.mark.hosts

HOST = "accept1"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A bare host with four A100s, all NVLinks between them up, and its rendered project."""
    path = tmp_path_factory.mktemp("accept") / "project"
    with rendered(path, "accept", locallab.Shape(gpus=4, gpu_name="NVIDIA A100-SXM4-40GB")) as made:
        yield made


@contextlib.contextmanager
def rendered(path: Path, name: str, shape: locallab.Shape) -> Iterator[Project]:
    """A lab of one bare host of this shape, and its rendered project in `path`."""
    lab = locallab.up(f"{name}-{os.getpid()}", shape, state_dir=path / ".lab", hosts=[HOST])
    try:
        demo.write_inventory(path, lab, cudnn_archive.pack(cache_directory()))
        for command in (["lock", "--project", str(path)], ["render", str(path)]):
            assert demo.provision(*command) == 0
        yield Project(path, lab)
    finally:
        lab.down()


@dataclass(frozen=True)
class Sick:
    """What is set, and the only check that may be red: (check, GPU or None, state, action)."""

    values: dict[str, str]
    red: tuple[str, int | None, str, str]
    number: int | None = 2


SICK = {
    "lost": Sick({"lost": "1"}, ("answers", 2, "failed", "reboot")),
    "x4": Sick({"pcie_width": "4"}, ("pcie_width", 2, "degraded", "reseat")),
    "NVLinks down": Sick({"nvlinks_down": "3,4"}, ("nvlink", 2, "degraded", "reseat")),
    "ECC": Sick({"ecc_uncorrected": "2"}, ("ecc", 2, "failed", "reset")),
    "row not remapped": Sick({"remapped_rows": "0,1,0,1"}, ("rows", 2, "failed", "service")),
    "row to remap": Sick({"remapped_rows": "0,1,1,0"}, ("rows", 2, "degraded", "reset")),
    "no spare row in a bank": Sick(
        {"remap_banks": "638,1,0,0,1"}, ("rows", 2, "degraded", "watch")
    ),
    "SRAM": Sick({"sram_errors": "0,3,1"}, ("ecc", 2, "failed", "service")),
    "the driver asks for a reboot": Sick(
        {"recovery_action": "2"}, ("recovery", 2, "failed", "reboot")
    ),
    "a TPC to repair": Sick({"repairs_pending": "0,1"}, ("recovery", 2, "degraded", "reset")),
    "thermal": Sick({"throttle": "0x40"}, ("throttle", 2, "degraded", "service")),
    "hardware slowdown": Sick({"throttle": "0x8"}, ("throttle", 2, "degraded", "service")),
    "power brake": Sick({"throttle": "0x80"}, ("throttle", 2, "degraded", "service")),
    "hot": Sick(
        {"temperature": "97", "slowdown_temperature": "92"},
        ("temperature", 2, "degraded", "service"),
    ),
    "prohibited": Sick({"compute_mode": "2"}, ("compute_mode", 2, "failed", "configure")),
    "MIG without instances": Sick({"mig": "1,1"}, ("mig", 2, "failed", "configure")),
    "MIG at the next reset": Sick({"mig": "0,1"}, ("mig", 2, "degraded", "reset")),
    "an Xid": Sick({"xid": "79"}, ("xid", 2, "failed", "reboot")),
    "an Xid of three programs on one part": Sick(
        {"xid": "13,13,13"}, ("xid", 2, "degraded", "watch")
    ),
    "not in NVML": Sick({"missing": "2"}, ("count", None, "failed", "reboot"), None),
}


def accept(host: Project, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """(exit code, output, what report/acceptance.json says of the host)."""
    # TensorFlow starts twenty times for --level normal, on a machine that may be busy.
    done = host.provision("accept", "-i", "lab", *arguments, timeout=3600)
    report = json.loads((host.path / "report" / "acceptance.json").read_text("utf-8"))
    return done.returncode, done.stdout, report["hosts"][HOST]


def red(entry: dict[str, Any]) -> list[tuple[str, int | None, str, str]]:
    return verdicts.red(entry["acceptance"])


def sicken(host: Project, sick: Sick) -> None:
    locallab.sicken(
        host.lab.name, HOST, sick.values, number=sick.number, state_dir=host.path / ".lab"
    )


def cure(host: Project) -> None:
    locallab.sicken(host.lab.name, HOST, cure=True, state_dir=host.path / ".lab")


def test_a_host_that_is_well_is_accepted(host: Project) -> None:
    code, output, entry = accept(host)
    assert (code, red(entry)) == (0, []), output
    assert output.startswith(f"{HOST}: ok (its GPU is simulated): 4 GPUs; checks: ")
    assert entry["acceptance"]["pairs"]["0-1"].startswith("NV")
    assert entry["acceptance"]["sets"]["2"] == [0, 1]


def test_one_line_names_the_sick_card_of_four(host: Project) -> None:
    sicken(host, SICK["x4"])
    try:
        code, output, entry = accept(host)
    finally:
        cure(host)
    assert code == 5
    gpu = entry["acceptance"]["gpus"][2]
    (line,) = output.splitlines()[1:]
    assert line.startswith(f"  GPU 2 {gpu['uuid']} (NVIDIA A100-SXM4-40GB, ")
    assert "degraded: the PCIe link has 4 of 16 lanes; next: reseat (" in line


@pytest.mark.slow
def test_a_driver_that_hangs_is_named_and_the_look_ends(host: Project) -> None:
    locallab.sicken(host.lab.name, HOST, {"hang": "900"}, state_dir=host.path / ".lab")
    try:
        code, output, entry = accept(host)
    finally:
        cure(host)
    assert code == 5
    assert red(entry) == [("nvml", None, "failed", "reboot")]
    assert "NVML does not answer: no answer within 60 s" in output


def test_a_card_that_the_inventory_counts_and_the_bus_has_not_is_missing(host: Project) -> None:
    code, output, entry = accept(host, "-e", "gpu_count=5")
    assert (code, red(entry)) == (5, [("count", None, "failed", "reseat")])
    assert "4 of 5 GPUs are on the PCI bus" in output


def test_an_xid_in_the_kernels_log_names_its_card(host: Project) -> None:
    sicken(host, SICK["an Xid"])
    try:
        code, _output, entry = accept(host)
    finally:
        cure(host)
    assert (code, red(entry)) == (5, [SICK["an Xid"].red])


@pytest.mark.slow
@pytest.mark.parametrize("sick", SICK.values(), ids=list(SICK))
def test_a_fault_is_named_by_its_own_check_alone(host: Project, sick: Sick) -> None:
    sicken(host, sick)
    try:
        code, output, entry = accept(host)
    finally:
        cure(host)
    assert (code, red(entry)) == (5, [sick.red]), output


@pytest.mark.slow
def test_a_card_in_use_is_named_with_its_user_and_not_blamed(host: Project) -> None:
    host.ssh(HOST, "sudo systemd-run --unit=lab-work --uid=nobody sleep 600")
    pid = host.ssh(HOST, "systemctl show -P MainPID lab-work").strip()
    sicken(host, Sick({"processes": f"{pid}:1000"}, ("users", 2, "measured", "nothing")))
    try:
        code, output, entry = accept(host)
    finally:
        cure(host)
        host.ssh(HOST, "sudo systemctl stop lab-work")
    assert (code, red(entry)) == (0, []), output
    users = [c for c in entry["acceptance"]["gpus"][2]["checks"] if c["check"] == "users"]
    assert users[0]["evidence"] == [f"process {pid} of nobody"]
