"""Work that one task begins and a later one takes the result of, while others run between them.

A job is named by a directory below /run: a reboot, which ends the job, ends what is known of it.
The process of a job has the environment of the module that began it. Its task sets PROVISION_JOB
there, by which whoever holds the host for the run ends what nobody waits for any more.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import traceback

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable


class BusyError(Exception):
    """A job of this name is still at work."""


class EndedError(Exception):
    """The job was ended before it was done, or failed in a way of its own; str() says which."""


def begin(directory: str, work: Callable[[], Any]) -> None:
    """Starts `work()` in a process of its own and returns at once.

    What it returns must be JSON; `result` hands it out. Whatever `work` imports must be imported
    already: the module's archive is gone when the module has ended. Raises BusyError.
    """
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    lock = _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _remove(os.path.join(directory, "result"))
    if os.fork():
        # The lock is the child's now, and ends with it however that ends.
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
    """What the job returned, as soon as it has; the job's directory is removed.

    None where none was begun. Raises EndedError. As long as the job works this waits: bounds are
    the job's own.
    """
    try:
        lock = _locked(directory, fcntl.LOCK_EX)
    except FileNotFoundError:
        return None
    try:
        with open(os.path.join(directory, "result"), encoding="utf-8") as stream:
            outcome = json.load(stream)
    except FileNotFoundError:
        raise EndedError("what was begun behind other tasks was ended before it was done") from None
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
