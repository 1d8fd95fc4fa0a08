"""The figures of former acceptances, kept on the controller in the project beside its report.

One file a host and level, so that a run over some hosts touches no other's and a quick one reads
little: report/acceptance-history/gpu01@quick.jsonl, a line for each acceptance that had figures.
Lines are added and never changed, and the last ones stay. What can't be read is kept aside, and the
acceptance goes on without it.
"""

from __future__ import annotations

import calendar
import collections
import contextlib
import fcntl
import functools
import json
import os
import tempfile
import time
import urllib.parse

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, MEASURED, OK
from .subjects import figures_of, is_number, subjects

if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Sequence

# In the project's report/.
FOLDER = "acceptance-history"
FORMAT = 1
ENDING = ".jsonl"
# Of an acceptance that does not say its own.
LEVEL = "quick"
# Lines that a file keeps, and the size from which on a file is not ours.
KEPT = 20
LARGEST = 4 * 2**20
# The keys of a line.
WRITTEN = ("format", "time", "subjects")
MOMENT = "%Y-%m-%dT%H:%M:%SZ"
# One figure of a former acceptance. time: seconds since the epoch; day: its date; id, like: of
# its Subject; good: whether it may teach.
Earlier = collections.namedtuple("Earlier", "time day id like figure value good")


def read(
    folder: str, warn: Callable[[str], None], verdicts: dict[str, dict[str, Any]] | None = None
) -> list[Any]:
    """All figures of the history, the oldest first; `warn` hears of files that are spoiled.

    Of all levels, or of those that these verdicts are of.
    """
    levels = None if verdicts is None else {_level(verdict) for verdict in verdicts.values()}
    lines: list[dict[str, Any]] = []
    for name in _files(folder, levels):
        lines += _lines(os.path.join(folder, name), warn)
    # A moment's text is in the order of time. Stable: files are in the order of their names.
    lines.sort(key=lambda line: str(line["time"]))
    return [entry for line in lines for entry in _figures(line)]


def record(
    folder: str,
    verdicts: dict[str, dict[str, Any]],
    now: float,
    warn: Callable[[str], None],
) -> None:
    """Adds what these verdicts measured; nothing of a card or a host that failed.

    A folder that can't be written is a warning: the verdicts are as good without.
    """
    try:
        for host, verdict in verdicts.items():
            line = _line(host, verdict, now)
            if line["subjects"]:
                os.makedirs(folder, exist_ok=True)
                with _alone(folder):
                    _add(os.path.join(folder, file_name(host, _level(verdict))), line, warn)
    except OSError as error:
        warn("the history of acceptances can't be written: {0}".format(error))


def file_name(host: str, level: str) -> str:
    """The file of a host and level; a name that is too long for one ends in what tells it apart."""
    quoted = urllib.parse.quote_plus(host)
    if len(quoted) > 150:
        import hashlib

        quoted = quoted[:100] + "%" + hashlib.sha256(host.encode()).hexdigest()[:32]
    return quoted + _ending(level)


def by_card(earlier: Sequence[Any]) -> dict[str, dict[str, list[Any]]]:
    """{id: {figure: [Earlier, the oldest first]}}, for a page."""
    cards: dict[str, dict[str, list[Any]]] = {}
    for entry in earlier:
        cards.setdefault(entry.id, {}).setdefault(entry.figure, []).append(entry)
    return cards


def _level(verdict: dict[str, Any]) -> str:
    return str(verdict.get("level") or LEVEL)


def _ending(level: str) -> str:
    return "@" + urllib.parse.quote_plus(level)[:40] + ENDING


def _files(folder: str, levels: set[str] | None) -> list[str]:
    endings = (ENDING,) if levels is None else tuple(_ending(level) for level in levels)
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(endings))
    except OSError:
        return []


def _lines(path: str, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """The lines of a host's file; [] of one that is spoiled, which is kept aside."""
    try:
        if os.path.getsize(path) > LARGEST:
            raise ValueError("it is too large")
        with open(path, encoding="utf-8") as stream:
            return [_checked(json.loads(text)) for text in stream]
    except FileNotFoundError:
        return []
    except OSError as error:
        warn("the history of acceptances can't be read, and is left out: {0}".format(error))
        return []
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _keep_aside(path, error, warn)
        return []


def _checked(line: dict[str, Any]) -> dict[str, Any]:
    """The line; ValueError, KeyError, TypeError or AttributeError if another program wrote it."""
    if line["format"] != FORMAT:
        raise ValueError("its format is {0!r}".format(line["format"]))
    line["seconds"] = _seconds(line["time"])
    for subject in line["subjects"]:
        if not (isinstance(subject["id"], str) and isinstance(subject["like"], str)):
            raise TypeError("a card without a name")
        for value, state in subject["figures"].values():
            if not is_number(value) or state not in (OK, MEASURED, DEGRADED):
                raise ValueError("a figure is no number")
    return line


@functools.lru_cache(maxsize=1024)
def _seconds(moment: str) -> int:
    """Since the epoch. Hosts that were accepted together have their moments in common."""
    return calendar.timegm(time.strptime(moment, MOMENT))


def _keep_aside(path: str, error: Exception, warn: Callable[[str], None]) -> None:
    aside = "{0}.spoiled-{1}".format(path, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    try:
        os.replace(path, aside)
        where = "it is kept as {0}".format(aside)
    except OSError as failure:
        where = "it can't be moved: {0}".format(failure)
    warn(
        "the history of acceptances in {0} can't be read ({1}); this goes on without it, and "
        "{2}".format(path, error, where)
    )


def _figures(line: dict[str, Any]) -> Iterator[Any]:
    moment, day = line["seconds"], line["time"][:10]
    for subject in line["subjects"]:
        for figure, (value, state) in subject["figures"].items():
            yield Earlier(
                moment, day, subject["id"], subject["like"], figure, value,
                state != DEGRADED,
            )  # fmt: skip


def _line(host: str, verdict: dict[str, Any], now: float) -> dict[str, Any]:
    rows = []
    for subject in subjects(host, verdict):
        figures = {
            entry["figure"]["name"]: [entry["figure"]["value"], entry["state"]]
            for _at, entry in figures_of(subject, (OK, MEASURED, DEGRADED))
        }
        if figures and subject.id:
            rows.append({"id": subject.id, "like": subject.like, "figures": figures})
    return {
        "format": FORMAT,
        "time": time.strftime(MOMENT, time.gmtime(now)),
        "subjects": rows,
    }


def _add(path: str, line: dict[str, Any], warn: Callable[[str], None]) -> None:
    """Adds a line to a host's file, whole or not at all."""
    kept = [*_lines(path, warn), line][-KEPT:]
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.writelines(
                json.dumps({key: entry[key] for key in WRITTEN}) + "\n" for entry in kept
            )
        os.chmod(new, 0o644)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Waits for another acceptance of this project that writes its history just now."""
    with open(os.path.join(folder, ".lock"), "a") as stream:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
