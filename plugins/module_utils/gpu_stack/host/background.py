"""Runs work in the background: one task begins it, and a later one collects the result.

A job is named by a directory below /run, so a reboot removes both. Its process has the environment
of the module that began it, in which the task sets PROVISION_JOB: by that the run's holder on the
host finds and ends jobs that nobody waits for any more.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import traceback

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable

KILLED = "the background job was killed before it was done"


class BusyError(Exception):
    """A job of this name still runs."""


class EndedError(Exception):
    """The job was killed, or failed with an exception; str() says which."""


def begin(directory: str, work: Callable[[], Any]) -> None:
    """Starts `work()` in a process of its own and returns at once.

    It must return JSON, which `result` returns. All its imports must be done before: the module's
    archive is deleted when the module ends. Raises BusyError.
    """
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    lock = _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _remove(os.path.join(directory, "result"))
    if os.fork():
        # The lock is the child's now; the kernel releases it when the child ends.
        os.close(lock)
        return
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        _write(directory, _outcome(work))
    finally:
        os._exit(0)


def result(directory: str) -> Any:
    """Waits for the job, and returns its result; the job's directory is removed.

    None if there is no job. Raises EndedError. There is no time limit but the job's own.
    """
    try:
        lock = _locked(directory, fcntl.LOCK_EX)
    except FileNotFoundError:
        return None
    try:
        with open(os.path.join(directory, "result"), encoding="utf-8") as stream:
            outcome = json.load(stream)
    except FileNotFoundError:
        raise EndedError(KILLED) from None
    finally:
        os.close(lock)
    shutil.rmtree(directory)
    if "failed" in outcome:
        raise EndedError(outcome["failed"])
    return outcome["result"]


def _outcome(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": work()}
    except BaseException:
        return {"failed": traceback.format_exc(limit=5)}


def _locked(directory: str, how: int) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    if how & fcntl.LOCK_NB:
        flags |= os.O_CREAT
    handle = os.open(os.path.join(directory, "lock"), flags, 0o600)
    try:
        fcntl.flock(handle, how)
    except OSError as error:
        os.close(handle)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise BusyError("it is still at work: {0}".format(directory)) from None
        raise
    return handle


def _write(directory: str, outcome: dict[str, Any]) -> None:
    path = os.path.join(directory, "result")
    with open(path + ".new", "w", encoding="utf-8") as stream:
        json.dump(outcome, stream)
    os.replace(path + ".new", path)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
