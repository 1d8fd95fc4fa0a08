"""Read access to one host, and the programs that may be run on it.

Every component reads the host through one `Context`, so that a recorded tree in a test, a chroot
and a running host are looked at by the same code. Without it each component would open its own
files, and nothing could be tested away from a GPU host.
"""

from __future__ import annotations

import collections
import contextlib
import fnmatch
import itertools
import os
import re
import signal
import time

from ..type_checking import TYPE_CHECKING
from . import apt, dpkg, loader, regular

if TYPE_CHECKING:
    from typing import Any, BinaryIO, Callable, TypeVar

    Answer = TypeVar("Answer")

Result = collections.namedtuple("Result", "rc out err")
PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Seconds for one program. The slowest, nvidia-smi without persistence on eight GPUs, takes 20.
PATIENCE = 120.0
# The exit code of one that took longer, as timeout(1) has it.
SILENT = 124


def run_program(
    argv: list[str], patience: float = PATIENCE, environment: dict[str, str] | None = None
) -> Result:
    """Run one program for at most `patience` seconds, by default with a fixed environment.

    rc 127 when there is no such program, 124 when it did not end in time: a broken GPU driver
    blocks its callers, and a look that waits blocks the whole run. The program is killed then, or
    left behind where the kernel does not let it die (state D); it has no handle of ours.

    Its output goes to files in memory: no pipe can fill up, and `subprocess`, whose import takes a
    tenth of a look's time, is loaded only on hosts without such files.
    """
    environment = environment or {"LC_ALL": "C", "PATH": ":".join(PATH)}
    program = argv[0] if argv[0].startswith("/") else _find(argv[0], environment["PATH"])
    if not hasattr(os, "memfd_create") or not hasattr(os, "posix_spawn"):  # Python 3.7
        return _run_with_pipes(program, argv, environment, patience)
    out, err = os.memfd_create("out"), os.memfd_create("err")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    try:
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
        ]
        try:
            pid = os.posix_spawn(
                program, argv, environment, file_actions=actions, setpgroup=0, setsigmask=before
            )
        except OSError as error:
            return Result(127, "", str(error))
        status = _status(pid, patience)
        if status is None:
            _kill(pid)
            regular.end(pid)
            return Result(SILENT, _whole(out), _silence(argv, patience))
        rc = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        return Result(rc, _whole(out), _whole(err))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(out)
        os.close(err)


def _status(pid: int, patience: float) -> int | None:
    """The status of a child that ends in time, as of waitpid; None of one that does not.

    SIGCHLD is blocked and waited for, which ends the wait at once. Another thread may take the
    signal: hence the short naps.
    """
    deadline = time.monotonic() + patience
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        signal.sigtimedwait([signal.SIGCHLD], min(left, 0.5))


def _kill(pid: int) -> None:
    """Ends the program and what it has started."""
    with contextlib.suppress(OSError):  # it has just ended
        os.killpg(pid, signal.SIGKILL)


def _silence(argv: list[str], patience: float) -> str:
    return "{0} did not answer within {1:.0f} s".format(argv[0], patience)


def _find(name: str, path: str) -> str:
    for directory in path.split(":"):
        if os.access(os.path.join(directory, name), os.X_OK):
            return os.path.join(directory, name)
    return name


def _whole(handle: int) -> str:
    data = os.pread(handle, os.fstat(handle).st_size, 0)
    return data.decode("utf-8", "replace")


