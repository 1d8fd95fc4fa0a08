"""Keeps the reports of runs: a folder for each, a link to the latest, and a limit.

The report that proved the hosts must survive the next day's plan. `report/` of the project has:

    20261123T120530Z-run/     report.json, events.jsonl and the other files of one run
    latest                    a link to the newest of them
    report.json               a link to latest/report.json, its path when only one was kept
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
# The files of a run's folder. A folder with anything else in it is never removed.
FILES = ("report.json", "events.jsonl", "checks.json", "ansible.log", "report.html", "junit.xml")
# Of a run of an earlier version, whose files lie in report/ itself. Scripts read the first two.
FORMER = ("report.json", "events.jsonl", "checks.json")


def begin(home: Path, mode: str, started: float) -> Path:
    """Creates the folder of a run in `home`, the project's report/. Raises OSError.

    A second run in the same second gets a numbered name.
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


def begin_temporary(mode: str, started: float) -> Path:
    """Creates the folder of a run below a temporary directory, where its project can't hold it.

    Raises OSError.
    """
    return begin(Path(tempfile.mkdtemp(prefix="provision-report-")), mode, started)


def is_kept(folder: Path, home: Path) -> bool:
    """Whether `folder` is one of the runs in `home`."""
    return NAME.fullmatch(folder.name) is not None and folder.parent.resolve() == home.resolve()


def runs(home: Path) -> list[Path]:
    """The folders of the runs in `home`, the oldest first."""

    def key(folder: Path) -> tuple[str, int, str]:
        match = NAME.fullmatch(folder.name)
        return (match[1], int(match[2] or 1), folder.name) if match else ("", 0, folder.name)

    try:
        entries = [entry for entry in os.scandir(home) if NAME.fullmatch(entry.name)]
    except OSError:
        return []
    folders = [home / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(folders, key=key)


def previous(home: Path, folder: Path) -> dict[str, Any]:
    """The newest readable report but that of `folder`; {} without one."""
    for run in reversed(runs(home)):
        report = {} if run.name == folder.name else read(run / "report.json")
        if report:
            return report
    return {}


def read(path: Path) -> dict[str, Any]:
    """A file's JSON mapping; {} where it has none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def adopt(home: Path) -> None:
    """Moves the run of an earlier version, whose files lie in `home` itself, to its own folder.

    Raises OSError.
    """
    path = home / FORMER[0]
    if not path.is_file() or path.is_symlink():
        return
    mode = read(path).get("mode")
    folder = begin(home, mode if mode in ("check", "verify") else "run", path.stat().st_mtime)
    # The report last: where this is interrupted, the next run continues.
    for name in reversed(FORMER):
        if (home / name).is_file() and not (home / name).is_symlink():
            (home / name).rename(folder / name)


def show(home: Path, folder: Path) -> str | None:
    """Links `latest`, and the paths of earlier versions' files, to a run; why not, or None.

    On a file system without links `latest` is a folder of copies, written again at the run's end.
    Raises OSError.
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
    """Whether this file system has links; memory sticks and some network shares don't."""
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
    """Ends a run: copies it where there are no links, and removes old runs over the limit.

    `keep` 0 removes nothing. Raises OSError, after everything that can be removed has been.
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
    """Copies a run's files to `latest`, and removes those of the run before."""
    for name in FILES:
        if (folder / name).is_file():
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
            write_atomically(latest / name, text)
        else:
            (latest / name).unlink(missing_ok=True)


def only_ours(folder: Path) -> bool:
    """Whether a folder holds nothing but files of a report."""
    for entry in os.scandir(folder):
        ours = entry.name in FILES or entry.name.startswith(tuple(f".{name}." for name in FILES))
        if not ours or not entry.is_file(follow_symlinks=False):
            return False
    return True


def claim(events: int) -> None:
    """Locks an open events.jsonl, which marks its folder as in use while the run lives."""
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(events, fcntl.LOCK_EX | fcntl.LOCK_NB)


def at_work(folder: Path) -> bool:
    """Whether a run still writes into this folder."""
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
    """Why a project can't hold a report."""
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
