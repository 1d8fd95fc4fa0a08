"""Who is logged in, and when a host may be disturbed: recorded answers, and the clock's edges."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host import people
from gpu_stack.host.context import Context, Result
from hypothesis import given
from hypothesis import strategies as st

from tests.host_tree import put

# loginctl of systemd 247 (Debian 11), shortened to one session of each kind; a session of Ansible's
# own (c9), one without a terminal (c4), and one that is being closed.
LISTED = """\
c1 1000 ada       pts/0
c2 1001 bob  seat0 tty7
c3  114 gdm  seat0 tty1
c4 1002 eve
c5 1003 old       pts/4
c9 1000 ada       pts/1
"""
SHOWN = """\
Id=c1
Name=ada
TTY=pts/0
Display=
RemoteHost=192.0.2.7
Leader=100
Class=user
State=active
Type=tty

Id=c2
Name=bob
TTY=
Display=:0
RemoteHost=
Leader=200
Class=user
State=online
Type=x11

Id=c3
Name=gdm
TTY=tty1
Leader=300
Class=greeter
State=active
Type=wayland

Id=c4
Name=eve
TTY=
Display=
RemoteHost=192.0.2.8
Leader=400
Class=user
State=active
Type=tty

Id=c5
Name=old
TTY=pts/4
Leader=500
Class=user
State=closing
Type=tty

