"""Checks what this machine needs for containers, and runs podman on it.

podman's defaults fail on some machines before the first container starts: its default limits
are above this machine's hard limits, or its runtime refuses hybrid cgroups. Both are measured
here, and a `CONTAINERS_CONF` overrides only what this machine needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision import home
from provision.errors import MachineError

Progress = Callable[[str], None]

# podman 4's own defaults (containers.conf(5)); a machine that allows them needs no file.
PODMAN_NOFILE = 1048576
PODMAN_NPROC = 4194304
# podman's fallback for the number of processes.
LOWERED_NPROC = 32768

# Program -> Debian package. podman makes its bridge network with iptables.
PROGRAMS = {
    "podman": "podman",
    "iptables": "iptables",
    "mmdebstrap": "mmdebstrap",
    "ssh-keygen": "openssh-client",
    "gcc": "gcc libc6-dev",
}
# podman finds these beside itself, not on PATH.
HELPERS = {"netavark": "netavark", "aardvark-dns": "aardvark-dns"}
HELPER_DIRECTORIES = (
    "/usr/local/libexec/podman",
    "/usr/local/lib/podman",
    "/usr/libexec/podman",
    "/usr/lib/podman",
)


def silent(message: str) -> None:
    """Default no-op progress callback."""


@dataclass(frozen=True)
class Limits:
    """This machine's limits for podman; None is unlimited."""

    nofile: int | None
    nproc: int | None
    pid_max: int
    hybrid_cgroups: bool


def measure() -> Limits:
    """This machine's limits, from getrlimit, /proc/sys/kernel/pid_max and the mount table."""

    def hard(which: int) -> int | None:
        value = resource.getrlimit(which)[1]
        return None if value == resource.RLIM_INFINITY else value

    try:
        pid_max = int(Path("/proc/sys/kernel/pid_max").read_text("ascii"))
    except (OSError, ValueError):
        pid_max = LOWERED_NPROC
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace")
    except OSError:
        mounts = ""
    return Limits(
        hard(resource.RLIMIT_NOFILE), hard(resource.RLIMIT_NPROC), pid_max, is_hybrid(mounts)
    )


def is_hybrid(mountinfo: str) -> bool:
    """True when v1 controllers and a v2 tree are both mounted (crun refuses that)."""
    types = {
        line.split(" - ", 1)[1].split(" ", 1)[0] for line in mountinfo.splitlines() if " - " in line
    }
    return {"cgroup", "cgroup2"} <= types


def containers_conf(limits: Limits) -> str:
    """The containers.conf(5) this machine needs; empty when podman's defaults work."""
    ulimits = []
    if limits.nofile is not None and limits.nofile < PODMAN_NOFILE:
        ulimits.append(f"nofile={limits.nofile}:{limits.nofile}")
    if limits.nproc is not None and limits.nproc < PODMAN_NPROC:
        processes = min(limits.nproc, limits.pid_max, LOWERED_NPROC)
        ulimits.append(f"nproc={processes}:{processes}")
    text = ""
    if ulimits:
        text += "[containers]\ndefault_ulimits = " + json.dumps(ulimits) + "\n"
    if limits.hybrid_cgroups:
        text += '[engine]\nruntime = "runc"\n'
    return text


