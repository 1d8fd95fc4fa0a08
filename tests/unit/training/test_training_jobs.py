"""A job's part on a host, and how it is told: in a folder of a test, without systemd."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError
from gpu_stack.training import account, jobs, outcome

ME = pwd.getpwuid(os.geteuid())


def test_who_has_logged_in_is_the_person() -> None:
    assert account.of("", uid=0, login="nobody").name == "nobody"
    assert account.of("nobody", uid=0, login="root").name == "nobody"


@pytest.mark.parametrize("login", ["", "root"])
def test_root_is_never_taken_for_granted(login: str) -> None:
    with pytest.raises(RefusalError, match="gpu_train_user names one"):
        account.of("", uid=0, login=login)
    assert account.of("root", uid=0, login=login).uid == 0


def test_a_user_that_is_not_there_is_named() -> None:
    with pytest.raises(RefusalError, match="there is no user nobody-here here"):
        account.of("nobody-here", uid=0)


def test_folders_are_below_the_persons_home() -> None:
    person = account.Account("ada", 7, 7, "/homes/ada")
    assert person.folder("") == "/homes/ada/provision-train"
    assert person.folder("~/x") == "/homes/ada/x"
    assert person.folder("/data/x") == "/data/x"


def test_what_the_person_can_not_do_is_a_refusal(tmp_path: Path) -> None:
    person = account.Account(ME.pw_name, ME.pw_uid, ME.pw_gid, str(tmp_path))
    assert person.do(lambda: [1]) == [1]
    with pytest.raises(RefusalError, match=r"can't do this: .*No such file"):
        person.do(lambda: os.listdir(tmp_path / "nothing"))


def test_a_unit_runs_as_the_person_and_outlives_who_kills_it() -> None:
    person = account.Account("ada", 7, 8, "/homes/ada")
    argv = jobs.command("u.service", person, "j", "/python", "/there")
    text = " ".join(argv)
    assert "--uid 7 --gid 8" in text
    assert "--property Restart=on-failure" in text
    assert "--property OOMPolicy=continue" in text
    assert argv[-5:] == ["/python", "-I", "-B", "/there/.job/supervisor/__main__.py", "/there"]
    assert "--user" not in argv


GIVEN: dict[str, Any] = {"job": "j", "worker": 1, "hosts": ["gpu01", "gpu02"], "secret": "s"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "j" / "worker-1"
    jobs.write(str(work), GIVEN, {"train.py": "x", ".job/helper/h.py": "y"})
    return tmp_path


def test_a_workers_folder_has_its_files_and_keeps_the_secret(folder: Path) -> None:
    work = folder / "j" / "worker-1"
    assert (work / "train.py").read_text() == "x"
    assert (work / ".job").stat().st_mode & 0o777 == 0o700
    assert (work / ".job/job.json").stat().st_mode & 0o777 == 0o600


def test_what_a_former_job_has_backed_up_stays_and_its_marks_go(folder: Path) -> None:
    work = folder / "j" / "worker-1"
    (work / "backup").mkdir()
    for name in ("stop", "complete.json", "state.json"):
        (work / ".job" / name).write_text("{}")
    jobs.write(str(work), GIVEN, {})
    assert (work / "backup").is_dir()
    assert [path.name for path in (work / ".job").iterdir()] == ["job.json"]


def test_a_host_finds_its_own_worker_in_a_home_that_all_share(folder: Path) -> None:
    jobs.write(str(folder / "j/worker-0"), {**GIVEN, "worker": 0}, {})
    assert jobs.find(str(folder), "j", "gpu02") == str(folder / "j/worker-1")
    assert jobs.find(str(folder), "j", "gpu03") is None
    assert jobs.find(str(folder), "k", "gpu02") is None
    assert [entry["job"] for entry in jobs.listed(str(folder), "gpu01")] == ["j"]


class Host(Context):
    """A host whose units are as a test says."""

    def __init__(self, active: bool) -> None:
        super().__init__(runner=lambda _argv: Result(0 if active else 3, "", ""))


def params(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "job": "j", "host": "gpu02", "user": ME.pw_name, "folder": str(folder), "wait": 0,
        "offset": 0, "since": None, **more,
    }  # fmt: skip


def test_output_is_read_by_whole_lines_from_where_it_was_left(folder: Path) -> None:
    log = folder / "j/worker-1/output.log"
    log.write_text("one\ntwo\nthr")
    first = jobs.read(Host(True), params(folder))
    assert (first["log"], first["offset"], first["active"]) == ("one\ntwo\n", 8, True)
    log.write_text("one\ntwo\nthree\n")
    assert jobs.read(Host(True), params(folder, offset=8))["log"] == "three\n"
    assert jobs.read(Host(True), params(folder, offset=-6))["log"] == "three\n"
    assert jobs.read(Host(True), params(folder, job="k")) == {"found": False}


def test_a_stop_is_asked_for_as_the_person(folder: Path) -> None:
    answer = jobs.stop(Host(False), params(folder))
    assert (answer["found"], answer["stopped"]) == (True, False)
    assert (folder / "j/worker-1/.job/stop").exists()
    assert jobs.stop(Host(False), params(folder, job="k"))["found"] is False


def told(worker: int, verdict: str = "", reason: str = "", **more: Any) -> dict[str, Any]:
    return {
        "told": {
            "worker": worker, "verdict": verdict, "reason": reason, "progress": None, "mark": None,
            "board": None, "work": f"/w/{worker}", **more,
        },
        "active": not verdict,
    }  # fmt: skip


PLAN = {"job": "j"}


def test_the_chiefs_word_is_the_jobs() -> None:
    answers = {
        "gpu02": told(1, "failed", "lost"),
        "gpu01": told(0, "complete", mark={"model": "m"}),
    }
    found = outcome.of(PLAN, "followed", answers)
    assert (found["state"], found["words"]) == ("complete", "j: complete: m")


def test_a_job_that_runs_says_how_far_it_is() -> None:
    board = {"restarts": 1, "history": []}
    chief = told(0, progress={"epoch": 3, "epochs": 10}, board=board)
    found = outcome.of(PLAN, "status", {"gpu01": chief, "gpu02": told(1)})
    assert found["words"] == "j: running, epoch 3 of 10, 1 restart"


def test_supervisors_that_are_gone_without_a_word_are_lost() -> None:
    gone = {**told(0), "active": False}
    assert outcome.of(PLAN, "status", {"gpu01": gone})["state"] == "lost"


def test_a_job_that_nobody_knows_is_said_so() -> None:
    assert outcome.of(PLAN, "followed", {"gpu01": {"found": False}})["state"] == "unknown"


def test_the_lines_name_refusal_hosts_job_and_kills() -> None:
    cause = {"generation": 0, "worker": 1, "host": "gpu02", "words": "ended with 137 (SIGKILL)"}
    chief = told(0, "complete", mark={"model": "m"}, board={"history": [cause], "restarts": 1})
    report = {
        "refused": "", "outcome": outcome.of(PLAN, "followed", {"gpu01": chief}),
        "hosts": {"gpu01": {"status": "ok", "message": ""},
                  "gpu02": {"status": "unreachable", "message": "timed out"}},
    }  # fmt: skip
    lines = outcome.lines(report)
    assert lines[:3] == ["gpu02: unreachable", "  timed out", "j: complete: m"]
    assert lines[-1] == "    try 1: worker 1 on gpu02 ended with 137 (SIGKILL)"
    json.dumps(report)
    assert outcome.lines({"refused": "a\nb", "hosts": {}, "outcome": {}}) == ["a", "b"]
