"""Reads files and runs commands with time and size limits: a hang must not hold the run."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

COMMAND_TIMEOUT = 60
# Seconds and bytes of a whole answer of a server that is not trusted.
PATIENCE = 20
ANSWER_LIMIT = 1 << 20
# A lab host whose GPU is simulated has this file.
SIMULATED = "/etc/gpu-simulated"
OUTPUT_LIMIT = 20000


def read(path: str) -> str | None:
    """A file's text, or None where it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None


def run(
    command: list[str],
    environment: dict[str, str] | None = None,
    timeout: float = COMMAND_TIMEOUT,
    limit: int = OUTPUT_LIMIT,
) -> dict[str, Any]:
    """Runs a command: {"rc", "stdout", "stderr"}. rc 127: no such command, 124: it timed out.

    Keeps the last `limit` characters of an output (0: all).
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        out, error_output = process.communicate(timeout=timeout)
    except FileNotFoundError:
        return {"rc": 127, "stdout": "", "stderr": command[0] + ": command not found"}
    except subprocess.TimeoutExpired:
        end(process)
        return {"rc": 124, "stdout": "", "stderr": f"no answer within {timeout} s"}
    except OSError as error:
        return {"rc": 126, "stdout": "", "stderr": str(error)}
    return {
        "rc": process.returncode,
        "stdout": text(out, limit),
        "stderr": text(error_output, limit),
    }


@contextlib.contextmanager
def cut_off(stream: socket.socket) -> Iterator[None]:
    """Ends a connection that is still in use after PATIENCE seconds.

    A socket's own time-out is for each piece of an answer, and there may be many.
    """
    # TLS takes a socket over, and so does an answer of http.client that ends with its connection.
    own = stream.dup()
    timer = threading.Timer(PATIENCE, shut_down, [own])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        own.close()


def shut_down(stream: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has just ended
        stream.shutdown(socket.SHUT_RDWR)


def end(process: subprocess.Popen[bytes], patience: float = 5.0) -> tuple[bytes, bytes]:
    """Kills a program and returns its output; empty where it stays in the kernel (state D)."""
    process.kill()
    try:
        return process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        return b"", b""


def text(data: bytes, limit: int = OUTPUT_LIMIT) -> str:
    return data.decode("utf-8", "replace")[-limit:]


def last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else ""
