"""The look at the lock of a run, and what the plan makes of it."""

from __future__ import annotations

import fcntl
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
from gpu_stack.host import running
from gpu_stack.host.context import Context
from gpu_stack.plan import finish

from tests.host_tree import put

ADA = {"who": "ada", "host": "ctrl1", "pid": 4711, "started": "2026-11-21 14:03 UTC", "run": "a1"}


@contextmanager
def held(root: Path, content: str, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    path = put(root, running.PATH, content, 0o600)
    with path.open() as stream:
        fcntl.flock(stream, kind)
        yield


def says(root: Path, answer: dict[str, Any], later: float) -> threading.Timer:
    """The lock's holder says this after so many seconds, all of it at once."""
    path = root / running.PATH.lstrip("/")
    new = path.with_suffix(".new")
    new.write_text(json.dumps(answer))
    new.chmod(0o600)
    timer = threading.Timer(later, new.replace, [path])
    timer.start()
    return timer


def look(root: Path, run: str | None = None) -> Any:
    return running.look(Context(root=str(root)), run, patience=0.1)


def test_a_host_without_a_lock_is_free(tmp_path: Path) -> None:
    assert look(tmp_path) is None


def test_a_name_in_the_file_without_the_lock_means_nothing(tmp_path: Path) -> None:
    with held(tmp_path, json.dumps(ADA)):
        pass
    assert look(tmp_path) is None


@pytest.mark.parametrize("content", ["", json.dumps({**ADA, "holder": 4711})])
def test_a_users_lock_on_a_file_that_all_can_open_stops_no_run(
    tmp_path: Path, content: str
) -> None:
    """Any user could hold up every run with `flock /var/lib/provision/run.lock`."""
    path = tmp_path / running.PATH.lstrip("/")
    with held(tmp_path, content):
        assert look(tmp_path) is not None
        path.chmod(0o644)
        assert look(tmp_path) is None
        process = tmp_path / "proc/4711"
        process.mkdir(parents=True)
        (process / "cmdline").write_text("python3\0-c\0\0provision: holds this host\0")
        (process / "status").write_text("Name:\tpython3\nUid:\t1000\t0\t0\t0\n")
        assert look(tmp_path) is None
        (process / "status").write_text("Name:\tpython3\nUid:\t0\t0\t0\t0\n")
        assert (look(tmp_path) is None) is (content == "")


def test_another_look_is_no_run(tmp_path: Path) -> None:
    with held(tmp_path, json.dumps(ADA), fcntl.LOCK_SH):
        assert look(tmp_path) is None


def test_the_holder_of_the_lock_is_reported(tmp_path: Path) -> None:
    with held(tmp_path, json.dumps(ADA)):
        assert look(tmp_path) == ADA
        assert look(tmp_path, "another") == ADA


def test_a_run_is_not_in_its_own_way(tmp_path: Path) -> None:
    with held(tmp_path, json.dumps(ADA)):
        assert look(tmp_path, "a1") is None


@pytest.mark.parametrize("word", ["ended", "silent"])
def test_a_run_that_says_it_was_cut_off_is_not_waited_for(tmp_path: Path, word: str) -> None:
    with held(tmp_path, json.dumps({**ADA, word: True})):
        begun = time.monotonic()
        assert running.look(Context(root=str(tmp_path)), None, patience=60.0) == {**ADA, word: True}
        # A bound against waiting for it at all, not a measure of speed.
        assert time.monotonic() - begun < 30


def test_a_run_that_is_cut_off_while_one_looks_is_seen(tmp_path: Path) -> None:
    """Its holder needs a moment to say so."""
    with held(tmp_path, json.dumps(ADA)):
        later = says(tmp_path, {**ADA, "ended": True}, 0.3)
        seen = running.look(Context(root=str(tmp_path)), None, patience=60.0)
        later.join()
    assert seen == {**ADA, "ended": True}


@pytest.mark.parametrize("later", [{"silent": True}, {"ended": True}, {}])
def test_a_run_that_is_quiet_is_waited_for_until_it_is_sure(
    tmp_path: Path, later: dict[str, bool]
) -> None:
    """The network was cut and is back, and somebody runs again: the holder is still in doubt."""
    with held(tmp_path, json.dumps({**ADA, "quiet": True})):
        change = says(tmp_path, {**ADA, **later}, 0.6)
        seen = running.look(Context(root=str(tmp_path)), None, patience=0.1, doubt=60.0)
        change.join()
    assert seen == {**ADA, **later}


def test_doubt_has_an_end(tmp_path: Path) -> None:
    quiet = {**ADA, "quiet": True}
    with held(tmp_path, json.dumps(quiet)):
        assert running.look(Context(root=str(tmp_path)), None, patience=0.1, doubt=0.1) == quiet


@pytest.mark.parametrize("content", ["", "{", "[1]"])
def test_a_lock_without_words_is_still_a_lock(tmp_path: Path, content: str) -> None:
    with held(tmp_path, content):
        assert look(tmp_path) == {}


def test_a_look_leaves_the_lock_free(tmp_path: Path) -> None:
    with held(tmp_path, "", fcntl.LOCK_SH):
        look(tmp_path)
    with (tmp_path / running.PATH.lstrip("/")).open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_run_is_blocked_and_a_check_only_notes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.1)
    host = made.make(tmp_path)
    (tmp_path / "var/lib/provision/receipt.json").unlink()
    with held(tmp_path, json.dumps(ADA)):
        result = host.plan()
    assert [blocker["id"] for blocker in result["blockers"]] == ["run-in-progress"]
    assert result["notices"] == []
    assert finish(result, False)["blockers"] == result["blockers"]
    checked = finish(result, True)
    assert checked["blockers"] == []
    assert [notice["id"] for notice in checked["notices"]] == ["run-in-progress"]


def test_a_host_with_nothing_to_do_does_not_ask(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    with held(tmp_path, json.dumps(ADA)):
        result = host.plan()
    assert result["blockers"] == []
    assert result["notices"] == []
