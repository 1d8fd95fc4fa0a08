"""Programs of the host, each with a time limit."""

from __future__ import annotations

import os

TIMEOUT = 60


class RefusedError(Exception):
    """Nothing was lost and nobody's connection was cut; the text says why."""


def call(command: list[str], timeout: float = TIMEOUT, **environment: str) -> tuple[int, str, str]:
    """(exit code, output, errors) of a program; 127 where there is none, 124 where it hangs."""
    import subprocess  # the look imports this module, and calls nothing by it

    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
            env=dict(os.environ, **environment),
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


def must(answer: tuple[int, str, str], prefix: str) -> str:
    """The output of a call that has to succeed."""
    code, out, error = answer
    if code:
        raise RefusedError(f"{prefix}: {(error or out).strip()[-800:]}")
    return out


def openssl(*arguments: str) -> str:
    return must(call(["openssl", *arguments]), "openssl " + arguments[0])


def has_openssl() -> bool:
    return call(["openssl", "version"])[0] == 0