def _run_with_pipes(
    program: str, argv: list[str], environment: dict[str, str], patience: float
) -> Result:
    import subprocess

    try:
        process = subprocess.Popen(
            argv,
            executable=program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return Result(127, "", str(error))
    try:
        out, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired as error:
        _kill(process.pid)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        regular.end(process.pid)
        return Result(SILENT, (error.output or b"").decode("utf-8", "replace"),
                      _silence(argv, patience))  # fmt: skip
    return Result(
        process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
    )


def run_nothing(argv: list[str]) -> Result:
    """The runner of a tree that is not the running system: its programs can't be asked."""
    return Result(127, "", "{0} was not run: not the running system".format(argv[0]))


def _answer(ask: Callable[[str], Answer], path: str | None) -> Answer | None:
    """What `ask` says of a path; None without one, or where it can't be asked."""
    try:
        return None if path is None else ask(path)
    except OSError:
        return None


class Context(object):
    """Read access to one host; every path is absolute within `root`."""

    def __init__(
        self,
        root: str = "/",
        options: dict[str, Any] | None = None,
        row: dict[str, Any] | None = None,
        deep: bool = False,
        runner: Callable[[list[str]], Result] | None = None,
    ) -> None:
        self.root = root
        self.options = options or {}
        self.row = row
        self.deep = deep
        self.platform: dict[str, Any] = {}
        self.container = False
        # What this look compares because the host has booted: boots.py.
        self.compared: list[str] = []
        if runner is None:
            runner = run_program if root == "/" else run_nothing
        self.run = runner
        # The bundle that the option names, once bundle.py has read it.
        self.bundle: Any = None
        self._packages: dict[str, Any] | None = None
        self._loader: dict[str, str] | None = None
        self._apt: list[dict[str, Any]] | None = None

    def part(self, component: str) -> dict[str, Any]:
        """The stack row's part for one component; {} where no row fits the host."""
        return (self.row or {}).get(component) or {}

    # files

    def _real(self, path: str) -> str | None:
        """`path` on this machine's disk, or None when it leads nowhere within `root`."""
        if self.root == "/":
            return path
        inside = self.resolve(path)
        return None if inside is None else self._join(inside)

    def _join(self, path: str) -> str:
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    def resolve(self, path: str) -> str | None:
        """Follow every link of `path` inside `root`; None when the end does not exist."""
        if self.root == "/":
            real = os.path.realpath(path)
            return real if os.path.exists(real) else None
        todo = [name for name in path.split("/") if name]
        done: list[str] = []
        links = 0
        while todo:
            name = todo.pop(0)
            if name == ".":
                continue
            if name == "..":
                done = done[:-1]
                continue
            here = self._join("/" + "/".join([*done, name]))
            if os.path.islink(here):
                links += 1
                if links > 40:
                    return None
                target = os.readlink(here)
                if target.startswith("/"):
                    done = []
                todo = [part for part in target.split("/") if part] + todo
            elif os.path.lexists(here):
                done.append(name)
            else:
                return None
        return "/" + "/".join(done)

    def _entry(self, path: str) -> str | None:
        """`path` on disk with only its parent's links followed, for lstat and readlink."""
        if self.root == "/":
            return path
        parent = self.resolve(os.path.dirname(path.rstrip("/")) or "/")
        if parent is None:
            return None
        return self._join(os.path.join(parent, os.path.basename(path.rstrip("/"))))

    def read_bytes(self, path: str, size: int | None = None) -> bytes | None:
        """A regular file's content, or its first `size` bytes; None where there is none."""
        file = self.open(path)
        if file is None:
            return None
        limit = regular.LIMIT if size is None else size
        try:
            with file:
                data = regular.read(file.fileno(), limit)
        except OSError:
            return None
        if size is not None:
            return data[:size]
        return data if len(data) <= limit else None

    def read_own(self, user: tuple[str, int, int], path: str) -> tuple[str | None, str | None]:
        """(text, fault) of a file in the home of `user`, (name, uid, gid), as regular.read_own."""
        real = self._real(path)
        if real is None:
            return None, None
        # In a recorded tree the files belong to whoever looks.
        data, fault = regular.read_own(user if self.root == "/" else (user[0], 0, 0), real)
        return None if data is None else data.decode("utf-8", "replace"), fault

    def read(self, path: str) -> str | None:
        """A text file's content; None when it is absent or unreadable."""
        data = self.read_bytes(path)
        return None if data is None else data.decode("utf-8", "replace")

    def open(self, path: str) -> BinaryIO | None:
        """The regular file opened for reading bytes; None when it is absent or unreadable.

        Links that a user of the host made are not followed.
        """
        return _answer(lambda real: os.fdopen(regular.open_regular(real), "rb"), self._real(path))

    def stat(self, path: str) -> os.stat_result | None:
        """What stat(2) says of the path, links followed; None when it is absent or unreadable."""
        return _answer(os.stat, self._real(path))

    def lstat(self, path: str) -> os.stat_result | None:
        """What lstat(2) says of the path itself; None when it is absent or unreadable."""
        return _answer(os.lstat, self._entry(path))

    def is_roots(self, pid: int | str | None) -> bool:
        """Whether root started this process: anybody can choose a process's name and arguments.

        By its real user: /proc/PID is also root's where a program is not dumpable.
        """
        status = self.read("/proc/{0}/status".format(pid)) or ""
        return re.search(r"^Uid:\t0\t", status, re.M) is not None

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def isdir(self, path: str) -> bool:
        real = self._real(path)
        return real is not None and os.path.isdir(real)

    def readlink(self, path: str) -> str | None:
        entry = self._entry(path)
        try:
            return None if entry is None else os.readlink(entry)
        except OSError:
            return None

    def listdir(self, path: str, most: int | None = None) -> list[str]:
        """Names of a directory's entries, sorted; no more than `most`."""
        try:
            with os.scandir(self._real(path) or "") as entries:
                return sorted(entry.name for entry in itertools.islice(entries, most))
        except OSError:
            return []

    def glob(self, pattern: str) -> list[str]:
        """Paths that match, sorted; wildcards in any part but the first."""
        matches = ["/"]
        for part in pattern.split("/")[1:]:
            after: list[str] = []
            for directory in matches:
                if any(sign in part for sign in "*?["):
                    names = fnmatch.filter(self.listdir(directory), part)
                else:
                    names = [part]
                candidates = [os.path.join(directory, name) for name in names]
                after.extend(path for path in candidates if self.lstat(path) is not None)
            matches = after
        return sorted(matches)

    def disk_free(self, path: str) -> int | None:
        """Bytes a normal user may still write where `path` is or would be; None if unknown."""
        while path != "/" and not self.exists(path):
            path = os.path.dirname(path)
        real = self._real(path)
        try:
            info = None if real is None else os.statvfs(real)
        except OSError:
            return None
        return None if info is None else info.f_bavail * info.f_frsize

    # needed by more than one component, read once

    @property
    def packages(self) -> dict[str, Any]:
        if self._packages is None:
            self._packages = dpkg.packages(
                dpkg.status(self), self.platform.get("architecture", "x86_64")
            )
        return self._packages

    @property
    def loader(self) -> dict[str, str]:
        if self._loader is None:
            result = self.run(["/sbin/ldconfig", "-p"])
            self._loader = loader.parse(
                result.out if result.rc == 0 else "", self.platform.get("architecture", "x86_64")
            )
        return self._loader

    @property
    def apt_entries(self) -> list[dict[str, Any]]:
        if self._apt is None:
            self._apt = apt.apt_entries(self)
        return self._apt
