"""Supervisors at work on this machine, over a stand-in for a training: no TensorFlow is here.

The real TensorFlow trains and is killed in tests/hosts/test_train.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.training import judge, supervisor
from gpu_stack.training.supervisor import backup, wire

from provision.locallab.vm.guest import free_port
from tests.collection import ROOT
from tests.ports import free_ports

PROGRAM = Path(supervisor.__file__).parent
HELPER = ROOT / "playbooks/files/training/provision_train.py"
# Epochs of a tenth of a second. Workers are connected; who loses its peer ends with 1. Worker 0
# alone keeps a backup, and says when all are done.
TRAINING = """
import json, os, socket, sys, time
import provision_train as job

me, epochs = job.number(), int(sys.argv[1])
peers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
ports = [int(peer.rpartition(":")[2]) for peer in peers]
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", ports[me]))
listener.listen(5)
peer = None
while peer is None:
    try:
        peer = socket.create_connection(("127.0.0.1", ports[1 - me]), 1)
    except OSError:
        time.sleep(0.02)
mine = listener.accept()[0]
peer.setblocking(False)

def check():
    try:
        if peer.recv(1) == b"":
            sys.exit(1)
    except BlockingIOError:
        pass
    except OSError:
        sys.exit(1)

folder = os.path.join(job.FOLDER, "backup")
os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, "epoch")
first = int(open(path).read()) if os.path.exists(path) else 0
for epoch in range(first, epochs):
    job._say("epoch %d begins" % (epoch + 1))
    for _part in range(5):
        time.sleep(0.02)
        check()
    job._say("epoch %d of %d" % (epoch + 1, epochs))
    job._write("progress.json", {"epoch": epoch + 1, "epochs": epochs})
    if me == 0:
        with open(path + ".new", "w") as stream:
            stream.write(str(epoch + 1))
        os.replace(path + ".new", path)
if me == 0:
    os.makedirs(os.path.join(job.FOLDER, "final"), exist_ok=True)
    job._write("complete.json", {"model": os.path.join(job.FOLDER, "final")})
    mine.send(b"!")
else:
    peer.setblocking(True)
    if peer.recv(1) != b"!":
        sys.exit(1)
if "crash" in sys.argv:
    os.kill(os.getpid(), 11)
