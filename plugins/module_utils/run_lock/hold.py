"""Holds a host for one run, and first ends the last step of a run that was cut off.

Two runs on one host would install over each other, and the mark of an unfinished run does not show
whether that run is at work or has died. A lock does: the kernel releases it when the process that
holds it ends. This is that process. `gpu_hold` starts it over the run's own connection, with a pipe
from the run as its standard input: however the run ends, kill -9 included, the pipe closes and the
lock is released. If the network or the controller fails, the pipe stays open; so the run sends a
line every few seconds, and a holder that has had none for a while says so in the file, and the next
run may take its place.

A run that is cut off leaves its last step behind, an apt-get or a pip that nobody waits for any
more; a second run would remove the venv that this pip still fills. So that step is ended first. It
is found by PROVISION_RUN, which only the playbook sets in the environment of its tasks. Background
jobs of roles (PROVISION_JOB) are ended with every run: nobody collects them after a failed one.

dpkg is never ended: the lock is held until it is done, and the next run waits. Only processes of
root count as steps, and only root's /usr/bin/dpkg as dpkg: anybody can choose a process's name and
environment. Only root can open the lock file, for who can open it can lock it.

Runs on the host with its own Python (3.7 or newer), standard library only, and is also imported by
tests. Standard input: the line "done" at the run's end, any other as a sign of life. Output: lines
of MARK and one JSON object: {"waiting": content of the lock}, then one of {"held": pid}, {"busy":
content}, {"failed": why}; while it holds, {"progress": what watch.py sees}, and at the end
{"finishing": what it still waits for}.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import select
import signal
import time

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable


PATH = "/var/lib/provision/run.lock"
MARK = "PROVISION-HOLD "
# In the argument list of this process: for ps, and for a holder that takes its place.
NAME = "holds this host"
# A look holds the lock for an instant while it tests it; that refuses no run.
INSTANT = 2.0
# Longer than between two signs of life: a run may be dead then, and a look waits until it knows.
QUIET = 8.0
# As long as apt waits for its own lock in the roles.
PATIENCE = 900.0
# The run gives a sign of life every five seconds. After this long without one it counts as dead: a
# controller without power, a network that was cut, a laptop that was closed.
SILENCE = 20.0
TICK = 1.0
# pip and downloads end at once on SIGTERM; this is for a slow disk.
GOODBYE = 5.0
# Of the lock file, in bytes: more than is ever written.
SIZE = 2048
# If it is interrupted, packages stay half-unpacked.
NOT_TO_BE_ENDED = ("dpkg",)
# Its real path: other programs of that name do not count.
PLACES = ("/usr/bin", "/bin")


def read(path: str) -> dict[str, Any]:
    """The lock file's content about its holder; {} without any. Only the lock itself is proof.

    A read during a write may mix two contents, so it is repeated until two reads are equal.
    """
    before = None
    data = b""
    try:
        for _turn in range(10):
            with open(path, "rb") as stream:
                data = stream.read(4096)
            if data == before:
                break
            before = data
        content = json.loads(data.decode("utf-8", "replace"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write(handle: int, content: dict[str, Any]) -> None:
    """Writes the content into the locked file, in place: the lock belongs to this inode."""
    data = json.dumps(content, sort_keys=True).encode("utf-8")
    # Overwritten in one call: a reader must never find an empty file.
    os.pwrite(handle, data.ljust(SIZE - 1) + b"\n", 0)


def open_lock(path: str) -> int:
    """A handle of the lock file, which is created if missing; only its owner can open it."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.makedirs(directory, 0o755)
        os.chmod(directory, 0o755)  # noqa: S103  whatever the umask
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    info = os.fstat(handle)
    if info.st_uid != os.geteuid() or info.st_mode & 0o077:
        # Of an earlier version: any user may have it open and locked. One that a run holds stays.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino == info.st_ino and not is_holder(read(path).get("holder")):
                os.unlink(path)
                os.close(handle)
                handle = os.open(path, flags | os.O_EXCL, 0o600)
    return handle


def try_lock(path: str) -> int | None:
    """A handle that holds the lock, or None where another process does."""
    handle = open_lock(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been removed and created again meanwhile.
        if os.fstat(handle).st_ino == os.stat(path).st_ino:
            return handle
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES, errno.ENOENT):
            os.close(handle)
            raise
    os.close(handle)
    return None


