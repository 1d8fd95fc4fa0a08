"""How the controller follows a host's worker: what it shows, keeps, and takes for an end."""

from __future__ import annotations

import errno
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.provision.gpu.plugins.action import gpu_training as action
from ansible_collections.provision.gpu.plugins.plugin_utils import training

COMMON = {"job": "j", "host": "gpu01", "user": "", "folder": ""}


def news(log: str = "", *, active: bool = True, **more: Any) -> dict[str, Any]:
    status = {
        "worker": 0, "verdict": "", "reason": "", "generation": 0, "progress": None,
        "board": None, "written": 1.0, "since": 1.0, "quiet": 0.0, **more,
    }  # fmt: skip
    return {
        "training": {
            "found": True,
            "active": active,
            "log": log,
            "offset": len(log),
            "status": status,
        }
    }


class Display:
    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, text: str) -> None:
        self.shown.append(text)


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is shown of a host that answers this, one after the other."""
    monkeypatch.setattr(action, "AGAIN", 0)
    monkeypatch.setattr(training, "home", lambda _known: tmp_path)

    def follow(answers: list[Any]) -> tuple[list[str], Any]:
        made = action.ActionModule.__new__(action.ActionModule)
        made._display = Display()

        def ask(_arguments: dict[str, Any], _known: dict[str, Any]) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        made._module = ask
        ended = made._follow({}, {"job": "j", "action": "start"}, COMMON)
        return made._display.shown, ended

    return follow


def test_a_network_that_fails_for_a_while_ends_no_watching(followed: Any) -> None:
    lost = AnsibleConnectionFailure("ssh: timed out")
    last = [news("two\n", active=False), news(active=False)]
    shown, ended = followed([news("one\n"), lost, lost, *last])
    assert shown == ["0 gpu01: one", "0 gpu01: two"]
    assert ended["active"] is False


def test_a_host_that_stays_away_is_named_after_a_while(followed: Any) -> None:
    with pytest.raises(AnsibleActionFail, match="the job goes on there: ssh: timed out"):
        followed([AnsibleConnectionFailure("ssh: timed out")] * 100)


def test_a_worker_that_may_hang_is_reported_once_a_try(followed: Any) -> None:
    hangs = {"quiet": 900.0}
    answers = [news(**hangs), news(**hangs), news(**hangs, generation=1), news(active=False)]
    shown, _ended = followed(answers)
    assert [line.partition(": ")[2][:19] for line in shown] == ["nothing was printed"] * 2


def test_what_is_kept_of_a_workers_output_has_an_end(
    followed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(action, "LARGEST", 8)
    followed([news("0123456789\n"), news("new\n"), news(active=False)])
    folder = tmp_path / "training" / "j"
    assert (folder / "gpu01.log.1").read_text() == "0123456789\n"
    assert (folder / "gpu01.log").read_text() == "new\n"


def test_what_a_script_prints_can_not_drive_a_terminal(followed: Any) -> None:
    shown, _ended = followed([news("\x1b[2Ja\x07\n"), news(active=False)])
    assert shown == ["0 gpu01: ?[2Ja?"]


class Templar:
    """Variables without a template in them."""

    def template(self, value: Any) -> Any:
        return value


def test_a_worker_gets_the_environment_of_which_the_plan_has_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "home", lambda _known: tmp_path)
    (tmp_path / "train.py").write_text("")
    known: dict[str, Any] = {
        "gpu_train_hosts": "gpu", "gpu_train_script": str(tmp_path / "train.py"),
        "gpu_train_environment": {"TOKEN": "hush"},
        "gpu_training_look": {"training": {"python": "/python"}},
    }  # fmt: skip
    plan = training.asked(known, [{"gpu_stack": {"tensorflow": "2.9"}}], ["gpu01"], 0.0)
    made = action.ActionModule.__new__(action.ActionModule)
    made._templar = Templar()
    more = made._of_start(known, {**plan, "token": "t"}, "start", 0)
    assert json.loads(more.pop("given"))["environment"] == {"TOKEN": "hush"}
    assert "hush" not in json.dumps([plan, more])
    # One that is wrong on this host alone is known before a worker starts anywhere.
    known["gpu_train_environment"] = ["TOKEN=hush"]
    with pytest.raises(AnsibleActionFail, match="is a list; expected variables by their names"):
        made._of_start(known, {**plan, "token": "t"}, "look", 0)


def test_a_jobs_secret_is_made_once_and_never_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = action._secret(tmp_path)
    assert (len(secret), action._secret(tmp_path)) == (64, secret)
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    # A power cut may keep a file's name and lose what was in it.
    (tmp_path / "secret").write_text("")
    monkeypatch.setattr(action, "WRITTEN", 0.0)
    with pytest.raises(AnsibleActionFail, match=r"is no secret .* remove it, and start"):
        action._secret(tmp_path)


def test_a_file_system_without_hard_links_keeps_a_jobs_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    secret = action._secret(tmp_path)
    assert action._secret(tmp_path) == secret
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_workers_who_ask_at_once_have_one_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(action._secret, [tmp_path] * 64))) == 1


def test_a_secret_that_another_task_is_writing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret"
    path.touch()
    monkeypatch.setattr(action.time, "sleep", lambda _: path.write_text("ab" * 32))
    assert action._secret(tmp_path) == "ab" * 32


def test_a_secret_that_cannot_be_written_whole_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        action._secret(tmp_path)
    assert not list(tmp_path.iterdir())
