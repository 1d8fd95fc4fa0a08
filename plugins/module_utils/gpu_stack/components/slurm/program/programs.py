"""Programs of the host, each with a time limit that holds even where the kernel hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import time

# The exit code of a program that did not end in time, as timeout(1) has it.
SILENT = 124
# Bytes from the end of a program's output: no more is read. Usual lines of the kernel's log are
# fewer, as many as are asked for.
LIMIT = 32 << 20
# Nothing of the caller's environment but where slurmd says that Slurm's configuration is.
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def environment() -> dict[str, str]:
    """What the programs get."""
    given = os.environ.get("SLURM_CONF", "")
    return dict(ENVIRONMENT, SLURM_CONF=given) if given.startswith("/") else dict(ENVIRONMENT)


def call(argv: list[str], patience: float) -> tuple[int, str, str]:
    """(exit code, output, errors); 127 where there is no such program, 124 where it hangs.

    A program that a broken driver holds in the kernel does not die: it is left behind, and not
    waited for. Its output goes to files, for no pipe is to fill up, and these are in memory: a user
    who fills /tmp must not make a node look sick.
    """
    out, err = os.memfd_create("out"), os.memfd_create("err")
    try:
        return _call(argv, patience, out, err)
    finally:
        os.close(out)
        os.close(err)


def _call(argv: list[str], patience: float, out: int, err: int) -> tuple[int, str, str]:
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment(),
            start_new_session=True,
        )
    except OSError as error:
        return 127, "", "{0}: {1}".format(argv[0], error.strerror)
    code = _wait(process, patience)
    if code is None:
        return SILENT, "", "{0} did not answer within {1:.0f} s".format(argv[0], patience)
    return code, end_of(out, LIMIT), end_of(err, LIMIT)


def _wait(process: subprocess.Popen[bytes], patience: float) -> int | None:
    deadline = time.monotonic() + patience
    pause = 0.002
    while process.poll() is None:
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.1)
            # As a zombie it has ended; else it hangs in the kernel.
            process.poll()
            return None
        time.sleep(pause)
        pause = min(pause * 2, 0.1)
    return process.returncode


def end_of(handle: int, limit: int) -> str:
    """The whole lines in the last `limit` bytes of a file."""
    left_out = max(0, os.fstat(handle).st_size - limit)
    data = os.pread(handle, limit, left_out)
    if left_out:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")
