"""Programs of the host, each with a time limit."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time

from . import places

TIMEOUT = 60
# No list of GPUs is longer.
SAID = 1 << 16


def call(command: list[str], timeout: float | None = TIMEOUT) -> tuple[int, str, str]:
    """(exit code, output, errors) of a program; 127 where there is none, 124 where it hangs."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except FileNotFoundError:
        return 127, "", f"{command[0]} is not here"
    except subprocess.TimeoutExpired:
        return 124, "", f"{command[0]} did not answer within {timeout} s"
    return (
        result.returncode,
        result.stdout.decode("utf-8", "replace"),
        result.stderr.decode("utf-8", "replace"),
    )


def limited(command: list[str], timeout: float = TIMEOUT, size: int = SAID) -> tuple[int, str, str]:
    """`call` of a program that may say anything, for ever, as much as it likes."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except FileNotFoundError:
        return 127, "", f"{command[0]} is not here"
    assert process.stdout is not None  # noqa: S101 a pipe
    assert process.stderr is not None  # noqa: S101 a pipe
    output, until = {process.stdout: b"", process.stderr: b""}, time.monotonic() + timeout
    reading = set(output)
    while reading:
        ready = select.select(list(reading), [], [], max(0, until - time.monotonic()))[0]
        if not ready:
            break
        for stream in ready:
            block = os.read(stream.fileno(), 65536)
            output[stream] += block
            if not block:
                reading.discard(stream)
        if max(map(len, output.values())) > size:
            break
    if reading:
        process.kill()
    process.wait()
    out, error = (
        re.sub(r"[^\n\x20-\x7e]", "?", output[stream][:size].decode("utf-8", "replace"))
        for stream in (process.stdout, process.stderr)
    )
    process.stdout.close()
    process.stderr.close()
    if max(map(len, output.values())) > size:
        return 124, out, f"it says more than {size} bytes"
    return (124, out, f"no answer within {timeout} s") if reading else (
        process.returncode, out, error,
    )  # fmt: skip


def must(answer: tuple[int, str, str], prefix: str) -> str:
    """The output of a call that has to succeed."""
    code, out, error = answer
    if code:
        raise places.RefusedError(f"{prefix}: {(error or out).strip()[-800:]}")
    return out