Id=c9
Name=ada
TTY=pts/1
RemoteHost=192.0.2.7
Leader=900
Class=user
State=active
Type=tty
"""


def record(kind: int, pid: int, line: str, user: str, host: str = "") -> bytes:
    """One entry of utmp as glibc writes it, 384 bytes."""
    head = struct.pack("<hxxi32s4s32s256s", kind, pid, line.encode(), b"", user.encode(),
                       host.encode())  # fmt: skip
    return head + bytes(384 - len(head))


def host(root: Path, *, utmp: bytes = b"", loginctl: bool = True) -> Context:
    """A host with these logins; process 950 is the look, below the session 900."""
    for pid, parent in ((950, 940), (940, 900), (900, 1), (1, 0), (700, 1)):
        put(root, f"/proc/{pid}/status", f"Name:\tx\nPPid:\t{parent}\n")
    put(root, "/run/utmp", utmp)
    os.utime(put(root, "/dev/pts/0"), (1000.0, 1000.0))

    def answer(argv: list[str]) -> Result:
        if not loginctl:
            return Result(1, "", "System has not been booted with systemd")
        return Result(0, LISTED if argv[1] == "list-sessions" else SHOWN, "")

    return Context(root=str(root), runner=answer)


def test_those_who_sit_there_are_seen_and_who_asks_is_not(tmp_path: Path) -> None:
    logins = people.users(host(tmp_path), pid=950, now=1000.0 + 7200)
    assert logins == [
        {"user": "bob", "at": ":0", "from": None, "idle": None},
        {"user": "ada", "at": "pts/0", "from": "192.0.2.7", "idle": 7200},
    ]
    assert [people.words(login) for login in logins] == [
        "bob on :0",
        "ada on pts/0 from 192.0.2.7, idle for 2 h",
    ]


def test_utmp_tells_of_what_logind_does_not_know(tmp_path: Path) -> None:
    """tmux's own entry counts; a dead process's, a second one of a session and ours do not."""
    utmp = (
        record(7, 700, "pts/9", "ada", "tmux(700).%0")
        + record(7, 701, "pts/8", "gone")
        + record(8, 700, "pts/7", "dead")
        + record(7, 700, "pts/0", "ada")
        + record(7, 900, "pts/1", "ada")
        + b"cut"
    )
    logins = people.users(host(tmp_path, utmp=utmp), pid=950)
    assert [login["at"] for login in logins] == [":0", "pts/0", "pts/9"]
    assert logins[2]["from"] == "tmux(700).%0"


def test_without_logind_there_is_utmp(tmp_path: Path) -> None:
    here = host(tmp_path, utmp=record(7, 700, "pts/0", "ada"), loginctl=False)
    assert [user["user"] for user in people.users(here, pid=950)] == ["ada"]


@pytest.mark.parametrize(
    ("idle", "expected"),
    [(None, ""), (599, ""), (600, ", idle for 10 min"), (7199, ", idle for 119 min")],
)
def test_idle_is_told_from_ten_minutes_on(idle: int | None, expected: str) -> None:
    person = {"user": "a", "at": "tty1", "from": None, "idle": idle}
    assert people.words(person) == "a on tty1" + expected


SAT, SUN, MON = 5, 6, 0


@pytest.mark.parametrize(
    ("window", "day", "at", "is_open"),
    [
        ("Sat 22:00-04:00", SAT, "21:59", False),
        ("Sat 22:00-04:00", SAT, "22:00", True),
        ("Sat 22:00-04:00", SUN, "03:59", True),
        ("Sat 22:00-04:00", SUN, "04:00", False),
        ("Sat 22:00-04:00", SAT, "03:00", False),
        ("Sun 22:00-04:00", MON, "03:59", True),
        ("22:00-04:00", 2, "03:59", True),
        ("22:00-04:00", 2, "12:00", False),
        ("Mon-Fri 08:00-09:00", SAT, "08:30", False),
        ("Mon-Fri 08:00-09:00", 4, "08:30", True),
        ("Fri-Mon 08:00-09:00", SUN, "08:30", True),
        ("Fri-Mon 08:00-09:00", 1, "08:30", False),
        ("sat,SUN 00:00-24:00", SUN, "23:59", True),
        ("Sat,Sun 00:00-24:00", MON, "00:00", False),
        (["Sat 22:00-23:00", "Sun 01:00-02:00"], SUN, "01:30", True),
        (["Sat 22:00-23:00", "Sun 01:00-02:00"], SUN, "02:00", False),
        ("", SAT, "12:00", True),
        ([], SAT, "12:00", True),
        (None, SAT, "12:00", True),
    ],
)
def test_when_a_window_is_open(window: Any, day: int, at: str, is_open: bool) -> None:
    hour, minute = at.split(":")
    assert people.is_open(window, [day, int(hour) * 60 + int(minute)]) is is_open


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ("Sat 22-04", "is no maintenance window: expected"),
        ("Sat22:00-04:00", "is no maintenance window"),
        ("Sat 22:00", "is no maintenance window"),
        ("Sat 22:00-04:00 UTC", "is no maintenance window"),
        ("9:00-10:00", "is no maintenance window"),
        ("Sat 25:00-04:00", "no clock shows"),
        ("Sat 22:60-04:00", "no clock shows"),
        ("Sat 24:00-04:00", "no clock shows"),
        ("Sat 22:00-24:01", "no clock shows"),
        ("Sa 22:00-04:00", "names no day of the week: Sa "),
        ("Mon-Wed-Fri 22:00-04:00", "names no day"),
        ("Sat, 22:00-04:00", "names no day"),
        ("Sat 22:00-22:00", "begins and ends at the same time"),
        (2200, "is no maintenance window"),
        ({"Sat": "22:00"}, "is no maintenance window"),
        (["22:00-23:00", ""], "'' is no maintenance window"),
    ],
)
def test_a_window_that_says_nothing_is_refused(window: Any, words: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as error:
        people.windows(window)
    assert words in str(error.value)


@given(
    begin=st.integers(0, 1439), end=st.integers(0, 1439), day=st.integers(0, 6),
    minute=st.integers(0, 1439),
)  # fmt: skip
def test_a_window_is_as_long_as_its_hands_say(begin: int, end: int, day: int, minute: int) -> None:
    """Of the minutes of a week as many are open as lie between the two times, and each of them."""
    if begin == end:
        return
    text = f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"
    since = (day * 1440 + minute - (2 * 1440 + begin)) % (7 * 1440)
    expected = since < (end - begin) % 1440
    assert people.is_open("Wed " + text, [day, minute]) is expected


def test_the_clock_is_the_hosts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert people.clock_words(people.clock(1795280580)) == "Sun 02:03"
    finally:
        monkeypatch.undo()
        time.tzset()
