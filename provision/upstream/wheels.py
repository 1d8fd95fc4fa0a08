"""Queries the index of wheels through uv: hash-locked requirements, and whether a version exists.

Index, proxy and CA come from the environment, as with uv itself.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from provision.errors import MachineError, UnsatisfiableError

# In seconds, for a slow index that several uv query for the first time.
UV_TIMEOUT = 1800


def requirements(
    packages: Sequence[str],
    constraints: Sequence[str],
    *,
    python: str,
    wheel_platform: str,
    prefer: Mapping[str, str] | None = None,
) -> str:
    """Hash-locked requirements of `packages` for a Python and a platform, made by uv.

    A version in `prefer` is kept where the index has it and no constraint forbids it. The text
    names no index, so that hosts may use another one. UnsatisfiableError where no set of wheels
    fits, MachineError when the index cannot be reached.
    """
    # Without their hashes, which uv would copy instead of reading them from the index.
    pins = [f"{name}=={version}" for name, version in sorted((prefer or {}).items())]
    return _compile(
        packages, constraints, pins, ["--generate-hashes"], python=python, platform=wheel_platform
    )


def has_wheel(name: str, version: str, *, python: str, wheel_platform: str) -> bool:
    """Whether the index still has a wheel of this version for this Python and platform."""
    pin = f"{name}=={version}"
    try:
        _compile([pin], (), (), ["--no-deps"], python=python, platform=wheel_platform)
    except UnsatisfiableError:
        return False
    return True


def asked(command: Sequence[str], folder: Path, *, where: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of uv's in a folder. MachineError where it is missing or does not end."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=UV_TIMEOUT,
        )
    except FileNotFoundError:
        raise MachineError("uv is not installed", hint="pip install uv") from None
    except subprocess.TimeoutExpired:
        raise MachineError(
            "uv did not end",
            where=where,
            got=f"nothing after {UV_TIMEOUT // 60} minutes",
            hint="is the index there? UV_DEFAULT_INDEX and proxies are honoured",
        ) from None


def _compile(
    packages: Sequence[str],
    constraints: Sequence[str],
    pins: Sequence[str],
    options: Sequence[str],
    *,
    python: str,
    platform: str,
) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, lines in (
            ("wanted.in", packages),
            ("constraints.txt", constraints),
            ("locked.txt", pins),
        ):
            (folder / file).write_text("\n".join([*lines, ""]), encoding="utf-8")
        command = [uv(), "pip", "compile", "--quiet", "--no-config", *options]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--only-binary", ":all:"]
        command += ["--python-version", python, "--python-platform", platform]
        # uv prefers the versions that the output file has already.
        command += ["--constraint", "constraints.txt", "--output-file", "locked.txt", "wanted.in"]
        done = asked(command, folder, where=", ".join(packages))
        if not done.returncode:
            return (folder / "locked.txt").read_text(encoding="utf-8")
    message = " ".join(done.stderr.split())[:600]
    # uv exits 1 where there is no solution, 2 for other errors.
    if done.returncode == 1 and "No solution found" in message:
        raise UnsatisfiableError(
            "the index has no set of wheels that fits",
            where=", ".join(packages),
            got=message,
            expected=f"wheels for Python {python} on {platform}",
        )
    raise MachineError(
        "uv could not lock the wheels",
        where=", ".join(packages),
        got=message,
        hint="is the index there? UV_DEFAULT_INDEX, proxies and SSL_CERT_FILE are honoured",
    )


def _indexes(environment: Mapping[str, str]) -> Iterator[tuple[str, SplitResult]]:
    """(variable, address) of each index of wheels in uv's settings."""
    names = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
    for name in names:
        for url in re.split(r"[\s,]+", environment.get(name, "")):
            yield name, urlsplit(re.sub(r"^[\w-]+=", "", url))  # an index may have a name


def plain_indexes(environment: Mapping[str, str] | None = None) -> list[str]:
    """A warning for each index of wheels in uv's settings that is read over plain HTTP.

    Its hashes are trusted as they come. Only the host of an address is shown, for the rest may have
    a password in it.
    """
    warnings = []
    for name, parts in _indexes(os.environ if environment is None else environment):
        if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            warnings.append(
                f"{name} names {parts.hostname} over plain HTTP: whoever is in between chooses "
                "the wheels whose hashes are locked; an https:// address prevents that"
            )
    return warnings


def authorization(url: str) -> str:
    """The Authorization header for a file on the very host of an index with a login; else "".

    uv names the files without the login that its settings have.
    """
    wanted = urlsplit(url)
    for _, parts in _indexes(os.environ):
        login, _, host = parts.netloc.rpartition("@")
        if login and (parts.scheme, host.lower()) == (wanted.scheme, wanted.netloc.lower()):
            user, _, password = login.partition(":")
            plain = f"{unquote(user)}:{unquote(password)}".encode()
            return f"Basic {base64.b64encode(plain).decode('ascii')}"
    return ""


def uv() -> str:
    """uv of this Python's environment, else the one on PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else "uv"
