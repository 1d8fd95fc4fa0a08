"""Keeps the report of every run: a folder for each, a link to the latest, and a limit.

The page that proved the hosts must outlive the plan of the next day. All of this is in `report/` of
the project:

    20261123T120530Z-run/     report.json, events.jsonl and what else belongs to one run
    latest                    a link to the newest of them
    report.json               a link to latest/report.json: here it was when only one was kept
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import pwd
import re
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

from ansible_collections.provision.gpu.plugins.plugin_utils.files import write_atomically

LATEST = "latest"
NAME = re.compile(r"(\d{8}T\d{6}Z)-(?:run|check|verify)(?:-(\d+))?")
# What a run's folder may hold. One that holds anything else is somebody's, and is never removed.
FILES = ("report.json", "events.jsonl", "checks.json", "ansible.log", "report.html", "junit.xml")
# Of a run of an earlier version, whose files lie in report/ itself. Scripts look for the first two.
FORMER = ("report.json", "events.jsonl", "checks.json")


def begin(home: Path, mode: str, started: float) -> Path:
    """Makes the folder of a run in `home`, the project's report/. Raises OSError.

    A second run in the same second gets a name of its own.
    """
    home.mkdir(parents=True, exist_ok=True)
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
    for count in itertools.count(1):
        folder = home / (f"{moment}-{mode}" if count == 1 else f"{moment}-{mode}-{count}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError


def elsewhere(mode: str, started: float) -> Path:
    """The folder of a run whose project takes none: a run is never without its report."""
    return begin(Path(tempfile.mkdtemp(prefix="provision-report-")), mode, started)


def is_kept(folder: Path, home: Path) -> bool:
    """Is `folder` one of the runs in `home`?"""
    return NAME.fullmatch(folder.name) is not None and folder.parent.resolve() == home.resolve()


def runs(home: Path) -> list[Path]:
    """The folders of the runs in `home`, the oldest first."""

    def key(folder: Path) -> tuple[str, int, str]:
        found = NAME.fullmatch(folder.name)
        return (found[1], int(found[2] or 1), folder.name) if found else ("", 0, folder.name)

    try:
        entries = [entry for entry in os.scandir(home) if NAME.fullmatch(entry.name)]
    except OSError:
        return []
    folders = [home / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(folders, key=key)


def previous(home: Path, folder: Path) -> dict[str, Any]:
    """The newest report beside that of `folder`; {} where there is none that can be read."""
    for other in reversed(runs(home)):
        report = {} if other.name == folder.name else read(other / "report.json")
        if report:
            return report
    return {}


def read(path: Path) -> dict[str, Any]:
    """A file's JSON mapping; {} where there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def adopt(home: Path) -> None:
    """Gives the run of an earlier version, whose files lie in `home` itself, a folder of its own.

    Raises OSError.
    """
    path = home / FORMER[0]
    if not path.is_file() or path.is_symlink():
        return
    mode = read(path).get("mode")
    folder = begin(home, mode if mode in ("check", "verify") else "run", path.stat().st_mtime)
    # The report last: where this is cut off, the next run goes on with it.
    for name in reversed(FORMER):
        if (home / name).is_file() and not (home / name).is_symlink():
            (home / name).rename(folder / name)


def show(home: Path, folder: Path) -> str | None:
    """Makes `latest`, and where earlier versions had their files, lead to a run.

    Where there can be no links `latest` is a folder of copies, made anew at the run's end. Returns
    what is in the way, or None. Raises OSError.
    """
    latest = home / LATEST
    taken = latest.exists() and not latest.is_symlink()
    if taken and not (latest.is_dir() and only_ours(latest)):
        return f"{latest} is no link of this report's, and is left alone"
    if not can_link(home):
        latest.mkdir(exist_ok=True)
        copy(folder, latest)
        return None
    if taken:
        shutil.rmtree(latest)
    link_to(latest, folder.name)
    for name in FORMER[:2]:
        if (home / name).is_symlink() or not (home / name).exists():
            link_to(home / name, f"{LATEST}/{name}")
    return None


def can_link(home: Path) -> bool:
    """Has this file system links? Those of memory sticks and some network shares have none."""
    link = home / f".link.{os.getpid()}"
    try:
        link.symlink_to(LATEST)
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise
    link.unlink()
    return True


def link_to(path: Path, target: str) -> None:
    """Replaces a link atomically. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)


def finish(home: Path, folder: Path, keep: int) -> None:
    """Ends a run: copies it where there are no links, and removes what is over the limit.

    `keep` 0 removes nothing. Raises OSError, after all that can be removed has been.
    """
    latest = home / LATEST
    if latest.is_dir() and not latest.is_symlink() and only_ours(latest):
        copy(folder, latest)
    kept = runs(home)
    failure: OSError | None = None
    for old in kept[: len(kept) - keep] if keep > 0 else ():
        try:
            if old.name != folder.name and only_ours(old) and not at_work(old):
                shutil.rmtree(old)
        except OSError as error:  # of another user, who ran this project too
            failure = failure or error
    if failure is not None:
        raise failure


def copy(folder: Path, latest: Path) -> None:
    """What a run has, as copies; nothing of the run before it."""
    for name in FILES:
        if (folder / name).is_file():
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
            write_atomically(latest / name, text)
        else:
            (latest / name).unlink(missing_ok=True)


def only_ours(folder: Path) -> bool:
    """Does a folder hold nothing but files of a report?"""
    for entry in os.scandir(folder):
        ours = entry.name in FILES or entry.name.startswith(tuple(f".{name}." for name in FILES))
        if not ours or not entry.is_file(follow_symlinks=False):
            return False
    return True


def claim(events: int) -> None:
    """Marks the folder of an open events.jsonl as one of a run at work, while that run lives."""
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(events, fcntl.LOCK_EX | fcntl.LOCK_NB)


def at_work(folder: Path) -> bool:
    """Is there a run that still writes into this folder?"""
    try:
        handle = os.open(folder / "events.jsonl", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def reason(home: Path, error: OSError) -> str:
    """Why a project takes no report."""
    if home.is_symlink() and not home.exists():
        return f"it is a link to {os.readlink(home)}, which is not there"
    if home.exists() and not home.is_dir():
        return "it is no folder"
    try:
        owner = home.stat()
    except OSError:
        return str(error.strerror)
    if isinstance(error, PermissionError) and owner.st_uid != os.getuid():
        try:
            name = pwd.getpwuid(owner.st_uid).pw_name
        except KeyError:
            name = f"user {owner.st_uid}"
        return f"{error.strerror}, it belongs to {name} ({stat.filemode(owner.st_mode)})"
    return str(error.strerror)
