"""Runs pip in an environment: installs exactly the wheels of its requirements, or explains why not.

pip fails with a traceback and a page of retries; a person gets one sentence instead. Addresses with
a password reach pip in a configuration file by standard input: a command line can be read by
everybody on the host, and an environment by whatever runs as the same user.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

# The background job's directory: of the task that begins it and of the one that waits for it.
JOB = "/run/provision/tensorflow"
# Seconds: a few gigabytes over a slow line. pip's own time-out is for silence alone.
LONGEST = 14400


def command(place: str, cache: str = "") -> list[str]:
    """pip's command line in the environment at `place`; `cache` is a directory, or "" for none."""
    return [
        place + "/bin/python", "-I", "-m", "pip", "install", "--require-hashes", "--no-deps",
        "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--timeout", "60",
        "--requirement", place + "/requirements.txt",
        *(["--cache-dir", cache] if cache else ["--no-cache-dir"]),
    ]  # fmt: skip


def addresses(options: dict[str, Any]) -> dict[str, str]:
    """{name of pip's setting: value} of the indices and the proxy, where they are set."""
    values = {
        "index-url": options.get("index_url"),
        "extra-index-url": " ".join(options.get("extra_index_urls") or []),
        "proxy": options.get("proxy"),
    }
    return {name: value for name, value in values.items() if value}


def is_secret(options: dict[str, Any]) -> bool:
    """Whether one of the addresses may carry a password."""
    return any("@" in value for value in addresses(options).values())


def settings(options: dict[str, Any]) -> str:
    """pip's configuration file with the addresses, where one may carry a password; else ""."""
    if not is_secret(options):
        return ""
    lines = [f"{name} = {value}\n" for name, value in addresses(options).items()]
    return "[global]\n" + "".join(lines)


def environment(place: str, options: dict[str, Any]) -> dict[str, str]:
    """Variables for pip in addition to its caller's; never a password."""
    variables = {"TMPDIR": place, "LC_ALL": "C.UTF-8"}
    if options.get("ca_bundle"):
        variables["PIP_CERT"] = options["ca_bundle"]
    if options.get("alone"):
        # The host's own settings may name further indices, which pip would ask too.
        variables["PIP_CONFIG_FILE"] = os.devnull
        index = urlsplit(options["index_url"])
        if index.scheme == "http":  # the wheels' hashes are the lock's
            variables["PIP_TRUSTED_HOST"] = index.netloc
    if is_secret(options):
        variables["PIP_CONFIG_FILE"] = "/dev/stdin"
        return variables
    for name, value in addresses(options).items():
        variables["PIP_" + name.upper().replace("-", "_")] = value
    return variables


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Files that are created within are readable for all; hardened hosts give root umask 077."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _end_with(parent: int) -> Callable[[], None]:
    """A preexec_fn that ends the new process with `parent`, which cleans up after it."""
    libc = ctypes.CDLL(None)

    def call() -> None:
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return call


def install(place: str, options: dict[str, Any]) -> tuple[int, str]:
    """Installs the requirements; (exit code, standard error) of pip.

    Where what leads pip elsewhere does not answer, `otherwise` are the host's own options. A wheel
    with another hash is no reason for these: whoever sent it is to be named.
    """
    argv = command(place, options.get("cache_dir") or "")
    code, error = run(argv, place, options)
    if code and "otherwise" in options and "DO NOT MATCH THE HASHES" not in error:
        code, error = run(argv, place, options["otherwise"])
    return code, error


def run(argv: list[str], place: str, options: dict[str, Any]) -> tuple[int, str]:
    """(exit code, standard error) of a program that finds pip's settings as pip does.

    They are in a file without a name, not in a pipe: pip reads its configuration more than once.
    """
    try:
        with tempfile.TemporaryFile(dir=place) as stream:
            stream.write(settings(options).encode("utf-8"))
            stream.seek(0)
            with readable():
                process = subprocess.run(
                    argv,
                    stdin=stream,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=dict(os.environ, **environment(place, options)),
                    check=False,
                    timeout=LONGEST,
                    preexec_fn=_end_with(os.getpid()),
                )
    except OSError as error:
        return 1, str(error)
    except subprocess.TimeoutExpired:
        return 1, f"it was not done within {LONGEST} s, and was ended."
    return process.returncode, process.stderr.decode("utf-8", "replace")


def reasons(stderr: str, root: str) -> str:
    """pip's errors as a person reads them, without the logins of addresses."""
    text = re.sub("//[^/ ]*@", "//", stderr)
    # pip reports a connection in a warning, "... after connection broken by 'REASON':
    # /simple/NAME/", and its error is only that it found no matching version.
    broken = [
        re.sub("<[^>]*>:? ?", "", reason)
        for reason in re.findall("connection broken by '(.*)': ", text)
    ]
    unmatched = "No matching distribution" in text
    if "No space left on device" in text:
        return f"No space is left on the filesystem of {root}."
    if broken and unmatched:
        return (
            f"this host does not reach the package index ({broken[0]}); see tensorflow_index_url, "
            "tensorflow_proxy and tensorflow_ca_bundle."
        )
    if re.search("ReadTimeoutError|read operation timed out", text):
        return (
            "the package index stopped sending in the middle of a download (no byte for a minute)."
        )
    lines = [line for line in text.splitlines() if line and not line.startswith("WARNING")]
    if unmatched:
        lines.append(
            "Does this host reach the package index (tensorflow_index_url, tensorflow_proxy, "
            "tensorflow_ca_bundle)?"
        )
    return " ".join(lines)


def not_installed(version: str, why: str, works: bool) -> str:
    """The message of a failure; `works`: there is a current version, and it is as it was."""
    sentences = [f"TensorFlow {version} was not installed: {why.strip()}"]
    if works:
        sentences.append("The version in use before is still the current one.")
    sentences.append("Run again once the cause is gone.")
    return " ".join(sentences)
