"""Training across two hosts: the real TensorFlow on their CPUs, and workers that are killed.

The hosts' GPUs are simulated and compute nothing, so they are hidden from TensorFlow.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import Project

from provision import examples

pytestmark = [pytest.mark.slow]

# The must-show: PROVISION_TRAIN_KILLS=100 pytest tests/hosts/test_train.py -k killed
KILLS = int(os.environ.get("PROVISION_TRAIN_KILLS", "3"))
# Kills of one job; the next of them are another's.
MOST = 10
SEED = int(os.environ.get("PROVISION_TRAIN_SEED", "0"))
# Of one try, from the start of TensorFlow on a host under load to its first epoch.
PATIENCE = 600.0
HIDDEN = {"CUDA_VISIBLE_DEVICES": "-1"}
EPOCH = re.compile(r"^(?P<turn>=== try (?P<generation>\d+))|epoch (?P<begun>\d+) begins$"
                   r"|epoch (?P<done>\d+) of ")  # fmt: skip


@dataclass
class Trained:
    """What a job has printed, by its tries: the epochs that began and that were done."""

    begun: dict[int, list[int]] = field(default_factory=dict)
    done: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Trained:
        found, generation = cls(), 0
        for line in text.splitlines():
            match = EPOCH.search(line)
            if match is None:
                continue
            if match["turn"]:
                generation = int(match["generation"])
            elif match["begun"]:
                found.begun.setdefault(generation, []).append(int(match["begun"]))
            else:
                found.done.setdefault(generation, []).append(int(match["done"]))
        return found

    def lost(self) -> list[int]:
        """For each try that came to an epoch: how many epochs were done and are done again."""
        best, losses = 0, []
        for generation in sorted(self.begun):
            losses.append(max(0, best - self.begun[generation][0] + 1))
            best = max([best, *self.done.get(generation, [])])
        return losses


class Job:
    """A job of a project's two hosts."""

    def __init__(self, project: Project, name: str) -> None:
        self.project, self.name = project, name
        self.hosts = [host.name for host in project.lab.hosts]

    def folder(self, worker: int) -> str:
        return f"provision-train/{self.name}/worker-{worker}"

    def read(self, worker: int, file: str) -> str:
        return self.project.ssh(
            self.hosts[worker], f"cat {self.folder(worker)}/{file} 2>/dev/null || true"
        )

    def state(self, worker: int) -> dict[str, Any]:
        text = self.read(worker, ".job/state.json")
        loaded: dict[str, Any] = json.loads(text) if text.strip() else {}
        return loaded

    def is_over(self) -> bool:
        return bool((self.state(0).get("answer") or {}).get("verdict"))

    def until(self, what: Any, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not what():
            assert time.monotonic() < deadline, (self.state(0), self.read(0, "output.log")[-3000:])
            time.sleep(0.5)

    def until_try(self, generation: int) -> None:
        """Until the board has come to this try, or to the end."""
        self.until(lambda: self.is_over() or self.state(0)["board"]["generation"] >= generation)

    def kill(self, worker: int, signal: str) -> bool:
        """Whether the worker's process was there to be killed."""
        pid = self.state(worker).get("pid")
        if not pid:
            return False
        output = self.project.ssh(
            self.hosts[worker], f"kill -{signal} {pid} && echo done", check=False
        )
        return "done" in output


def start(
    project: Project, name: str, script: Path, *more: str, epochs: int, detach: bool = True
) -> subprocess.CompletedProcess[str]:
    variables = {"gpu_train_environment": {**HIDDEN, "EPOCHS": str(epochs)}}
    options = ["--detach"] if detach else []
    return project.provision(
        "train", "gpu_hosts", "--script", str(script), "--job", name, *options, *more,
        "-e", json.dumps(variables),
    )  # fmt: skip


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "multi_worker.py"
    path.write_text(examples.named("multi_worker").text)
    return path


@pytest.fixture(autouse=True)
def nothing_left(spine: Project) -> Iterator[None]:
    yield
    for host in spine.lab.hosts:
        spine.ssh(
            host.name,
            "sudo systemctl stop 'provision-train-*' ; rm -rf provision-train",
            check=False,
        )


def test_a_training_is_followed_to_its_end(spine: Project, script: Path) -> None:
    done = start(spine, "whole", script, epochs=3, detach=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for worker, host in enumerate(Job(spine, "whole").hosts):
        assert f"{worker} {host}: [worker {worker}] epoch 3 of 3" in done.stdout
        kept = spine.path / "report" / "training" / "whole" / f"{host}.log"
        assert "epoch 3 of 3" in kept.read_text("utf-8")
    assert re.search(r"^whole: complete: /home/\S+/worker-0/final", done.stdout, re.M), done.stdout
    listed = spine.provision("train", "--status", "whole")
    assert listed.returncode == 0
    assert "whole: complete" in listed.stdout


def test_killed_workers_are_started_again_and_lose_one_epoch_at_most(
    spine: Project, script: Path
) -> None:
    chosen = random.Random(SEED)  # noqa: S311 (which worker, and when)
    done, number = 0, 0
    while done < KILLS:
        number += 1
        killed = train_and_kill(spine, f"killed{number}", script, min(MOST, KILLS - done), chosen)
        assert killed, "the job was over before a worker could be killed"
        done += len(killed)
        print(f"{done} of {KILLS} kills: {killed}")  # noqa: T201


def train_and_kill(
    spine: Project, name: str, script: Path, kills: int, chosen: random.Random
) -> list[tuple[int, str]]:
    """Kills workers of a job until it has had so many or is over; it must come right. The kills."""
    epochs = 40 + 10 * kills
    done = start(spine, name, script, "--restarts", str(kills + 10), epochs=epochs)
    assert done.returncode == 0, done.stdout + done.stderr
    job, killed = Job(spine, name), []
    while len(killed) < kills:
        before = (job.state(0).get("board") or {}).get("generation", 0)
        # Where in its start or its epochs it is hit is left to chance.
        job.until(lambda: job.is_over() or job.state(0).get("pid"))
        if job.is_over():
            break
        time.sleep(chosen.uniform(0, 25 if chosen.random() < 0.7 else 4))
        worker, signal = chosen.randrange(2), chosen.choice(["KILL", "KILL", "TERM"])
        if not job.kill(worker, signal):
            continue
        killed.append((worker, signal))
        job.until_try(before + 1)
    job.until(job.is_over, patience=PATIENCE + 20 * epochs)
    answer = job.state(0)["answer"]
    assert answer["verdict"] == "complete", (killed, answer)
    for worker in (0, 1):
        trained = Trained.of(job.read(worker, "output.log"))
        assert max(trained.lost()) <= 1, (worker, trained)
        assert epochs in [epoch for done in trained.done.values() for epoch in done]
    history = job.state(0)["board"]["history"]
    assert len(history) >= len(killed) - 1, (killed, history)
    return killed


def test_a_script_that_fails_is_not_started_again(spine: Project, tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("import provision_train\nraise SystemExit('no data here')\n")
    done = start(spine, "broken", script, epochs=1, detach=False)
    assert done.returncode == 4
    assert re.search(r"^broken: failed: worker \d on \S+ ended with 1 \(the script failed\)$",
                     done.stdout, re.M), done.stdout  # fmt: skip
    assert "no data here" in done.stdout


def test_all_workers_are_stopped_or_none(spine: Project, script: Path) -> None:
    assert start(spine, "stopped", script, epochs=100000).returncode == 0
    job = Job(spine, "stopped")
    job.until(lambda: job.state(1).get("pid") and job.state(0).get("pid"))
    done = spine.provision("train", "--stop", "stopped")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "stopped: stopped" in done.stdout
    for worker in (0, 1):
        assert job.state(worker)["running"] is None
        units = spine.ssh(job.hosts[worker], "systemctl list-units 'provision-train-*' --no-legend")
        assert units.strip() == ""


def test_a_diagnosis_says_by_which_way_the_hosts_exchange_gradients(spine: Project) -> None:
    variables = {"gpu_train_environment": HIDDEN}
    done = spine.provision("train", "gpu_hosts", "--diagnose", "-e", json.dumps(variables))
    assert done.returncode == 0, done.stdout + done.stderr
    for worker in (0, 1):
        assert re.search(rf"^{worker} \S+: RING: 2 replicas agree; ", done.stdout, re.M), (
            done.stdout
        )
    assert "diagnosis: RING gets through; there is no NCCL without GPUs" in done.stdout


def test_a_closed_port_is_named_and_nothing_is_started(spine: Project, script: Path) -> None:
    """A host of the lab has no firewall: its peers are sent to where nothing listens instead."""
    first, second = (host.name for host in spine.lab.hosts)
    gateway = spine.ssh(second, "ip route show default").split()[2]
    variables = spine.path / "lab" / "host_vars" / f"{second}.yml"
    variables.parent.mkdir(exist_ok=True)
    variables.write_text(f"gpu_train_address: {gateway}\n")
    try:
        done = start(spine, "closed", script, epochs=1)
    finally:
        variables.unlink()
    assert done.returncode == 4
    assert f"{first} cannot reach {second}:2222: " in done.stdout
    assert "firewall" in done.stdout
    assert "provision-train" not in spine.ssh(first, "ls")


def test_what_holds_a_port_is_named(spine: Project, script: Path) -> None:
    second = spine.lab.hosts[1].name
    bind = "import socket,time; s=socket.socket(); s.setsockopt(1,2,1); s.bind(('',2222))"
    # The look of the test before holds the port for a while.
    free = f'for i in $(seq 60); do python3 -c "{bind}" 2>/dev/null && break; sleep 1; done'
    listen = f"{bind}; s.listen(1); time.sleep(90)"
    pid = spine.ssh(
        second, f'{free}; nohup python3 -c "{listen}" >/dev/null 2>&1 & echo $!; sleep 1'
    ).strip()
    try:
        done = start(spine, "held", script, epochs=1)
    finally:
        # The next training needs the port.
        spine.ssh(second, f"kill {pid}", check=False)
    assert done.returncode == 4
    held = rf"{second}: port 2222 is held by (python3 of lab \(pid \d+\)|a process of lab): "
    assert re.search(held, done.stdout), done.stdout
