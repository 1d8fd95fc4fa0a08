"""Who is logged in on this host, and whether its maintenance window is open.

A driver that is changed under a loaded module makes every new GPU program fail until the reboot,
and a reboot ends everybody's work. So both are checked before either. Nobody's session is ever
ended.

The generator also loads this file, alone, to parse windows: it imports nothing of ours.
"""

from __future__ import annotations

import os
import re
import struct
import time

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Sequence

    from .context import Context

# utmp(5) as glibc has it on every 64-bit machine: type, pid, line, id, user, host, ...
RECORD = struct.Struct("<hxxi32s4s32s256shhiii16s20x")
USER_PROCESS = 7
UTMP = "/run/utmp"

PROPERTIES = ("Id", "Name", "TTY", "Display", "RemoteHost", "Leader", "Class", "State", "Type")

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
FORM = (
    '"HH:MM-HH:MM", with days before it where not every day is meant, as in "Sat 22:00-04:00", '
    '"Mon-Fri 22:00-06:00" or "Sat,Sun 00:00-24:00"'
)
_WINDOW = re.compile(r"(?:(\S+)\s+)?(\d\d):(\d\d)-(\d\d):(\d\d)")


# who is logged in


def ancestors(context: Context, pid: int) -> list[int]:
    """Ids of the process and of its parents up to init, which are not the work of users."""
    pids: list[int] = []
    while pid and pid not in pids:
        pids.append(pid)
        text = (context.read_bytes("/proc/{0}/status".format(pid)) or b"").decode(
            "utf-8", "replace"
        )
        parent = re.search(r"^PPid:\s*(\d+)", text, re.M)
        pid = int(parent.group(1)) if parent else 0
    return pids


def users(
    context: Context, pid: int | None = None, now: float | None = None
) -> list[dict[str, Any]]:
    """People at a terminal or a screen: [{user, at, from, idle}], without this process's own.

    From logind, and from utmp for what it does not know (tmux, an older system). A session without
    a terminal is a command over ssh, a copy of files or a run of Ansible, and does not count.
    `idle`: seconds since the terminal was used; None where unknown.
    """
    own = ancestors(context, os.getpid() if pid is None else pid)
    moment = time.time() if now is None else now
    people = {}
    for session in _sessions(context) + _utmp(context):
        if session["leader"] in own or session["at"] in people:
            continue
        info = context.stat("/dev/" + session["at"])
        idle = None if info is None else max(0, int(moment - info.st_atime))
        people[session["at"]] = {
            "user": session["user"], "at": session["at"], "from": session["from"], "idle": idle,
        }  # fmt: skip
    return [people[at] for at in sorted(people)]


def _sessions(context: Context) -> list[dict[str, Any]]:
    """logind's sessions of people, without those that are closing."""
    listed = context.run(["loginctl", "list-sessions", "--no-legend", "--no-pager"])
    names = [line.split()[0] for line in listed.out.splitlines() if line.split()]
    if listed.rc != 0 or not names:
        return []
    asked = [part for name in PROPERTIES for part in ("--property", name)]
    shown = context.run(["loginctl", "show-session", "--no-pager", *asked, *names])
    return [session for session in map(_session, shown.out.split("\n\n")) if session is not None]


def _session(text: str) -> dict[str, Any] | None:
    """One session of `loginctl show-session`; None without a terminal or a screen."""
    properties = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    at = properties.get("TTY") or properties.get("Display")
    if not at or properties.get("Class") != "user" or properties.get("State") == "closing":
        return None
    return {
        "user": properties.get("Name") or "somebody",
        "at": at,
        "from": properties.get("RemoteHost") or None,
        "leader": int(properties["Leader"]) if properties.get("Leader", "").isdigit() else 0,
    }


