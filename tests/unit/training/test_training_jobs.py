"""A job's part on a host, and its status: in a folder of a test, without systemd."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError
from gpu_stack.training import account, jobs, outcome, worker_status

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


PLAN = {"job": "j"}
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
    assert worker_status.find(str(folder), "j", "gpu02") == str(folder / "j/worker-1")
    assert worker_status.find(str(folder), "j", "gpu03") is None
    assert worker_status.find(str(folder), "k", "gpu02") is None
    assert [entry["job"] for entry in worker_status.listed(str(folder), "gpu01")] == ["j"]


def test_a_host_whose_number_has_changed_is_asked_about_its_newest_worker(folder: Path) -> None:
    """A job that ran on it alone goes on with another host before it."""
    jobs.write(str(folder / "j/worker-0"), {**GIVEN, "worker": 0, "hosts": ["gpu02"]}, {})
    os.utime(folder / "j/worker-0/.job/job.json", (0, 0))
    assert worker_status.find(str(folder), "j", "gpu02") == str(folder / "j/worker-1")


@pytest.mark.parametrize("name", ["worker-*", "worker-1", "x-1", "worker-"])
def test_a_folder_that_is_no_workers_names_no_unit(folder: Path, name: str) -> None:
    """Root asks systemd about the unit of the number in it, and stops that."""
    work = folder / "j/worker-1"
    given = {**GIVEN, "worker": "*" if name == "worker-1" else 1}
    (work / ".job/job.json").write_text(json.dumps(given))
    work.rename(folder / "j" / name)
    assert worker_status.find(str(folder), "j", "gpu02") is None


def test_another_persons_folder_of_the_same_job_is_not_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert worker_status.find(str(folder), "j", "gpu02") is None


def test_another_person_can_not_change_what_the_unit_runs(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "worker-1").symlink_to(elsewhere)
    with pytest.raises(PermissionError, match="not this user's alone"):
        jobs.write(str(tmp_path / "j/worker-1"), GIVEN, {})
    assert list(elsewhere.iterdir()) == []
    (tmp_path / "j/worker-1").unlink()
    (tmp_path / "j").chmod(0o777)
    with pytest.raises(PermissionError, match="not this user's alone"):
        jobs.write(str(tmp_path / "j/worker-1"), GIVEN, {})
    (tmp_path / "j").chmod(0o755)
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match=r"chmod \+t"):
        jobs.write(str(tmp_path / "j/worker-1"), GIVEN, {})
    tmp_path.chmod(0o1777)
    jobs.write(str(tmp_path / "j/worker-1"), GIVEN, {})


class Group:
    def __init__(self, name: str, *members: str) -> None:
        self.gr_name, self.gr_mem = name, list(members)


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (Group("ada"), None),
        (Group("ada", "ada"), None),
        (Group("ada", "bob"), "others can replace what is there"),
        (Group("lab"), "others can replace what is there"),
    ],
)
def test_nobody_of_a_group_can_change_what_the_unit_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, group: Group, said: str | None
) -> None:
    """Of a folder that a group shares without the sticky bit, each can replace the others' jobs."""
    monkeypatch.setattr(jobs.grp, "getgrgid", lambda _gid: group)
    monkeypatch.setattr(jobs.pwd, "getpwuid", lambda _uid: Person())
    folder.chmod(0o2775)
    refused = pytest.raises(PermissionError, match=said) if said else contextlib.nullcontext()
    with refused:
        jobs.write(str(folder / "j/worker-1"), GIVEN, {})
    folder.chmod(0o3775)
    jobs.write(str(folder / "j/worker-1"), GIVEN, {})
    (folder / "j").chmod(0o2775)
    alone = pytest.raises(PermissionError, match="not this user's alone")
    with alone if said else contextlib.nullcontext():
        jobs.write(str(folder / "j/worker-1"), GIVEN, {})


class Person:
    pw_name = "ada"


def test_who_owns_the_folder_of_all_jobs_can_not_change_what_the_unit_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sticky bit does not hold for a directory's owner."""
    seen = os.stat

    def others(path: Any, **more: Any) -> Any:
        info = seen(path, **more)
        if str(path) != str(folder):
            return info
        return os.stat_result((*info[:4], info.st_uid + 4711, *info[5:10]))

    folder.chmod(0o1777)
    monkeypatch.setattr(jobs.os, "stat", others)
    with pytest.raises(PermissionError, match=r"another user's, .*chown root"):
        jobs.write(str(folder / "j/worker-1"), GIVEN, {})


