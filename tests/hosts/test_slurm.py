"""Slurm on three hosts: from bare to jobs of two people side by side, each with a GPU of their own.

Slurm, munge and MariaDB are Debian's and run for real, device cgroups of the kernel among them;
the GPUs are simulated (tests/hosts/slurm_cluster.py). Jobs compute nothing: they say what they may
open.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from slurm_cluster import Cluster, cluster

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("slurm-jobs", "slurm-options")

HOSTS = ["slurm1", "slurm2", "slurm3"]
CONTROLLER, SECOND, THIRD = HOSTS
KEY = "/etc/munge/munge.key"
PARTITIONS = [{"name": "gpu", "default_time": "0:30:00"}, {"name": "short", "max_time": "1:00:00"}]
# A job: it says which GPUs it may open, and stays for some seconds.
JOB = """\
import errno, json, os, sys, time
seen = []
for path in ("/dev/nvidia0", "/dev/nvidia1"):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES):
            continue
    seen.append(path)
print(json.dumps(seen), flush=True)
time.sleep(int(sys.argv[1]))
"""


class Slurm(Cluster):
    """The cluster, and what people do on it."""

    def submit(self, person: str, seconds: int, *words: str, host: str = CONTROLLER) -> int:
        """The number of a job with a GPU."""
        run = f"python3 /opt/job.py {seconds}"
        line = " ".join(["sbatch", "--gres=gpu:1", "-t", "10", *words, "--wrap", f"'{run}'"])
        return int(self.as_person(host, person, line).split()[-1])

    def state(self, job: int) -> str:
        text = self.root(CONTROLLER, f"scontrol -o show job {job}")
        return re.search(r"JobState=(\w+)", text)[1]  # type: ignore[index]

    def wait(self, job: int, *states: str, seconds: float = 120) -> str:
        until = time.monotonic() + seconds
        while True:
            state = self.state(job)
            if state in states:
                return state
            assert time.monotonic() < until, f"job {job} is {state}: " + self.root(
                CONTROLLER, f"scontrol show job {job}; tail -20 /var/log/slurm/slurmctld.log"
            )
            time.sleep(0.5)

    def cancel(self) -> None:
        for person in ("ada", "bob", "eve"):
            self.root(CONTROLLER, f"scancel -u {person}")
        wait = 'for n in $(seq 120); do test -z "$(squeue -h)" && exit; sleep 1; done; exit 1'
        self.root(CONTROLLER, wait)

    def output(self, host: str, person: str, job: int) -> str:
        return self.root(host, f"cat /home/{person}/slurm-{job}.out")

    def planned(self, host: str) -> list[tuple[str, str]]:
        """(item, reason) of the host's changes in the last report."""
        return [(change["item"], change["reason"]) for change in self.entry(host)["changes"]]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Three hosts that one run has brought from bare to a cluster."""
    path = tmp_path_factory.mktemp("slurm") / "project"
    options = {"slurm_accounting": True, "slurm_partitions": PARTITIONS, "slurm_patience": 180}
    with cluster(path, "test-slurm", "debian12", HOSTS, options) as made:
        fleet = Slurm(made.path, made.lab)
        for host in HOSTS:
            fleet.root(host, "cat > /opt/job.py", stdin=JOB)
        first = fleet.site()
        for host in HOSTS:
            idle = f"{host} in the cluster gpu: idle, gpu:tesla_t4:2; a job could open only"
            assert idle in first.stdout
        # Nobody's log or diff has the key of munge.
        key = fleet.root(CONTROLLER, "base64 -w0 /etc/munge/munge.key")
        fleet.first = first.stdout + (fleet.path / "report/latest/events.jsonl").read_text("utf-8")
        assert key[:40] not in fleet.first
        yield fleet


def test_a_converged_run_is_one_look(slurm: Slurm) -> None:
    again = slurm.site()
    assert again.stdout.count("changed=0") == len(HOSTS)
    look = "gpu_state : Look | Compare the host with the lock"
    assert slurm.tasks_run() == {host: [look] for host in HOSTS}


def test_the_key_is_the_same_everywhere_and_munges_alone(slurm: Slurm) -> None:
    seen = {slurm.root(host, f"sha256sum < {KEY}; stat -c '%a %U' {KEY}")
            for host in HOSTS}  # fmt: skip
    assert len(seen) == 1
    assert seen.pop().split("\n")[1] == "400 munge"
    conf = slurm.root(
        CONTROLLER, "stat -c '%a %U' /etc/slurm/slurmdbd.conf; cat /etc/slurm/slurmdbd.conf"
    )
    assert conf.startswith("600 slurm\n")
    assert "StoragePass" not in conf
    # The nodes have the controller's configuration, and none of their own.
    assert slurm.root(SECOND, "ls /etc/slurm/slurm.conf; true") == ""
    assert "ClusterName=gpu" in slurm.root(SECOND, "cat /run/slurm/conf/slurm.conf")


def test_two_people_side_by_side_and_a_third_waits(slurm: Slurm) -> None:
    jobs = {
        who: slurm.submit(who, 40, "-w", SECOND, "-p", "short") for who in ("ada", "bob", "eve")
    }
    for who in ("ada", "bob"):
        slurm.wait(jobs[who], "RUNNING")
    time.sleep(3)
    assert slurm.state(jobs["eve"]) == "PENDING"
    seen = [json.loads(slurm.output(SECOND, who, jobs[who])) for who in ("ada", "bob")]
    assert sorted(seen) == [["/dev/nvidia0"], ["/dev/nvidia1"]]
    for who in ("ada", "bob", "eve"):
        slurm.wait(jobs[who], "COMPLETED", seconds=240)
    assert len(json.loads(slurm.output(SECOND, "eve", jobs["eve"]))) == 1


def test_a_job_of_several_workers(slurm: Slurm) -> None:
    words = "-W -N 3 --ntasks-per-node=1 --gres=gpu:1 -t 5 -D /tmp -o /tmp/many.out"
    slurm.as_person(CONTROLLER, "ada", f"sbatch {words} --wrap 'srun -l hostname'")
    output = slurm.root(CONTROLLER, "cat /tmp/many.out")
    assert sorted(re.findall(r"^\d: (slurm\d)$", output, re.M)) == HOSTS


def test_who_used_gpus_for_how_long(slurm: Slurm) -> None:
    command = "sacct -a -X -n -P -S now-1hour -o user,elapsedraw,alloctres"
    hours: dict[str, float] = {}
    for line in slurm.root(CONTROLLER, command).splitlines():
        user, seconds, given = line.split("|")
        gpus = re.search(r"gres/gpu=(\d+)", given)
        hours[user] = hours.get(user, 0) + int(seconds) * int(gpus[1] if gpus else 0) / 3600
    for who in ("ada", "bob", "eve"):
        assert 40 / 3600 <= hours[who] < 1, hours


def test_changes_end_no_job_and_forget_no_node(slurm: Slurm) -> None:
    """Another configuration, by a run of the controller alone, under a job on another host."""
    job = slurm.submit("ada", 7000, "-t", "120", "-w", THIRD)
    slurm.wait(job, "RUNNING")
    slurm.say(slurm_extra=["KillWait=45"], slurm_max_time="2-00:00:00")
    try:
        slurm.site("--limit", CONTROLLER)
        assert slurm.state(job) == "RUNNING"
        output = slurm.root(THIRD, "scontrol show config | grep KillWait; sinfo -h -o %N")
        assert "45 sec" in output
        assert "slurm[1-3]" in output
        # A partition that a job is in can't go.
        slurm.say(slurm_partitions=[{"name": "other"}])
        done = slurm.site("--limit", CONTROLLER, code=2)
        assert f"job {job} of ada" in done.stdout.replace("\n", " ")
        assert "PartitionName=gpu" in slurm.root(CONTROLLER, "cat /etc/slurm/slurm.conf")
        # slurmd's own restart neither.
        slurm.say(slurm_extra=["KillWait=45"], slurm_max_time="2-00:00:00")
        slurm.root(THIRD, "systemctl stop slurmd")
        slurm.site("--limit", THIRD)
        assert slurm.state(job) == "RUNNING"
    finally:
        slurm.cancel()
        slurm.say()
    slurm.site()


def test_a_changed_key_is_named_and_put_right(slurm: Slurm) -> None:
    slurm.root(THIRD, f"head -c 128 /dev/urandom > /tmp/key && cat /tmp/key > {KEY} && "
                      "systemctl restart munge")  # fmt: skip
    plan = slurm.provision("plan", "-i", "lab", "--limit", THIRD)
    assert plan.returncode == 5, plan.stdout + plan.stderr
    assert ("munge.key", "nobody trusts this host") in slurm.planned(THIRD)
    slurm.site("--limit", THIRD)
    plan = slurm.provision("plan", "-i", "lab")
    assert plan.returncode == 0, [slurm.planned(host) for host in HOSTS]


def test_a_lost_gpu_is_taken_out_and_comes_back(slurm: Slurm) -> None:
    slurm.root(SECOND, "rm /dev/nvidia1")
    slurm.site("--limit", SECOND)
    assert "Gres=gpu:tesla_t4:1" in slurm.root(SECOND, f"scontrol -o show node {SECOND}")
    slurm.root(SECOND, "mknod -m 0666 /dev/nvidia1 c 195 1")
    slurm.site("--limit", SECOND)
    assert "Gres=gpu:tesla_t4:2" in slurm.root(SECOND, f"scontrol -o show node {SECOND}")


def test_gpus_that_are_not_slurms_are_closed_to_its_jobs(slurm: Slurm) -> None:
    """CUDA_VISIBLE_DEVICES=0 of a job is then the GPU that it was given, not the host's first."""
    slurm.say_of(SECOND, slurm_gpus=[1])
    health = "/usr/local/sbin/gpu-slurm-health"
    try:
        done = slurm.site("--limit", SECOND)
        assert "a job could open only /dev/nvidia1, of 1 GPUs" in done.stdout
        for words, files in (("", ["/dev/nvidia1"]), ("--gres=none", [])):
            job = slurm.submit("ada", 0, "-w", SECOND, words)
            slurm.wait(job, "COMPLETED")
            assert json.loads(slurm.output(SECOND, "ada", job)) == files
        # A device file that was made anew is closed again.
        slurm.root(SECOND, "rm /dev/nvidia0; mknod -m 0666 /dev/nvidia0 c 195 0")
        assert "jobs can open /dev/nvidia0" in slurm.root(SECOND, health)
        slurm.site("--limit", SECOND)
        assert slurm.root(SECOND, health).strip() in ("taken back", "well")
        assert slurm.site("--limit", SECOND).stdout.count("changed=0") == 1
    finally:
        slurm.say_of(SECOND)
        slurm.site("--limit", SECOND)


