"""Every run's report is kept: folders, the link to the last, the limit, projects that take none."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
from ansible_collections.provision.gpu.plugins.plugin_utils import runs
from ansible_collections.provision.gpu.plugins.plugin_utils.record import Record
from ansible_collections.provision.gpu.plugins.plugin_utils.writer import Writer
from stub_tree import LOCK, Tree, change, plan
from typer.testing import CliRunner

from provision import cli
from provision.errors import InputError, MachineError
from provision.report import runs as reader
from provision.run import find_program, run_playbook

NOON = 1_795_435_200.0  # 2026-11-23 12:00 UTC


def names(home: Path) -> list[str]:
    return [folder.name for folder in runs.runs(home)]


def a_run(home: Path, started: float = NOON, mode: str = "run", **report: Any) -> Path:
    """A run that is over, with its report."""
    folder = runs.begin(home, mode, started)
    data = {"format": 1, "mode": mode, "hosts": {}, "proven": {}, **report}
    (folder / "report.json").write_text(json.dumps(data))
    assert runs.show(home, folder) is None
    return folder


def test_a_plan_leaves_the_report_that_proved_the_hosts(tmp_path: Path) -> None:
    proof = a_run(tmp_path, NOON, mode="verify")
    a_run(tmp_path, NOON + 3600, mode="check")
    assert names(tmp_path) == ["20261123T120000Z-verify", "20261123T130000Z-check"]
    assert (proof / "report.json").is_file()
    assert os.readlink(tmp_path / "latest") == "20261123T130000Z-check"


def test_runs_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    for _ in range(11):
        a_run(tmp_path)
    assert names(tmp_path)[0] == "20261123T120000Z-run"
    assert names(tmp_path)[-2:] == ["20261123T120000Z-run-10", "20261123T120000Z-run-11"]


def test_the_former_places_lead_to_the_last_run(tmp_path: Path) -> None:
    """Scripts of before the runs were kept read report/report.json and report/events.jsonl."""
    a_run(tmp_path, NOON, mode="run")
    assert json.loads((tmp_path / "report.json").read_text())["mode"] == "run"
    a_run(tmp_path, NOON + 1, mode="check")
    assert json.loads((tmp_path / "report.json").read_text())["mode"] == "check"
    assert os.readlink(tmp_path / "events.jsonl") == "latest/events.jsonl"


def test_the_run_of_an_earlier_version_gets_a_folder(tmp_path: Path) -> None:
    for name in ("report.json", "events.jsonl", "checks.json"):
        (tmp_path / name).write_text(json.dumps({"mode": "verify", "proven": {"a": {}}}))
        os.utime(tmp_path / name, (NOON, NOON))
    runs.adopt(tmp_path)
    (former,) = runs.runs(tmp_path)
    assert former.name == "20261123T120000Z-verify"
    assert sorted(path.name for path in former.iterdir()) == sorted(runs.FORMER)
    folder = a_run(tmp_path, NOON + 60)
    assert runs.previous(tmp_path, folder)["proven"] == {"a": {}}
    runs.adopt(tmp_path)
    assert len(runs.runs(tmp_path)) == 2


def test_the_oldest_are_removed_and_nothing_that_is_not_a_report(tmp_path: Path) -> None:
    folders = [a_run(tmp_path, NOON + number) for number in range(6)]
    (folders[0] / "notes.txt").write_text("why we did this")
    (folders[1] / "more").mkdir()
    renamed = folders[2].rename(tmp_path / "the-day-it-worked")
    (tmp_path / "20200101T000000Z-run").symlink_to(tmp_path)
    (tmp_path / "20200101T000000Z-check").write_text("a file")
    (folders[3] / ".report.json.k3x9").write_text("cut off while it was written")
    runs.finish(tmp_path, folders[-1], keep=2)
    left = sorted(path.name for path in tmp_path.iterdir() if not path.is_symlink())
    assert left == sorted(
        [folders[0].name, folders[1].name, renamed.name, "20200101T000000Z-check"]
        + [folder.name for folder in folders[4:]]
    )


def test_a_run_that_cannot_be_removed_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root's in a project of somebody who once ran it with sudo."""
    folders = [a_run(tmp_path, NOON + number) for number in range(4)]
    remove = runs.shutil.rmtree

    def refuse(folder: Path) -> None:
        if folder == folders[0]:
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        remove(folder)

    monkeypatch.setattr(runs.shutil, "rmtree", refuse)
    with pytest.raises(PermissionError, match=folders[0].name):
        runs.finish(tmp_path, folders[-1], keep=1)
    assert runs.runs(tmp_path) == [folders[0], folders[3]]