def ended(seconds: float) -> bytes | None:
    """Reads standard input for at most `seconds`: its data, b"" at its end, None for nothing."""
    ready, _writable, _failed = select.select([0], [], [], seconds)
    if not ready:
        return None
    try:
        return os.read(0, 4096)
    except OSError:
        return b""


class Steps(object):
    """Processes on this host that the tasks of one run have started.

    Found by the run's mark in a process's environment, or by its parent: root without ptrace, as
    in a container, may not read the environment of an apt-get, which has changed its user. Once
    found, a process is remembered by its pid and start time, whatever its parent is then.
    """

    def __init__(self, run: str, proc: str = "/proc", word: str = "PROVISION_RUN") -> None:
        self._mark = "{0}={1}".format(word, run).encode("utf-8")
        self._proc = proc
        self._known: set[tuple[str, str]] = set()
        self._asked: set[int] = set()

    def left(self) -> list[tuple[int, str]]:
        """[(pid, name)] of those that run now, without this process."""
        processes = {}
        for name in os.listdir(self._proc):
            if name.isdigit() and int(name) != os.getpid():
                process = self._read(name)
                if process is not None:
                    processes[int(name)] = process
        ours = {
            pid
            for pid, process in processes.items()
            if process["marked"] or process["id"] in self._known
        }
        more = ours
        while more:
            more = {pid for pid, process in processes.items() if process["parent"] in more} - ours
            ours = ours | more
        self._known = {processes[pid]["id"] for pid in ours}
        return [(pid, processes[pid]["name"]) for pid in sorted(ours)]

    def _read(self, pid: str) -> dict[str, Any] | None:
        place = os.path.join(self._proc, pid)
        try:
            with open(os.path.join(place, "stat"), "rb") as stream:
                text = stream.read().decode("utf-8", "replace")
        except OSError:  # it has ended meanwhile
            return None
        # "12 (a name) S 1 ...": the name may hold anything, and ends with the last bracket.
        name = text[text.index("(") + 1 : text.rindex(")")]
        state, parent, *fields = text[text.rindex(")") + 2 :].split()
        if state == "Z":
            return None
        # Another user's is no step of a run, whatever its environment says; reading that could
        # block for ever, for the user chooses what memory it is in.
        own = _uid(place) == os.getuid()
        marked = False
        path = os.path.join(place, "environ")
        with contextlib.suppress(OSError):
            if own:
                with open(path, "rb") as stream:
                    marked = self._mark in stream.read().split(b"\0")
        if name in NOT_TO_BE_ENDED and not (own and _is_program(place, name)):
            name += " by name only"
        return {"name": name, "parent": int(parent), "id": (pid, fields[17]), "marked": marked}

    def end(self, seconds: float) -> list[tuple[int, str]]:
        """Sends them SIGTERM; those that still run after `seconds`.

        None is ended while dpkg is among them: the others wait for dpkg.
        """
        deadline = time.monotonic() + seconds
        while True:
            left = self.left()
            if not any(name in NOT_TO_BE_ENDED for _pid, name in left):
                for pid, _name in left:
                    if pid not in self._asked:
                        self._asked.add(pid)
                        with contextlib.suppress(OSError):  # already ended
                            os.kill(pid, signal.SIGTERM)
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)