def test_what_of_the_inventory_can_not_be_is_refused(slurm: Slurm) -> None:
    slurm.say_of(THIRD, slurm_cluster="other")
    done = slurm.site("--limit", THIRD, code=2)
    assert "slurm_cluster is 'other' here, and 'gpu' on slurm1" in done.stdout.replace("\n", " ")
    slurm.say_of(THIRD)


def test_slurm_goes_when_the_last_job_has_ended(slurm: Slurm) -> None:
    job = slurm.submit("bob", 7000, "-t", "120", "-w", THIRD)
    slurm.wait(job, "RUNNING")
    slurm.say_of(THIRD, slurm_state="absent")
    done = slurm.site("--limit", THIRD, code=2)
    assert f"job {job} of bob on {THIRD}" in done.stdout.replace("\n", " ")
    assert slurm.state(job) == "RUNNING"
    slurm.cancel()
    slurm.site("--limit", THIRD)
    assert slurm.root(CONTROLLER, "sinfo -h -N -o %N | sort -u").split() == [CONTROLLER, SECOND]
    for path in ("/etc/provision-slurm", "/usr/sbin/slurmd"):
        assert "No such file" in slurm.root(THIRD, f"ls -d {path}", check=False)
    assert slurm.provision("plan", "-i", "lab", "--limit", THIRD).returncode == 0
    # The controller goes last.
    slurm.say_of(CONTROLLER, slurm_state="absent")
    done = slurm.site("--limit", CONTROLLER, code=2)
    assert f"{SECOND} is still of this controller's cluster" in done.stdout.replace("\n", " ")
    slurm.say(slurm_state="absent")
    slurm.site()
    assert slurm.provision("plan", "-i", "lab").returncode == 0
