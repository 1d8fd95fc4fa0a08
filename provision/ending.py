"""Handles closed pipes, signals and full disks.

`provision explain | head` is no error, and keeps the command's exit code. SIGTERM and a closed
terminal end the program as Ctrl-C does, so that nothing half written stays behind. A full disk is
reported as such, and not as a bug of ours.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from typing import Any, TextIO

from provision.errors import InputError, MachineError, ProvisionError

INTERRUPTED = 130
_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
}
_INPUT = {
    *(errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR),
    *(errno.ENAMETOOLONG, errno.ELOOP),
}


class _Output(io.RawIOBase):
    """Writes to a descriptor; once its reader is gone, discards everything."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.closed_early = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        if not self.closed_early:
            try:
                return os.write(self._descriptor, data)
            except OSError as error:
                # A reader that left, or a terminal that was closed.
                if error.errno not in (errno.EPIPE, errno.EIO):
                    raise
                self.closed_early = True
        return len(data)


def _patient(stream: TextIO | None) -> TextIO:
    """The stream with `_Output` at its end, or unchanged where it is no file.

    None is Python's stream for a descriptor that was closed at the start (`>&-`).
    """
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    try:
        raw = _Output(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        # A host's name may have letters that the terminal's encoding lacks.
        errors="backslashreplace",
        line_buffering=getattr(stream, "line_buffering", False),
    )


def _readable(stream: TextIO | None) -> TextIO:
    """The stream; an empty one for None, as in `_patient` (`<&-`)."""
    if stream is None:
        return open(os.devnull, encoding="utf-8")
    return stream


def prepare() -> None:
    """Sets up the streams and signals; called once, before anything is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # or the next opened file would be standard output
    sys.stdin = _readable(sys.stdin)
    sys.stdout, sys.stderr = _patient(sys.stdout), _patient(sys.stderr)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup's stays
            signal.signal(number, _end)


def _end(number: int, frame: Any) -> None:  # noqa: ARG001 (the handler's signature)
    """Interrupts as Ctrl-C does; further signals don't interrupt the clean-up."""
    for further in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(further, signal.SIG_IGN)
    raise KeyboardInterrupt


def leave(code: int) -> None:
    """Exits; 7 where the output can't be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
        if isinstance(raw, _Output):
            raw.closed_early = True
        sys.stderr.write(f"error: the output can't be written: {error.strerror}\n")
        code = MachineError.exit_code
    sys.exit(code)


def cause(error: BaseException) -> ProvisionError | None:
    """A system error as one of ours, for a person; None where it may be a bug."""
    if not isinstance(error, OSError):
        return None
    where = str(error.filename or "")
    if error.errno in _MACHINE:
        return MachineError(
            f"this machine refuses: {error.strerror}",
            where=where,
            hint="is a disk full? TMPDIR names another folder for temporary files",
        )
    if error.errno == errno.ENOENT and "temporary directory" in str(error.strerror):
        return MachineError(
            "this machine has no folder for temporary files",
            got=str(error.strerror),
            hint="is a disk full? TMPDIR names another folder",
        )
    if error.errno == errno.ENOENT and not where and not _has_working_directory():
        return MachineError(
            "the working directory is gone", got=str(error.strerror), hint="cd to one that is there"
        )
    if error.errno in _INPUT and where:
        return InputError(f"it can't be used: {error.strerror}", where=where)
    return None


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True