LIES: dict[str, Any] = {
    "answer": {"verdict": "\x1b[2Jwell", "reason": "a\x1b[31mb", "generation": []},
    "progress": [1], "mark": "m", "since": "x", "trouble": {"a": 1},
    "board": {"restarts": "many", "history": [7, {"worker": [], "words": "c\n\x07"}]},
}  # fmt: skip


def test_what_a_person_writes_into_the_state_breaks_nothing(folder: Path) -> None:
    state = folder / "j/worker-1/.job/state.json"
    state.write_text(json.dumps(LIES))
    status = worker_status.of(str(folder / "j/worker-1"))
    assert (status["verdict"], status["reason"], status["generation"]) == ("", "a?[31mb", 0)
    assert (status["progress"], status["mark"], status["since"]) == (None, None, None)
    assert status["board"] == {
        "restarts": 0, "history": [{"generation": 0, "worker": 0, "host": "", "words": "c??"}]
    }  # fmt: skip
    assert outcome.of(PLAN, "status", {"gpu02": {"status": status, "active": True}})["words"]


@pytest.mark.parametrize("kind", ["fifo", "endless", "deep", "large", "list"])
def test_a_state_that_is_no_file_of_ours_is_none(folder: Path, kind: str) -> None:
    state = folder / "j/worker-1/.job/state.json"
    if kind == "fifo":
        os.mkfifo(state)
    elif kind == "endless":
        state.symlink_to("/dev/zero")
    else:
        large = '{"a": "' + "x" * worker_status.LARGEST + '"}'
        state.write_text({"deep": "[" * 200_000, "large": large, "list": "[]"}[kind])
    assert worker_status.content(str(state)) == {}


class Host(Context):
    """A host whose units are in a state of systemd's, and this user's or another's."""

    def __init__(self, state: str, user: int | None = None) -> None:
        self.asked: list[list[str]] = []
        shown = f"ActiveState={state}\nUser={ME.pw_uid if user is None else user}\n"

        def run(argv: list[str]) -> Result:
            self.asked.append(argv)
            return Result(0, shown if argv[1] == "show" else "", "")

        super().__init__(runner=run)


def params(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "job": "j", "host": "gpu02", "user": ME.pw_name, "folder": str(folder), "wait": 0,
        "offset": 0, "since": None, **more,
    }  # fmt: skip


def test_output_is_read_by_whole_lines_from_where_it_was_left(folder: Path) -> None:
    log = folder / "j/worker-1/output.log"
    log.write_text("one\ntwo\nthr")
    first = jobs.read(Host("active"), params(folder))
    assert (first["log"], first["offset"], first["active"]) == ("one\ntwo\n", 8, True)
    log.write_text("one\ntwo\nthree\n")
    assert jobs.read(Host("active"), params(folder, offset=8))["log"] == "three\n"
    assert jobs.read(Host("active"), params(folder, offset=-6))["log"] == "three\n"
    assert jobs.read(Host("active"), params(folder, job="k")) == {"found": False}
    # The supervisor has begun another.
    log.write_text("new\n")
    again = jobs.read(Host("active"), params(folder, offset=14))
    assert (again["log"], again["offset"], again["status"]["last"]) == ("new\n", 4, "new")


@pytest.mark.parametrize(
    ("state", "user", "active"),
    [
        ("active", None, True),
        # For the second until systemd starts it anew.
        ("activating", None, True),
        ("deactivating", None, True),
        ("inactive", None, False),
        ("failed", None, False),
        ("active", 12345, False),
    ],
)
def test_a_unit_is_at_work_until_it_is_over_for_good(
    folder: Path, state: str, user: int | None, active: bool
) -> None:
    assert jobs.read(Host(state, user), params(folder))["active"] is active
    (entry,) = jobs.listed(Host(state, user), params(folder))
    assert entry["active"] is active


def test_a_systemd_that_does_not_answer_is_no_end_of_a_job(folder: Path) -> None:
    silent = Context(runner=lambda _argv: Result(124, "", "timed out"))
    with pytest.raises(RefusalError, match="systemctl show"):
        jobs.read(silent, params(folder))


def test_another_persons_job_of_the_same_name_is_not_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "STOPS", 0.1)
    theirs, ours = Host("active", 12345), Host("active")
    assert jobs.stop(theirs, params(folder))["stopped"] is False
    assert {argv[1] for argv in theirs.asked} == {"show"}
    assert jobs.stop(ours, params(folder))["stopped"] is True
    assert ours.asked[-1] == ["systemctl", "stop", "provision-train-j-1.service"]