"""


class Job:
    """Two workers on this machine."""

    def __init__(self, folder: Path, script: str, arguments: list[str], **more: Any) -> None:
        self.folder = folder
        numbers = free_ports(3)
        (folder / "script.py").write_text(script)
        self.processes = []
        for worker in (0, 1):
            state = folder / f"worker-{worker}" / ".job"
            (state / "helper").mkdir(parents=True)
            shutil.copy(HELPER, state / "helper")
            config = json.loads(judge.tf_config(["127.0.0.1", "127.0.0.1"], 0, worker))
            config["cluster"]["worker"] = [f"127.0.0.1:{number}" for number in numbers[:2]]
            given = {
                "job": "test", "worker": worker, "hosts": ["gpu01", "gpu02"],
                "board": ["127.0.0.1", numbers[2]], "secret": "s", "restarts": 100,
                "python": sys.executable, "script": str(folder / "script.py"),
                "arguments": arguments, "environment": {}, "tf_config": json.dumps(config),
                "communication": "AUTO", "final": "", **more,
            }  # fmt: skip
            (state / "job.json").write_text(json.dumps(given))
            self.start(worker)

    def start(self, worker: int) -> None:
        work = self.folder / f"worker-{worker}"
        argv = [sys.executable, "-I", "-B", str(PROGRAM / "__main__.py"), str(work)]
        self.processes[worker : worker + 1] = [subprocess.Popen(argv)]

    def state(self, worker: int) -> dict[str, Any]:
        try:
            path = self.folder / f"worker-{worker}" / ".job" / "state.json"
            loaded: dict[str, Any] = json.loads(path.read_text())
        except OSError:
            return {}
        return loaded

    def until(self, what: Any) -> None:
        deadline = time.monotonic() + 60
        while not what():
            assert time.monotonic() < deadline, (self.state(0), self.said(0))
            time.sleep(0.02)

    def said(self, worker: int) -> str:
        path = self.folder / f"worker-{worker}" / "output.log"
        return path.read_text() if path.exists() else ""

    def end(self) -> dict[str, Any]:
        """The answer that ended the job."""
        for process in self.processes:
            assert process.wait(120) == 0
        answers = [self.state(worker)["answer"] for worker in (0, 1)]
        assert answers[0]["verdict"] == answers[1]["verdict"]
        return answers[0]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Any]:
    made: list[Job] = []

    def make(*arguments: str, script: str = TRAINING, **more: Any) -> Job:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Job(folder, script, list(arguments), **more))
        return made[-1]

    yield make
    for job in made:
        for process in job.processes:
            process.kill()
            process.wait()
        # On a host systemd ends what is left of a unit.
        for worker in (0, 1):
            pid = job.state(worker).get("pid")
            if pid:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)


def test_a_training_comes_to_its_end(jobs: Any) -> None:
    job = jobs("3")
    assert job.end()["verdict"] == "complete"
    assert "epoch 3 of 3" in job.said(1)
    assert job.state(0)["progress"] == {"epoch": 3, "epochs": 3}


def test_a_crash_after_the_training_is_reported_and_is_no_failure(jobs: Any) -> None:
    answer = jobs("2", "crash").end()
    assert answer["verdict"] == "complete"
    assert "SIGSEGV" in answer["reason"]


def test_killed_workers_go_on_and_lose_one_epoch_at_most(jobs: Any) -> None:
    chosen = random.Random(4)  # noqa: S311 (which worker, and when)
    job, kills = jobs("30"), 0
    # There is a backup to go on from.
    job.until(lambda: (job.state(0).get("progress") or {}).get("epoch", 0) > 1)
    while kills < 6:
        worker = chosen.randrange(2)
        job.until(lambda worker=worker: job.state(worker).get("pid"))
        state = job.state(worker)
        time.sleep(chosen.uniform(0, 0.6))
        try:
            os.kill(state["pid"], chosen.choice([signal.SIGKILL, signal.SIGTERM]))
        except ProcessLookupError:
            continue  # it was of the try before
        kills += 1
        generation = state["answer"]["generation"]
        job.until(lambda g=generation: job.state(0)["board"]["generation"] > g)
    assert job.end()["verdict"] == "complete"
    best = 0
    for turn in job.said(0).split("=== try ")[1:]:
        begun = [int(line.split()[3]) for line in turn.splitlines() if "begins" in line]
        done = [int(line.split()[3]) for line in turn.splitlines() if " of " in line]
        assert not begun or begun[0] >= best
        best = max([best, *done])
    # The others begin where worker 0 does, from its backup.
    first = [t.splitlines()[1:2] for t in job.said(1).split("=== try ")[1:]]
    assert all("[worker 1] epoch 1 begins" not in line for line in first[-1])


@pytest.mark.parametrize("worker", [0, 1])
def test_a_supervisor_that_is_killed_is_taken_up_by_the_next(jobs: Any, worker: int) -> None:
    """systemd starts it anew, and kills what was left of its unit."""
    job = jobs("20")
    job.until(lambda: (job.state(worker).get("progress") or {}).get("epoch", 0) > 2)
    job.processes[worker].kill()
    os.kill(job.state(worker)["pid"], signal.SIGKILL)
    job.processes[worker].wait()
    job.start(worker)
    assert job.end()["verdict"] == "complete"
    assert job.state(0)["board"]["restarts"] >= 1


@pytest.mark.parametrize("worker", [0, 1])
def test_a_supervisor_that_systemd_ends_takes_its_own_worker_alone(jobs: Any, worker: int) -> None:
    """As where its host shuts down. Who stops the job has written so before."""
    job = jobs("20")
    job.until(lambda: (job.state(worker).get("progress") or {}).get("epoch", 0) > 2)
    pid = job.state(worker)["pid"]
    job.processes[worker].terminate()
    assert job.processes[worker].wait(60) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    if worker == 1:
        job.until(lambda: job.state(0)["answer"]["do"] == "prepare")
        assert [cause["code"] for cause in job.state(0)["board"]["history"]] == [143]
    job.start(worker)
    assert job.end()["verdict"] == "complete"
    assert job.state(0)["board"]["restarts"] == 1


def test_a_supervisor_that_systemd_ends_ends_a_job_that_was_asked_to_stop(jobs: Any) -> None:
    job = jobs("1000")
    job.until(lambda: job.state(1).get("pid") and job.state(0).get("pid"))
    (job.folder / "worker-1" / ".job" / "stop").touch()
    job.processes[1].terminate()
    assert job.end()["verdict"] == "stopped"


def test_a_script_that_fails_at_once_is_not_tried_again(jobs: Any) -> None:
    job = jobs(script="raise SystemExit('no data')")
    answer = job.end()
    assert answer["verdict"] == "failed"
    assert answer["generation"] == 0
    assert "no data" in job.said(0)


def test_a_program_that_is_not_there_is_127(jobs: Any) -> None:
    assert "ended with 127" in jobs(python="/nowhere/python").end()["reason"]


def test_without_a_mark_zero_is_not_complete(jobs: Any) -> None:
    assert jobs(script="pass").end()["verdict"] == "ended"


def test_a_file_that_was_named_completes_a_script_without_the_helper(jobs: Any) -> None:
    job = jobs(script="open('model.bin', 'w').close()", final="model.bin")
    assert job.end()["verdict"] == "complete"


@pytest.mark.parametrize("worker", [0, 1])
def test_a_stop_on_one_host_stops_all(jobs: Any, worker: int) -> None:
    job = jobs("1000")
    job.until(lambda: job.state(1).get("pid") and job.state(0).get("pid"))
    pids = [job.state(number)["pid"] for number in (0, 1)]
    (job.folder / f"worker-{worker}" / ".job" / "stop").touch()
    assert job.end()["verdict"] == "stopped"
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_who_does_not_know_the_secret_is_not_answered(tmp_path: Path) -> None:
    heard: list[Any] = []

    def reply(question: Any) -> tuple[dict[str, Any], str | None]:
        heard.append(question)
        return {"do": "run"}, None

    number = free_port()
    server = wire.Server(number, "right", reply)
    import threading

    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert wire.ask(("127.0.0.1", number), "right", {"worker": 1}) == {"do": "run"}
        with pytest.raises(wire.WireError):
            wire.ask(("127.0.0.1", number), "wrong", {"worker": 1})
    finally:
        server.shutdown()
        server.server_close()
    assert heard == [{"worker": 1}]


def test_a_backup_replaces_the_former_one_whole(tmp_path: Path) -> None:
    for name in ("chief", "other"):
        (tmp_path / name / "backup").mkdir(parents=True)
    (tmp_path / "chief/backup/new").write_text("2")
    (tmp_path / "chief/backup/link").symlink_to("/etc/passwd")
    (tmp_path / "other/backup/old").write_text("1")
    backup.pack(str(tmp_path / "chief"), str(tmp_path / "a.tar"))
    backup.unpack(str(tmp_path / "a.tar"), str(tmp_path / "other"))
    assert [path.name for path in (tmp_path / "other/backup").iterdir()] == ["new"]


@pytest.mark.parametrize("lost", ["no folder", "no file in it"])
def test_where_worker_0_has_lost_its_backup_the_others_keep_theirs(
    tmp_path: Path, lost: str
) -> None:
    """Its disk is new, as after a reinstall: theirs is the last copy of days of training."""
    for name in ("chief", "other"):
        (tmp_path / name).mkdir()
    if lost == "no file in it":
        (tmp_path / "chief/backup").mkdir()
    for number in ("", ".1"):
        (tmp_path / "other/backup/epoch").mkdir(parents=True)
        (tmp_path / "other/backup/epoch/weights").write_text(f"7{number}")
        backup.pack(str(tmp_path / "chief"), str(tmp_path / "a.tar"))
        backup.unpack(str(tmp_path / "a.tar"), str(tmp_path / "other"))
        kept = tmp_path / f"other/backup.former{number}/epoch/weights"
        assert kept.read_text() == f"7{number}"
        assert not (tmp_path / "other/backup/epoch").exists()


def test_where_nobody_has_a_backup_nothing_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "chief").mkdir()
    (tmp_path / "other/backup").mkdir(parents=True)
    backup.pack(str(tmp_path / "chief"), str(tmp_path / "a.tar"))
    backup.unpack(str(tmp_path / "a.tar"), str(tmp_path / "other"))
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "backup/../../x", "/etc/x", "elsewhere/x"])
def test_an_archive_that_leads_out_of_the_backup_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "file", name)
        archive.members[0].name = name
    (tmp_path / "work").mkdir()
    data = (tmp_path / "a.tar").read_bytes()
    if name.startswith("/"):
        data = data.replace(b"etc/x", b"/et/x", 1)
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(tarfile.TarError):
        backup.unpack(str(tmp_path / "a.tar"), str(tmp_path / "work"))
    assert not (tmp_path / "x").exists()
