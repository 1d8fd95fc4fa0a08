"""`provision doctor` on a host whose CDI specification is of another driver, as podman meets it.

The host is the Molecule scenario's (molecule/containers.py): podman 4.3.1 at work, simulated GPUs,
stand-ins of NVIDIA's packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from conftest import ROOT, Project
from doctor_run import doctor

sys.path.insert(0, str(ROOT / "molecule"))
import containers

pytestmark = pytest.mark.slow

SCENARIO = ROOT / "molecule" / "nvidia_container_toolkit"
HOST = "molecule1"
CASE = "cdi-specification"
PATH = "/var/run/cdi/nvidia.yaml"
PODMAN = "sudo podman run --rm --device nvidia.com/gpu=all tiny nvidia-smi -L"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The scenario's host with the driver and the container toolkit, and nothing else."""
    directory = tmp_path_factory.mktemp("cdi") / "project"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROVISION_LAB_OWNER", str(os.getpid()))
        lab = containers.make(directory, f"doctor-cdi-{os.getpid()}", [HOST], SCENARIO / "lab")
    try:
        made = Project(directory, lab)
        tags = "nvidia_driver,nvidia_container_toolkit"
        done = made.provision("apply", "-i", "lab", "--tags", tags)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
        yield made
    finally:
        lab.down()


def test_a_specification_of_another_driver_is_reported_and_cured(project: Project) -> None:
    gpus = project.ssh(HOST, "nvidia-smi -L")
    assert gpus.count("GPU-") == 2
    assert project.ssh(HOST, PODMAN) == gpus
    assert CASE not in doctor(project, HOST)[1]
    # As a driver of before has it, whose unit was not at work when that went.
    project.ssh(HOST, f"sudo sed -Ei 's/(libcuda[.]so[.])535[.0-9]+/\\1470.256.02/' {PATH}")
    listed = project.ssh(HOST, PODMAN, check=False)
    assert "libcuda.so.470.256.02" in listed, listed
    code, findings, output = doctor(project, HOST)
    assert code == 5, output
    (evidence,) = findings[CASE]["evidence"]
    assert evidence.startswith(f"{PATH}: names /usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so")
    assert evidence.endswith("which is not there")
    fixed = project.provision("doctor", "-i", "lab", "--limit", HOST, "--fix")
    assert fixed.returncode in (0, 5), fixed.stdout + fixed.stderr
    assert CASE not in doctor(project, HOST)[1]
    assert project.ssh(HOST, PODMAN) == gpus