def missing(limits: Limits, names: Sequence[str] = tuple(PROGRAMS)) -> dict[str, str]:
    """{missing program: its Debian packages} of those that a lab needs."""
    lacking = {
        name: PROGRAMS[name]
        for name in names
        if not (shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin"))
    }
    for name, package in HELPERS.items():
        if not any(Path(place, name).exists() for place in HELPER_DIRECTORIES):
            lacking[name] = package
    if limits.hybrid_cgroups and not shutil.which("runc", path="/usr/bin:/usr/sbin:/usr/local/bin"):
        lacking["runc"] = "runc"
    if os.geteuid() and not shutil.which("sudo"):
        lacking["sudo"] = "sudo"
    return lacking


def require(limits: Limits, names: Sequence[str] = tuple(PROGRAMS)) -> None:
    """Raise a MachineError with all missing programs and the command that installs them."""
    refuse("this machine can't run lab hosts yet", missing(limits, names))


def refuse(message: str, lacking: Mapping[str, str]) -> None:
    """Raise a MachineError where something is lacking; `lacking` is what `missing` returns."""
    if lacking:
        packages = sorted({word for package in lacking.values() for word in package.split()})
        raise MachineError(
            message,
            got="missing: " + ", ".join(sorted(lacking)),
            hint="sudo apt-get install --no-install-recommends " + " ".join(packages),
        )


def cache_directory() -> Path:
    """The user's cache for labs: base images, downloads, built libraries."""
    path = home.cache_directory() / "lab"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError.of(
            error,
            "the cache directory can't be made",
            path,
            "set XDG_CACHE_HOME to a directory you can write to",
        ) from error
    return path


def ended(
    argv: Sequence[str], *, timeout: float, hint: str = "", **options: Any
) -> subprocess.CompletedProcess[Any]:
    """What a program has ended with, its output captured; `options` are `subprocess.run`'s.

    Raises MachineError where it is not on this machine, with this hint, or does not end in time.
    """
    try:
        return subprocess.run(argv, capture_output=True, check=False, timeout=timeout, **options)
    except FileNotFoundError as error:
        raise MachineError(f"{argv[0]} is not on this machine", hint=hint) from error
    except subprocess.TimeoutExpired as error:
        raise MachineError(f"{' '.join(argv[:6])} did not end in {timeout:.0f} s") from error


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; freed by the kernel if this process is killed."""
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file atomically."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass
class Podman:
    """Rootful podman; every call is an argument list."""

    prefix: tuple[str, ...] = ()
    conf: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Is podman on this machine at all? Virtual machines need none."""
        return shutil.which("podman") is not None

    def argv(self, *arguments: str) -> list[str]:
        setting = [f"CONTAINERS_CONF={self.conf}"] if self.conf else []
        return [*self.prefix, *(["env", *setting] if setting else []), "podman", *arguments]

    def run(
        self, *arguments: str, stdin: bytes | None = None, timeout: float = 900
    ) -> subprocess.CompletedProcess[bytes]:
        """Run podman and return the result, whatever the exit code.

        Raises MachineError if it can't be started or does not end in time.
        """
        return self._run(self.argv(*arguments), stdin, timeout)

    def _run(
        self, argv: Sequence[str], stdin: bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        return ended(
            argv,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            timeout=timeout,
            hint="sudo apt-get install podman",
        )

    def call(self, *arguments: str, stdin: bytes | None = None, timeout: float = 900) -> str:
        """Run podman and return stdout. Raises MachineError with its stderr on failure."""
        done = self.run(*arguments, stdin=stdin, timeout=timeout)
        if done.returncode:
            raise MachineError(
                f"podman {arguments[0]} failed",
                got=done.stderr.decode("utf-8", "replace").strip()[-2000:],
                hint="sudo must not ask for a password here: run `sudo -v` first"
                if self.prefix and b"password" in done.stderr
                else "",
            )
        return done.stdout.decode("utf-8", "replace")

    def as_root(self, *argv: str, timeout: float = 60) -> None:
        """Run another program with podman's rights. Raises MachineError on failure."""
        done = self._run([*self.prefix, *argv], None, timeout)
        if done.returncode:
            raise MachineError(
                f"{argv[0]} failed", got=done.stderr.decode("utf-8", "replace").strip()
            )

    def containers(self, **labels: str) -> list[dict[str, Any]]:
        """`podman ps --all` as data, for containers with all these labels ('' = any value).

        Label names are given without their prefix `provision.`.
        """
        filters = []
        for name, value in labels.items():
            label = f"provision.{name}" + (f"={value}" if value else "")
            filters += ["--filter", f"label={label}"]
        containers = json.loads(self.call("ps", "--all", "--format", "json", *filters) or "[]")
        return list(containers or [])


def connect(limits: Limits | None = None) -> Podman:
    """Podman for this machine; writes a CONTAINERS_CONF if one is needed."""
    limits = limits or measure()
    text = containers_conf(limits)
    conf = None
    if text:
        conf = cache_directory() / "containers.conf"
        if not conf.exists() or conf.read_text("utf-8") != text:
            write_atomically(conf, text.encode())
    return Podman(prefix=("sudo", "-n") if os.geteuid() else (), conf=conf)