def test_no_limit_and_a_limit_of_one(tmp_path: Path) -> None:
    folders = [a_run(tmp_path, NOON + number) for number in range(3)]
    runs.finish(tmp_path, folders[-1], keep=0)
    assert len(runs.runs(tmp_path)) == 3
    # The run that ends may be older than another: it is kept, for it is the one looked at.
    runs.finish(tmp_path, folders[0], keep=1)
    assert runs.runs(tmp_path) == [folders[0], folders[2]]


def test_a_run_at_work_is_not_removed(tmp_path: Path) -> None:
    long, last = a_run(tmp_path, NOON), a_run(tmp_path, NOON + 1)
    events = os.open(long / "events.jsonl", os.O_WRONLY | os.O_CREAT)
    runs.claim(events)
    runs.finish(tmp_path, last, keep=1)
    assert long.exists()
    os.close(events)
    runs.finish(tmp_path, last, keep=1)
    assert not long.exists()


def test_somebodys_latest_is_left_alone_and_said(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "mine").write_text("x")
    folder = runs.begin(tmp_path, "run", NOON)
    assert "is left alone" in str(runs.show(tmp_path, folder))
    runs.finish(tmp_path, folder, keep=1)
    assert [path.name for path in (tmp_path / "latest").iterdir()] == ["mine"]


def test_without_links_latest_is_a_folder_of_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", refuse)
        a_run(tmp_path, NOON, mode="run")
        folder = a_run(tmp_path, NOON + 1, mode="check")
        (folder / "events.jsonl").write_text("{}\n")
        runs.finish(tmp_path, folder, keep=50)
        latest = tmp_path / "latest"
        assert not latest.is_symlink()
        assert json.loads((latest / "report.json").read_text())["mode"] == "check"
        assert (latest / "events.jsonl").read_text() == "{}\n"
        assert not (tmp_path / "report.json").exists()
    # The project was copied to where there are links.
    a_run(tmp_path, NOON + 2, mode="verify")
    assert os.readlink(latest) == "20261123T120002Z-verify"


