"""Whether people may be interrupted now: what is said right before a driver changes or a reboot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host import interruption, people
from gpu_stack.host.context import Context

from tests.host_tree import put

ADA = {"user": "ada", "at": "pts/0", "from": "192.0.2.7", "idle": 7200}
BOB = {"user": "bob", "at": ":0", "from": None, "idle": None}
# A Saturday, 06:00 on a clock of UTC.
SATURDAY = 1795240800.0
OPEN, CLOSED = "Sat 06:00-07:00", ["Sat 05:00-06:00", "Sun 00:00-24:00"]
REBOOT, CHANGE = "reboot", "change the driver"
OCCUPIED = (
    "Not going to reboot while people are logged in{0}: ada on pts/0 from 192.0.2.7, idle for 2 h; "
    "bob on :0. Run again when they have left, or set nvidia_driver_logged_in_users to wait or "
    "ignore."
)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A host without a driver, where ada and bob are logged in at six on a Saturday."""
    monkeypatch.setattr(people, "users", lambda _context: [ADA, BOB])
    monkeypatch.setattr(interruption.time, "time", lambda: SATURDAY)
    monkeypatch.setattr(people.time, "localtime", people.time.gmtime)
    return Context(root=str(tmp_path))


def load_driver(tmp_path: Path) -> None:
    put(tmp_path, "/sys/module/nvidia/version", "570.86.15\n")


def ask(host: Context, before: str = REBOOT, **more: Any) -> tuple[dict[str, Any], str | None]:
    given = {"window": "", "logged_in_users": "refuse", "wait": 1800, "waited": False} | more
    answer: tuple[dict[str, Any], str | None] = interruption.ask(host, before, **given)
    return answer


@pytest.fixture
def nobody(host: Context, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setattr(people, "users", lambda _context: [])
    return host


@pytest.mark.parametrize("window", [None, "", [], OPEN, ["Sun 01:00-02:00", OPEN]])
def test_nobody_is_there(nobody: Context, window: Any) -> None:
    seen, reason = ask(nobody, window=window)
    assert reason is None
    assert seen == {
        "users": [], "disturbed": False, "open": True, "clock": "Sat 06:00", "until": "Sat 06:30",
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["refuse", "wait", "ignore"])
def test_outside_the_window_nothing_is_done(host: Context, mode: str) -> None:
    seen, reason = ask(host, CHANGE, window=CLOSED, logged_in_users=mode)
    assert seen["open"] is False
    assert reason == (
        "Not going to change the driver outside the maintenance window (Sat 05:00-06:00; "
        "Sun 00:00-24:00); it is Sat 06:00 on this host. Run again in the window."
    )


def test_a_window_that_cannot_be_read_is_reported_before_anybody_is_looked_for(
    host: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "users", None)
    seen, reason = ask(host, window="Sat")
    assert seen == {}
    assert str(reason).startswith(
        "gpu_maintenance_window: 'Sat' is no maintenance window: expected"
    )


def test_people_are_in_the_way_of_a_reboot(host: Context) -> None:
    seen, reason = ask(host, window=OPEN)
    assert seen["disturbed"] is True
    assert reason == OCCUPIED.format("")


@pytest.mark.parametrize("before", [CHANGE, "remove the driver"])
def test_people_are_in_the_way_of_a_change_where_the_driver_is_loaded(
    host: Context, tmp_path: Path, before: str
) -> None:
    seen, reason = ask(host, before)
    assert (seen["disturbed"], reason) == (False, None)
    load_driver(tmp_path)
    seen, reason = ask(host, before)
    assert seen["disturbed"] is True
    assert reason == OCCUPIED.format("").replace("reboot", before)


def test_people_may_be_ignored(host: Context) -> None:
    seen, reason = ask(host, logged_in_users="ignore")
    assert (seen["disturbed"], reason) == (False, None)
    assert len(seen["users"]) == 2


def test_people_who_are_waited_for_are_no_reason_to_refuse_at_first(host: Context) -> None:
    seen, reason = ask(host, logged_in_users="wait")
    assert (seen["disturbed"], reason) == (True, None)
    assert seen["until"] == "Sat 06:30"


def test_who_left_during_the_wait_is_in_nobodys_way(nobody: Context) -> None:
    assert ask(nobody, waited=True)[1] is None


@pytest.mark.parametrize("before", [REBOOT, CHANGE])
def test_the_wait_has_an_end(host: Context, before: str) -> None:
    """Also for a driver that was unloaded meanwhile: it was said that nobody will be disturbed."""
    _seen, reason = ask(host, before, waited=True, window=CLOSED)
    assert reason == OCCUPIED.format(" (waited 1800 s)").replace("reboot", before)


def test_a_window_that_closes_during_the_wait_is_seen(nobody: Context) -> None:
    _seen, reason = ask(nobody, waited=True, window=CLOSED)
    assert reason == (
        "Not going to reboot: the maintenance window (Sat 05:00-06:00; Sun 00:00-24:00) has closed "
        "while people were waited for. Run again in the window."
    )


def test_the_running_system_is_asked_within_half_a_minute() -> None:
    here = interruption.host()
    assert here.root == "/"
    assert here.run.keywords == {"patience": 30.0}
