"""What a supervisor keeps, and what it does with full disks, taken ports and old files."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.training.supervisor import main, worker


@pytest.fixture(autouse=True)
def no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own process keeps its answer to SIGTERM."""
    monkeypatch.setattr(main.signal, "signal", lambda *_arguments: None)


def supervisor(folder: Path, **more: Any) -> main.Supervisor:
    """Worker 0's, in this process."""
    (folder / ".job").mkdir(exist_ok=True)
    script = folder / "script.py"
    script.write_text(more.pop("text", "pass"))
    given = {
        "job": "test", "worker": 0, "hosts": ["gpu01", "gpu02"], "board": ["127.0.0.1", 1],
        "secret": "s", "restarts": 0, "python": sys.executable, "script": str(script),
        "arguments": [], "environment": {}, "tf_config": "{}", "communication": "AUTO",
        "final": "", **more,
    }  # fmt: skip
    (folder / ".job" / "job.json").write_text(json.dumps(given))
    return main.Supervisor(str(folder))


def state(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / ".job/state.json").read_text())
    return loaded


def taken() -> socket.socket:
    return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)


def test_a_port_that_was_taken_after_the_look_ends_the_job_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "BIND", 0.2)
    with taken() as holder:
        number = holder.getsockname()[1]
        assert supervisor(tmp_path, board=["127.0.0.1", number]).run() == 0
    answer = state(tmp_path)["answer"]
    assert (answer["verdict"], answer["reason"]) == (
        "failed", f"port {number} of gpu01: {os.strerror(errno.EADDRINUSE)}"
    )  # fmt: skip


def test_a_worker_whose_port_is_taken_is_not_started_and_says_so(tmp_path: Path) -> None:
    with taken() as holder:
        port = holder.getsockname()[1]
        made = supervisor(tmp_path, ports=[port])
        assert not made._prepare(0)
        assert made.report()["trouble"] == f"port {port}: {os.strerror(errno.EADDRINUSE)}"
    assert made._prepare(0)
    assert made.report()["trouble"] == ""


def test_a_job_of_one_host_needs_no_second_port(tmp_path: Path) -> None:
    with taken() as holder:
        board = ["127.0.0.1", holder.getsockname()[1]]
        supervisor(tmp_path, hosts=["gpu01"], board=board).run()
    assert state(tmp_path)["answer"]["verdict"] == "ended"
    assert not (tmp_path / ".job/backup.tar").exists()


def test_an_end_stays_one_where_the_supervisor_is_killed_behind_it(tmp_path: Path) -> None:
    """The others have gone, or still ask for it."""
    cause = {"generation": 0, "worker": 1, "host": "gpu02", "code": 137, "words": "w"}
    former = {
        "generation": 1, "restarts": 1, "history": [cause], "verdict": "complete", "reason": "r",
    }  # fmt: skip
    made = supervisor(tmp_path)
    made._take_up({"running": None, "board": former})
    answer, _file = made._reply({"worker": 1, "report": {"ready": 1}})
    assert answer == {"do": "end", "generation": 1, "verdict": "complete", "reason": "r"}
    assert made._board_state()["history"] == [cause]


def test_a_full_disk_ends_no_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = supervisor(tmp_path)
    (tmp_path / "output.log").mkdir()  # nothing can be written there
    made._start(0)
    assert made.worker.generation is None
    assert made.report()["trouble"].startswith("its log can't be written: ")

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    made._take_up({})
    monkeypatch.setattr(main, "write", full)
    made._note({})


def test_the_backup_is_on_the_disk_once_while_all_train(tmp_path: Path) -> None:
    made = supervisor(tmp_path)
    (tmp_path / "backup").mkdir()
    assert made._prepare(0)
    assert (tmp_path / ".job/backup.tar").exists()
    made._start(0)
    made.worker.stop()
    assert not (tmp_path / ".job/backup.tar").exists()
    assert made._reply({"backup": 0})[0] == {"wait": True}


@pytest.mark.parametrize(
    ("code", "complete"),
    [(0, True), (1, True), (139, True), (137, False), (143, False), (None, False)],
)
def test_a_file_of_a_worker_that_was_killed_may_be_half_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None, complete: bool
) -> None:
    made = supervisor(tmp_path, final="model.bin")
    (tmp_path / "model.bin").write_text("x")
    monkeypatch.setattr(made.worker, "code", lambda: code)
    assert (made._mark() is not None) is complete


def test_a_file_of_a_former_job_completes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "final").mkdir()
    old = time.time() - 1000
    os.utime(tmp_path / "final", (old, old))
    made = supervisor(tmp_path, final="final")
    monkeypatch.setattr(made.worker, "code", lambda: 0)
    assert made._mark() is None
    # Written again in place, the folder's own time stays.
    (tmp_path / "final" / "weights").write_text("x")
    os.utime(tmp_path / "final", (old, old))
    assert made._mark() == {"model": str(tmp_path / "final")}


def test_a_log_begins_anew_before_it_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LARGEST", 10)
    log = tmp_path / "output.log"
    kept = worker.Worker({}, str(log))
    with log.open("ab", buffering=0) as stream:  # as the worker's own output is
        stream.write(b"0123456789")
        kept.trim()
        assert log.read_bytes() == b"0123456789"
        stream.write(b"a")
        kept.trim()
        stream.write(b"new")
    assert log.read_bytes() == b"new"
    assert (tmp_path / "output.log.1").read_bytes() == b"0123456789a"


def test_a_group_that_is_gone_is_signalled_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may be another program's of the same person by then."""
    made = supervisor(tmp_path)
    made._start(0)
    made.worker.stop()
    sent: list[int] = []
    monkeypatch.setattr(worker, "_signal", lambda _group, number: sent.append(number))
    made.worker.stop()
    assert sent == []
    made._start(1)
    made.worker.stop()
    assert sent


def test_a_persons_own_pythonpath_stays_behind_the_helpers() -> None:
    job = {
        "work": "/w", "job": "j", "environment": {"PYTHONPATH": "/data/lib", "A": "1"},
        "tf_config": "{}", "communication": "AUTO",
    }  # fmt: skip
    variables = worker.variables(job, {"PYTHONPATH": "/theirs", "A": "0"})
    assert (variables["PYTHONPATH"], variables["A"]) == ("/w/.job/helper:/data/lib", "1")