def _uid(place: str) -> int | None:
    """The real user of a process; None of one that has ended. /proc/PID itself may be root's."""
    try:
        with open(os.path.join(place, "status"), "rb") as stream:
            for line in stream:
                if line.startswith(b"Uid:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return None


def _is_program(place: str, name: str) -> bool:
    """Whether this process is the system's program of that name; True if unknown."""
    try:
        program = os.readlink(os.path.join(place, "exe"))
    except OSError:
        return True
    directory, _slash, file = program.rpartition("/")
    # During its own upgrade: "dpkg.dpkg-tmp", "dpkg (deleted)".
    return directory in PLACES and re.split(r"[. ]", file)[0] == name


class Output(object):
    """Writes lines to the controller; never blocks: lines that nobody reads are dropped."""

    def __init__(self) -> None:
        os.set_blocking(1, False)

    def say(self, **message: Any) -> None:
        text = MARK + json.dumps(message, sort_keys=True) + "\n"
        # The end of standard input shows that the controller is gone.
        with contextlib.suppress(OSError):
            os.write(1, text.encode("utf-8"))


def is_holder(pid: Any, proc: str = "/proc") -> bool:
    """Whether this process is a holder: a pid from a file may be another process's by now."""
    place = os.path.join(proc, str(pid))
    try:
        if _uid(place) != os.getuid():
            return False
        with open(os.path.join(place, "cmdline"), "rb") as stream:
            return NAME.encode("utf-8") in stream.read()
    except OSError:
        return False


def take(request: dict[str, Any], output: Output, path: str) -> int | None:
    """A handle that holds the lock, once no step of the previous run is left.

    None if another run has it, or this run has ended meanwhile.
    """
    start = time.monotonic()
    reported = None
    handle = None
    steps = None
    while True:
        if handle is None:
            handle = try_lock(path)
        before = read(path)
        if handle is not None:
            # A content is left by a run that did not finish.
            if before.get("run") in (None, request.get("run")):
                return handle
            steps = steps or Steps(before["run"])
            left = steps.end(TICK)
            if not left:
                return handle
            before = dict(before, ended=True, finishing=names(left))
        elif before.get("silent") and is_holder(before.get("holder")):
            os.kill(before["holder"], signal.SIGTERM)
        waited = time.monotonic() - start
        if waited > (PATIENCE if before.get("ended") else INSTANT):
            output.say(busy=before)
            return None
        if before.get("ended") and reported != before:
            reported = before
            output.say(waiting=before)
        if ended(0.05 if waited < INSTANT else 0.5) == b"":
            return None


def names(processes: list[tuple[int, str]]) -> str:
    """ "dpkg (pid 12)", or all of them where dpkg is not among them."""
    waited_for = [process for process in processes if process[1] in NOT_TO_BE_ENDED] or processes
    return ", ".join("{0} (pid {1})".format(name, pid) for pid, name in waited_for[:3])


def into_background() -> None:
    """Detaches from the connection: nobody waits for the rest."""
    if os.fork():
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def cut_off(handle: int, content: dict[str, Any], output: Output) -> None:
    """After a run that was cut off: ends its last step, and holds the host until that is done."""
    steps = Steps(content["run"])
    left = steps.end(0)
    if left:
        # First of all: a look must not read now that the run is at work.
        write(handle, dict(content, ended=True, finishing=names(left)))
        left = steps.end(GOODBYE)
    if left:
        output.say(finishing=names(left))
        into_background()
    while left:
        write(handle, dict(content, ended=True, finishing=names(left), holder=os.getpid()))
        left = steps.end(TICK)


def hold(
    handle: int,
    request: dict[str, Any],
    output: Output,
    watch: Callable[[], dict[str, Any] | None] | None = None,
) -> None:
    """Holds the lock until the run ends. `watch()` returns progress to report, or None."""
    content: dict[str, Any] = {
        key: request.get(key) for key in ("run", "who", "host", "pid", "started")
    }
    content["holder"] = os.getpid()
    write(handle, content)
    output.say(held=os.getpid())
    heard = time.monotonic()
    doubt: dict[str, Any] = {}
    while True:
        words = ended(TICK)
        if words == b"":
            cut_off(handle, content, output)
            break
        if words is not None:
            if b"done" in words:
                Steps(content["run"], word="PROVISION_JOB").end(GOODBYE)
                break
            heard = time.monotonic()
        since = time.monotonic() - heard
        state = {"silent": True} if since > SILENCE else {"quiet": True} if since > QUIET else {}
        if doubt != state:
            doubt = state
            write(handle, dict(content, **doubt))
        try:
            progress = watch() if watch is not None else None
        except Exception:  # progress is only shown, and no reason to release the host
            watch = progress = None
        if progress is not None:
            output.say(progress=progress)
    # No step of this run is left, so the next run need not search for any.
    os.ftruncate(handle, 0)


def main(
    request: dict[str, Any],
    path: str = PATH,
    watch: Callable[[], dict[str, Any] | None] | None = None,
) -> None:
    """Takes the lock and holds it; the result is in the output, not the exit code."""
    output = Output()
    try:
        handle = take(request, output, path)
    except OSError as error:
        output.say(failed="{0}: {1}".format(path, error.strerror))
        return
    if handle is not None:
        hold(handle, request, output, watch)
