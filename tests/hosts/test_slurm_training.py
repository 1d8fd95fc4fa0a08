"""A job of Slurm's that trains on two hosts: the example train_slurm.py with the real TensorFlow.

The GPUs are simulated and compute nothing: the workers compute on the hosts' processors, and the
wheel is that of TensorFlow without GPUs, of the release that the lab is locked with. The nodes
share no disk here, so a job is not started anew.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest
from conftest import BIN
from slurm_cluster import Cluster, cluster

from provision import examples

pytestmark = [pytest.mark.slow]

CONTROLLER = "slurmt0"
NODES = ["slurmt1", "slurmt2"]
RELEASE = "2.16.2"
# Debian 12's own Python.
PYTHON = "3.11"
# As the role tensorflow has it: the example's first line names that Python.
VENV = f"""\
set -e
apt-get install -qq -y --no-install-recommends python3-venv >/dev/null
python3 -m venv --without-pip /opt/tensorflow/current
echo /opt/wheels > /opt/tensorflow/current/lib/python{PYTHON}/site-packages/wheels.pth
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes with TensorFlow, and a controller on which no job runs; one run brings them."""
    place = tmp_path_factory.mktemp("slurm-training")
    wheels = place / "wheels"
    subprocess.run(
        [str(BIN / "uv"), "pip", "install", "--quiet", "--target", str(wheels),
         "--python-version", PYTHON, "--only-binary", ":all:", f"tensorflow-cpu=={RELEASE}"],
        check=True, timeout=600,
    )  # fmt: skip
    with cluster(
        place / "project", "test-slurm-training", "debian12", [CONTROLLER, *NODES], {}
    ) as made:
        made.say_of(CONTROLLER, slurm_compute=False)
        made.site()
        for host in made.lab.hosts[1:]:
            made.lab.podman.call("cp", str(wheels), f"{host.container}:/opt/wheels", timeout=600)
            made.root(host.name, VENV)
        yield made


def test_no_job_runs_on_a_controller_that_does_not_compute(slurm: Cluster) -> None:
    assert slurm.root(CONTROLLER, "sinfo -h -N -o %N | sort -u").split() == NODES
    assert "No such file" in slurm.root(CONTROLLER, "ls /usr/sbin/slurmd", check=False)
    assert slurm.provision("plan", "-i", "lab").returncode == 0


def test_a_job_of_two_workers_trains_one_model(slurm: Cluster) -> None:
    for host in (CONTROLLER, *NODES):
        slurm.root(host, "cat > ~ada/train_slurm.py", stdin=examples.named("train_slurm").text)
    submitted = slurm.as_person(
        CONTROLLER, "ada", "timeout 900 sbatch --wait -o train.out train_slurm.py", check=False
    )
    number = re.search(r"Submitted batch job (\d+)", submitted)
    assert number, submitted
    # Slurm starts the script on the job's first node.
    output = slurm.root(NODES[0], "cat ~ada/train.out")
    accuracies = [
        float(each) for each in re.findall(r"^epoch \d: accuracy ([\d.]+)$", output, re.M)
    ]
    assert len(accuracies) == 5, output
    last = re.search(r"^2 workers x CPU: accuracy ([\d.]+)$", output, re.M)
    assert last, output
    assert float(last[1]) > 0.9
    job = slurm.root(CONTROLLER, f"scontrol -o show job {number[1]}")
    assert "JobState=COMPLETED" in job, job
    assert "NodeList=slurmt[1-2] " in job, job