def test_a_run_that_is_killed_leaves_what_it_had(tree: Tree) -> None:
    """kill -9: no hook of the process comes to its end. Its worker ends with its task."""
    tree.hosts("gpu01", gpu_verify="never")
    tree.answers("gpu01", plan(change("cuda")))
    process = subprocess.Popen(
        [find_program(), "site.yml", "-i", "lab", "-e", "cuda_command='sleep 30'"],
        cwd=tree.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    events = tree.path / "report" / "latest" / "events.jsonl"
    deadline = time.monotonic() + 300
    while not (events.exists() and "Install the packages" in events.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    report = tree.report()
    assert report["unfinished"] is True
    assert report["interrupted"] is True
    assert tree.events()[0]["event"] == "run_start"
    (killed,) = reader.kept(tree.path)
    assert killed.state.endswith("unfinished")


def test_what_is_known_is_written_while_a_run_is_at_work(tmp_path: Path) -> None:
    record = Record("run", time.time(), LOCK["gpu_lock"], None)
    writer = Writer(tmp_path, record, lambda text: pytest.fail(text))
    writer.begin()
    record.looked("gpu01", plan(change("cuda")))
    record.host("gpu01").at = "cuda"
    writer.note()
    path = tmp_path / "report" / "latest" / "report.json"
    assert json.loads(path.read_text())["hosts"] == {}  # not yet: it was written a moment ago
    writer._noted -= 60
    writer.note()
    report = json.loads(path.read_text())
    assert report["unfinished"] is True
    assert report["hosts"]["gpu01"]["failure"]["message"].startswith("in the middle of cuda")
    report = writer.finish(failures=set(), interrupted=False, keep=50)
    assert json.loads(path.read_text()) == report
    assert "unfinished" not in report


def test_a_byte_of_a_host_that_is_no_utf_8_costs_no_report(tmp_path: Path) -> None:
    """Ansible has it as a lone surrogate, which UTF-8 has no bytes for."""
    record = Record("run", NOON, LOCK["gpu_lock"], None)
    writer = Writer(tmp_path, record, lambda text: pytest.fail(text))
    writer.begin()
    record.looked("gpu01", plan(change("cuda", "caf\udce9")))
    writer.event("task", message="caf\udce9")
    report = writer.finish(failures=set(), interrupted=False, keep=50)
    assert json.loads((writer.folder / "report.json").read_text(encoding="utf-8")) == report
    lines = (writer.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0])["message"] == "caf\udce9"


def begun(project: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Writer, list[str]]:
    """A run that begins in a project, and what is said of it."""
    messages: list[str] = []
    monkeypatch.setenv("TMPDIR", str(project.parent))
    monkeypatch.setattr(runs.tempfile, "tempdir", str(project.parent))
    writer = Writer(project, Record("run", NOON, {}, None), messages.append)
    writer.begin()
    return writer, messages


@pytest.mark.parametrize("obstacle", ["a file", "a link to nowhere", "not allowed"])
def test_a_project_that_takes_no_report_costs_no_run_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    home = project / "report"
    if obstacle == "a file":
        home.write_text("the old report")
        why = "it is no folder"
    elif obstacle == "a link to nowhere":
        home.symlink_to(tmp_path / "other-disk")
        why = f"it is a link to {tmp_path / 'other-disk'}, which is not there"
    else:
        home.mkdir()
        why = "Permission denied"
        mkdir = Path.mkdir

        def denied(path: Path, *arguments: Any, **options: Any) -> None:
            if path.parent == home:
                raise PermissionError(errno.EACCES, why)
            mkdir(path, *arguments, **options)

        monkeypatch.setattr(Path, "mkdir", denied)
    writer, messages = begun(project, monkeypatch)
    assert messages == [f"{home} takes no report: {why}. This run's is in {writer.folder}."]
    report = writer.finish(failures=set(), interrupted=False, keep=50)
    assert json.loads((writer.folder / "report.json").read_text()) == report
    assert project not in writer.folder.parents
    assert os.environ["PROVISION_REPORT_RUN"] == str(writer.folder)


def test_a_link_to_another_disk_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, disk = tmp_path / "project", tmp_path / "disk"
    project.mkdir()
    disk.mkdir()
    (project / "report").symlink_to(disk)
    writer, messages = begun(project, monkeypatch)
    assert messages == []
    assert (disk / "latest").resolve() == writer.folder.resolve()


def test_who_says_where_the_report_goes_gets_it_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As benchmarks do. What an earlier run checked there proves nothing now."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "checks.json").write_text(json.dumps({"finished": "x", "hosts": {"gpu01": {}}}))
    os.utime(target / "checks.json", (NOON - 60, NOON - 60))
    monkeypatch.setenv("PROVISION_REPORT_DIR", str(target))
    writer, messages = begun(tmp_path / "project", monkeypatch)
    assert messages == []
    assert "PROVISION_REPORT_DIR" not in os.environ
    writer.finish(failures=set(), interrupted=False, keep=1)
    assert sorted(path.name for path in target.iterdir()) == [
        *("checks.json", "events.jsonl", "report.json")
    ]
    assert writer._checks() == {}
    assert not (tmp_path / "project").exists()


def test_a_run_by_provision_is_one_of_the_kept(tree: Tree) -> None:
    tree.answers("gpu01", plan())
    for mode in ("plan", "apply"):
        outcome = run_playbook(tree.path, mode=mode)  # type: ignore[arg-type]
        assert outcome.exit_code == 0
        assert outcome.log.parent.resolve() == (tree.path / "report" / "latest").resolve()
    first, second = runs.runs(tree.path / "report")
    assert first.name.endswith("Z-check")
    assert second.name.endswith("Z-run")
    assert reader.last(tree.path).resolve() == second / "report.json"
    assert [run.state for run in reader.kept(tree.path)] == ["1 converged", "1 converged"]


@pytest.mark.parametrize(
    ("kind", "why"), [("file", "it is a file"), ("link", "it is a link to gone, which is not")]
)
def test_provision_begins_no_run_whose_report_would_be_lost(
    tree: Tree, kind: str, why: str
) -> None:
    home = tree.path / "report"
    if kind == "file":
        home.write_text("x")
    else:
        home.symlink_to("gone")
    with pytest.raises(MachineError, match=why) as refused:
        run_playbook(tree.path)
    assert refused.value.hint


def ask(project: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, ["report", "--project", str(project), *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


HOST = {"status": "proven"}


def test_earlier_runs_are_listed_and_shown(tmp_path: Path) -> None:
    home = tmp_path / "report"
    a_run(home, NOON, mode="verify", hosts={"a": HOST, "b": HOST})
    a_run(home, NOON + 60, mode="check", hosts={"a": {"status": "drift"}}, unfinished=True)
    (home / "20261123T130000Z-run").mkdir()
    (home / "20261123T130000Z-run" / "ansible.log").write_text("ERROR! no such file")
    assert ask(tmp_path, "--list") == (
        0,
        "20261123T130000Z-run     Ansible ended before it saw a host\n"
        "20261123T120100Z-check   1 drift, unfinished\n"
        "20261123T120000Z-verify  2 proven\n",
    )
    _, output = ask(tmp_path, "--list", "--json")
    listed = json.loads(output)["runs"]
    assert [entry["name"] for entry in listed][-1] == "20261123T120000Z-verify"
    assert listed[-1]["mode"] == "verify"
    ask(tmp_path, "--run", "20261123T120000Z")
    page = home / "20261123T120000Z-verify" / "report.html"
    assert "Both hosts proven" in page.read_text()
    # The last one's is where web servers and CI look for it.
    ask(tmp_path)
    assert "1 host differs" in (home / "report.html").read_text()
    assert (home / "junit.xml").is_file()


@pytest.mark.parametrize(
    ("name", "why"), [("2026", "2 runs have such a name"), ("2025", "no such run is kept")]
)
def test_a_run_that_is_none_is_refused(tmp_path: Path, name: str, why: str) -> None:
    for number in range(2):
        a_run(tmp_path / "report", NOON + number)
    with pytest.raises(InputError, match=why):
        reader.named(tmp_path, name)
    with pytest.raises(InputError, match="exclude each other"):
        ask(tmp_path, "--run", name, "--list")


def test_the_last_report_is_found_without_the_link(tmp_path: Path) -> None:
    """A project whose copy has no links, or was last run by an earlier version."""
    home = tmp_path / "report"
    assert reader.last(tmp_path) == home / "latest" / "report.json"
    a_run(home, NOON)
    newest = a_run(home, NOON + 1)
    for name in ("latest", "report.json", "events.jsonl"):
        (home / name).unlink()
    assert reader.last(tmp_path) == newest / "report.json"
    for folder in runs.runs(home):
        (folder / "report.json").unlink()
    (home / "report.json").write_text("{}")
    assert reader.last(tmp_path) == home / "report.json"
