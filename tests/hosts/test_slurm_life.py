"""A node of Slurm's in daily life: it is drained and comes back, and its driver waits for jobs.

One local host is controller and node. Its GPUs are simulated; Slurm, its cgroups and its jobs are
real, and so are the driver's packages, without a kernel module.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from conftest import NEWEST
from slurm_cluster import Cluster, cluster

from provision import locallab

pytestmark = [pytest.mark.hosts, pytest.mark.slow]

HOST = "gpu01"
# Of the driver's packages one that everything else does without.
PACKAGE = "nvidia-smi"
JOB = "sbatch --parsable --gres=gpu:1 --time 20 --job-name train --output /dev/null"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A proven node with the driver's libraries."""
    options = {"nvidia_driver_state": "present", "slurm_health_interval": 30, "gpu_count": 2}
    path = tmp_path_factory.mktemp("slurmlife") / "project"
    name = f"slurmlife-{os.getpid()}"
    with cluster(path, name, "debian12", [HOST], options) as made:
        made.site()
        assert state(made)[0] == "idle"
        yield made


def state(node: Cluster) -> tuple[str, str]:
    """(state, reason) of the node."""
    line = node.root(HOST, "sinfo --noheader --Node --format '%T|%E'").splitlines()[0]
    kind, _mark, reason = line.partition("|")
    return kind.rstrip("*~#!"), reason


def until(node: Cluster, *kinds: str, seconds: float = 60) -> tuple[str, str]:
    """The node's state, as soon as it is one of these."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and state(node)[0] not in kinds:
        time.sleep(1)
    assert state(node)[0] in kinds, state(node)
    return state(node)


def sicken(node: Cluster, gpu: int = 1, **values: str) -> None:
    locallab.sicken(node.lab.name, HOST, values, number=gpu, state_dir=node.path / ".lab")


def cure(node: Cluster) -> None:
    locallab.sicken(node.lab.name, HOST, cure=True, state_dir=node.path / ".lab")


def accept(node: Cluster) -> tuple[int, str]:
    done = node.provision("accept", "-i", "lab")
    return done.returncode, done.stdout + done.stderr


def submit(node: Cluster, person: str, seconds: int) -> str:
    """The number of a job of somebody's that runs."""
    job = node.as_person(HOST, person, f"{JOB} --wrap 'sleep {seconds}'").strip()
    deadline = time.monotonic() + 60
    while of_job(node, job) != "RUNNING" and time.monotonic() < deadline:
        time.sleep(0.5)
    assert of_job(node, job) == "RUNNING", state(node)
    return job


def of_job(node: Cluster, job: str) -> str:
    """A job's state."""
    text = node.root(HOST, f"scontrol show job {job}")
    return next(word[9:] for word in text.split() if word.startswith("JobState="))


def break_driver(node: Cluster) -> None:
    node.root(HOST, f"dpkg --remove --force-depends --force-hold {PACKAGE} 2>&1")


def is_whole(node: Cluster) -> bool:
    return "ok installed" in node.root(HOST, f"dpkg -s {PACKAGE} 2>&1 || true")


def test_a_host_whose_acceptance_fails_is_drained_and_comes_back(node: Cluster) -> None:
    sicken(node, lost="1")
    code, output = accept(node)
    assert code == 5, output
    assert "gpu01: Slurm: drained" in output
    kind, reason = state(node)
    assert (kind, reason.startswith("provision: acceptance: quick: GPU 1 ")) == ("drained", True), (
        reason
    )
    cure(node)
    # The quick check takes back its own drains alone.
    assert node.root(HOST, "/usr/local/sbin/gpu-slurm-health").strip() == "well"
    assert state(node)[0] == "drained"
    code, output = accept(node)
    assert (code, "gpu01: Slurm: taken back" in output) == (0, True), output
    until(node, "idle")


def test_an_administrators_drain_is_never_lifted(node: Cluster) -> None:
    node.root(HOST, f"scontrol update nodename={HOST} state=drain reason='a new disk'")
    sicken(node, lost="1")
    assert accept(node)[0] == 5
    cure(node)
    assert accept(node)[0] == 0
    node.root(HOST, "/usr/local/sbin/gpu-slurm-health")
    node.site()
    assert state(node) == ("drained", "a new disk")
    node.root(HOST, f"scontrol update nodename={HOST} state=resume")
    until(node, "idle")


def test_a_node_drains_itself_and_comes_back(node: Cluster) -> None:
    """By slurmd's own call, every 30 seconds."""
    sicken(node, xid="79")
    _kind, reason = until(node, "drained", seconds=90)
    assert reason.startswith("provision: health: GPU 0000:"), reason
    cure(node)
    until(node, "idle", seconds=90)


def test_a_gpu_in_use_outside_of_its_job_refuses_the_job(node: Cluster) -> None:
    # NVML says it of a process that has no file open: nothing is behind the device files.
    pid = node.root(HOST, "setsid sleep 600 > /dev/null 2>&1 & echo $!").strip()
    sicken(node, 0, processes=f"{pid}:1000")
    job = node.as_person(HOST, "ada", f"{JOB} --wrap 'sleep 1'").strip()
    _kind, reason = until(node, "drained", "draining")
    expected = (
        f"provision: prolog: in use outside of job {job}: pid {pid} of root (sleep 600) on GPU 0"
    )
    assert reason == expected
    assert node.root(HOST, f"kill -0 {pid} && echo alive").strip() == "alive"
    node.root(HOST, f"kill {pid}")
    cure(node)
    node.root(HOST, "/usr/local/sbin/gpu-slurm-health")
    until(node, "idle", "mixed", "allocated", "completing", seconds=90)
    # The job was not held, and runs now.
    deadline = time.monotonic() + 180
    while of_job(node, job) != "COMPLETED" and time.monotonic() < deadline:
        time.sleep(2)
    assert of_job(node, job) == "COMPLETED"


def test_a_driver_change_waits_for_the_job(node: Cluster) -> None:
    job = submit(node, "ada", 60)
    break_driver(node)
    done = node.site("-e", "slurm_drain_patience=300")
    assert "job " + job + " of ada (train) until" in done.stdout
    assert is_whole(node)
    assert of_job(node, job) == "COMPLETED"
    until(node, "idle")


def test_a_driver_change_that_can_not_wait_harms_no_job(node: Cluster) -> None:
    job = submit(node, "ada", 600)
    break_driver(node)
    done = node.site("-e", "slurm_drain_patience=5", code=2)
    assert "Nothing was changed: the NVIDIA driver is changed only when no job runs" in done.stdout
    assert f"job {job} of ada (train) until" in done.stdout
    assert (is_whole(node), of_job(node, job)) == (False, "RUNNING")
    # It takes new ones, as before.
    other = submit(node, "bob", 60)
    node.root(HOST, f"scancel {job} {other}")
    node.site()
    assert is_whole(node)
    until(node, "idle")


def test_the_next_run_takes_back_what_a_killed_one_has_drained(node: Cluster) -> None:
    job = submit(node, "ada", 600)
    break_driver(node)
    words = ["-i", "lab", "-e", "gpu_verify=never", "-e", "slurm_drain_patience=600"]
    run = subprocess.Popen(
        [str(NEWEST), "site.yml", *words], cwd=node.path, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(node, "draining", seconds=120)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert state(node) == ("draining", "provision: run: the NVIDIA driver is changed")
    node.root(HOST, f"scancel {job}")
    until(node, "drained")
    node.site()
    assert is_whole(node)
    until(node, "idle")
    assert node.root(HOST, "ls /var/lib/provision").find("slurm-drain.json") == -1