def _utmp(context: Context) -> list[dict[str, Any]]:
    """The living logins of utmp."""
    data = context.read_bytes(UTMP) or b""
    logins = []
    for start in range(0, len(data) - RECORD.size + 1, RECORD.size):
        kind, pid, line, _id, user, host = RECORD.unpack_from(data, start)[:6]
        if kind != USER_PROCESS or context.stat("/proc/{0}".format(pid)) is None:
            continue
        user, line, host = (_text(part) for part in (user, line, host))
        logins.append({"user": user, "at": line, "from": host or None, "leader": pid})
    return logins


def _text(field: bytes) -> str:
    return field.split(b"\0")[0].decode("utf-8", "replace")


def words(person: dict[str, Any]) -> str:
    """ "ada on pts/3 from 192.0.2.7, idle for 2 h"."""
    text = "{0} on {1}".format(person["user"], person["at"])
    if person["from"]:
        text += " from " + person["from"]
    idle = person["idle"]
    if idle is not None and idle >= 600:
        text += ", idle for " + (
            "{0} min".format(idle // 60) if idle < 7200 else "{0} h".format(idle // 3600)
        )
    return text


# the maintenance window: local times of a week, so that daylight saving does not move it


def windows(value: Any) -> list[tuple[list[int], int, int]]:
    """[(days, first minute, last minute + 1)] of an option's value. ValueError says what is wrong.

    A window whose end is not after its start lasts into the next day; its day is that of the start.
    """
    if value is None or value == "" or value == []:
        return []
    parsed = []
    for text in value if isinstance(value, (list, tuple)) else [value]:
        parsed.append(_window(text))
    return parsed


def _window(text: Any) -> tuple[list[int], int, int]:
    match = _WINDOW.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError("{0!r} is no maintenance window: expected {1}".format(text, FORM))
    days = _days(match.group(1), text)
    hours = [int(part) for part in match.groups()[1:]]
    begin, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
    if begin >= 24 * 60 or end > 24 * 60 or hours[1] > 59 or hours[3] > 59:
        raise ValueError("{0!r} has a time that no clock shows (00:00 to 24:00)".format(text))
    if begin == end:
        raise ValueError(
            "{0!r} begins and ends at the same time; a whole day is 00:00-24:00".format(text)
        )
    return days, begin, end


def _days(text: str | None, whole: str) -> list[int]:
    """Day numbers, Monday 0, of "Sat", "Mon-Fri" or "Sat,Sun"; all days without a text."""
    if text is None:
        return list(range(7))
    days: set[int] = set()
    for part in text.split(","):
        names = [name.lower() for name in part.split("-")]
        if len(names) > 2 or not all(name in DAYS for name in names):
            raise ValueError(
                "{0!r} names no day of the week: {1} (Mon, Tue, Wed, Thu, Fri, Sat, Sun)".format(
                    whole, part
                )
            )
        first, last = DAYS.index(names[0]), DAYS.index(names[-1])
        days.update((first + step) % 7 for step in range((last - first) % 7 + 1))
    return sorted(days)


def is_open(value: Any, clock: Sequence[int]) -> bool:
    """True where no window is given, or the clock is in one. `clock`: [day, minute of the day]."""
    day, minute = clock
    parsed = windows(value)
    for days, begin, end in parsed:
        if end > begin:
            if day in days and begin <= minute < end:
                return True
        elif (day in days and minute >= begin) or ((day - 1) % 7 in days and minute < end):
            return True
    return not parsed


def clock(now: float | None = None) -> list[int]:
    """[day of the week, minute of the day] by this host's own local time."""
    local = time.localtime(now)
    return [local.tm_wday, local.tm_hour * 60 + local.tm_min]


def clock_words(clock: Sequence[int]) -> str:
    """ "Sat 22:05"."""
    return "{0} {1:02}:{2:02}".format(DAYS[clock[0]].capitalize(), clock[1] // 60, clock[1] % 60)


def window_words(value: Any) -> str:
    """ "Sat 22:00-04:00; Sun 00:00-24:00"."""
    return "; ".join(value) if isinstance(value, (list, tuple)) else value