def test_what_is_running_under_a_name_is_not_started_over(folder: Path) -> None:
    asked = params(folder, worker=1, python="/python", token="", ports=[], given={}, files={})
    with pytest.raises(RefusalError, match="running here already"):
        jobs.start(Host("activating", 12345), asked)


def test_a_stop_is_asked_for_as_the_person(folder: Path) -> None:
    answer = jobs.stop(Host("inactive"), params(folder))
    assert (answer["found"], answer["stopped"]) == (True, False)
    assert (folder / "j/worker-1/.job/stop").exists()
    assert jobs.stop(Host("inactive"), params(folder, job="k"))["found"] is False


def entry(worker: int, verdict: str = "", reason: str = "", **more: Any) -> dict[str, Any]:
    return {
        "status": {
            "worker": worker, "verdict": verdict, "reason": reason, "progress": None, "mark": None,
            "board": None, "work": f"/w/{worker}", **more,
        },
        "active": not verdict,
    }  # fmt: skip


def test_the_chiefs_word_is_the_jobs() -> None:
    answers = {
        "gpu02": entry(1, "failed", "lost"),
        "gpu01": entry(0, "complete", mark={"model": "m"}),
    }
    result = outcome.of(PLAN, "followed", answers)
    assert (result["state"], result["words"]) == ("complete", "j: complete: m")


def test_a_job_that_runs_says_how_far_it_is() -> None:
    board = {"restarts": 1, "history": []}
    chief = entry(0, progress={"epoch": 3, "epochs": 10}, board=board)
    result = outcome.of(PLAN, "status", {"gpu01": chief, "gpu02": entry(1)})
    assert result["words"] == "j: running, epoch 3 of 10, 1 restart"


def test_supervisors_that_are_gone_without_a_word_are_lost() -> None:
    gone = {**entry(0), "active": False}
    assert outcome.of(PLAN, "status", {"gpu01": gone})["state"] == "lost"


def test_a_job_that_nobody_knows_is_said_so() -> None:
    assert outcome.of(PLAN, "followed", {"gpu01": {"found": False}})["state"] == "unknown"


def test_the_lines_name_refusal_hosts_job_and_kills() -> None:
    cause = {"generation": 0, "worker": 1, "host": "gpu02", "words": "ended with 137 (SIGKILL)"}
    chief = entry(0, "complete", mark={"model": "m"}, board={"history": [cause], "restarts": 1})
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


def quiet(**more: Any) -> dict[str, Any]:
    """A worker that has printed nothing for long in a try that began at 1000."""
    return {
        "verdict": "", "quiet": 900.0, "since": 1000.0, "progress": None, "last": "",
        "communication": "AUTO", **more,
    }  # fmt: skip


def test_a_training_that_may_hang_gets_a_hint() -> None:
    words = outcome.hint(quiet())
    assert words.startswith("nothing was printed for 15 min, and no epoch of this try is done")
    assert "--communication ring" in words
    assert "NCCL_DEBUG" in words
    assert "waits for its peers" in outcome.hint(quiet(last="I Started server with target: x"))
    assert "--communication" not in outcome.hint(quiet(communication="RING"))
    # An epoch of the try before says nothing of this one.
    assert outcome.hint(quiet(progress={"epoch": 3, "at": 900.0}))


@pytest.mark.parametrize(
    "more",
    [{"quiet": 100.0}, {"quiet": None}, {"verdict": "failed"}, {"since": None},
     {"progress": {"epoch": 1, "at": 1500.0}}],
)  # fmt: skip
def test_a_training_that_goes_on_or_is_over_gets_no_hint(more: dict[str, Any]) -> None:
    assert outcome.hint(quiet(**more)) == ""


def test_the_list_tells_what_runs_from_what_is_lost() -> None:
    known = {"worker": 0, "progress": {"epoch": 3}}
    runs = {**known, "job": "a", "verdict": "", "active": True}
    gone = {**known, "job": "b", "verdict": "", "active": False}
    over = {**known, "job": "c", "verdict": "complete", "active": False}
    result = outcome.of({"job": ""}, "status", {"gpu01": [runs, gone, over]})
    assert outcome.lines({"refused": "", "hosts": {}, "outcome": result})[1:] == [
        "  a: running, epoch 3 (gpu01)", "  b: lost, epoch 3 (gpu01)",
        "  c: complete, epoch 3 (gpu01)",
    ]  # fmt: skip
