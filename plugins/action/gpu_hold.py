"""Holds a host for this run: two runs at once on one host would install over each other.

A process that a task starts on a host ends with the task, or is left behind. So the lock is held by
a process of its own on the host (`module_utils/run_lock/`), started here over the connection's own
ssh, whose standard input is a pipe from the playbook's main process: it lives exactly as long as
the run, and no end of the run, kill -9 and power cuts included, can leave it behind. The report's
callback owns the other ends of its pipes, which it gets through a socket that this worker has
inherited. Without that callback, or over a connection without pipes, nothing is held and nothing
fails: the lock is a protection, not a requirement.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shlex
import socket
import stat
import subprocess
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from ansible import constants as C  # noqa: N812  as everywhere in Ansible
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

FILES = Path(__file__).resolve().parent.parent / "module_utils" / "run_lock"
MARK = "PROVISION-HOLD "
# The holder's name in ps, on the host.
NAME = "provision: holds this host"
# The host's Python reads the program from its standard input, where an unused sudo password may
# stand before it. Byte by byte: what follows is for the program.
BOOTSTRAP = (
    "import base64,sys,zlib;"
    "i=open(0,'rb',0,closefd=False);"
    "l=next(x for x in iter(i.readline,b'') if x.startswith(b'PROVISION-HOLD '));"
    "exec(compile(zlib.decompress(base64.b64decode(l[15:])),'hold.py','exec'))"
)
# Without pipelining Ansible avoids it by a terminal of ssh's, which can't carry the program.
NO_TERMINAL = (
    "sudo wants a terminal on this host (Defaults requiretty), so nothing could hold the host for "
    "this run, and another could begin beside it. Exempt the user who logs in: "
    "`Defaults:{user} !requiretty` in a file of /etc/sudoers.d. Nothing was changed"
)
# The look has opened the connection already; this is for a host under load.
ANSWER_SECONDS = 30.0
ENDING_SECONDS = 2.0
# The holder itself waits 900 s for what a run that was cut off is still finishing.
WAIT_SECONDS = 930.0


def program(request: dict[str, Any], places: dict[str, Any]) -> bytes:
    """The one line that BOOTSTRAP waits for: the program with its request."""
    future = "from __future__ import annotations\n"
    texts = [(FILES / name).read_text(encoding="utf-8") for name in ("watch.py", "hold.py")]
    # Python takes it at the top of a program alone.
    text = future + "".join(text.replace(future, "") for text in texts)
    text += f"\nmain({request!r}, watch=Watch(places={places!r}))\n"
    return MARK.encode() + base64.b64encode(zlib.compress(text.encode("utf-8"), 6)) + b"\n"


def who(content: dict[str, Any]) -> str:
    """ "alice on ctrl1 (pid 1234) since 2026-11-21 14:03 UTC" of a lock's content."""
    if not content.get("who"):
        return "somebody"
    return (
        f"{content['who']} on {content.get('host')} (pid {content.get('pid')}) "
        f"since {content.get('started')}"
    )


def busy(content: dict[str, Any]) -> str:
    """Why this host can't be worked on now, and what to do."""
    if content.get("ended"):
        return (
            f"a run of {who(content)} was cut off, and its last step still runs on this host: "
            f"{content.get('finishing')}. Wait until that has ended, then run again"
        )
    holder = content.get("holder")
    way = f"; if it is gone, `sudo kill {holder}` on the host ends its lock" if holder else ""
    return f"another run is at work on this host: {who(content)}. Wait until it has ended{way}"


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible has no types
    """Starts the holder, waits for its answer, hands its pipes to the callback."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        super().run(tmp, task_vars)
        channel = self._channel()
        if self._task.check_mode or channel is None:
            return {"changed": False, "held": False}
        command = self._command(task_vars or {})
        if command is None:
            return {"changed": False, "held": False}
        self._places = self._progress_places()
        return self._hold(command, channel, str((task_vars or {}).get("inventory_hostname")))

    def _progress_places(self) -> dict[str, Any]:
        """The paths whose growth is progress, and the archive's size, as plain JSON types."""
        places: dict[str, Any] = {
            name: "".join(str(path))
            for name, path in (self._task.args.get("watch") or {}).items()
            if path
        }
        archive = places.pop("cudnn_file", None)
        with contextlib.suppress(OSError):  # the role reports it where it matters
            places["archive"] = os.stat(archive).st_size if archive else None
        return places

    def _channel(self) -> int | None:
        """The callback's socket; None without the callback, or where it is not our parent's."""
        try:
            parent, handle = (int(part) for part in os.environ["PROVISION_HOLD"].split(":"))
            if parent == os.getppid() and stat.S_ISSOCK(os.fstat(handle).st_mode):
                return handle
        except (KeyError, ValueError, OSError):
            pass
        return None

    def _become(self) -> Any:
        """The become plugin; None where Ansible uses none either."""
        remote_user, become_user = self._get_remote_user(), self.get_become_option("become_user")
        same = become_user == remote_user and become_user and not C.BECOME_ALLOW_SAME_USER
        return None if same else self._connection.become

    def _command(self, task_vars: dict[str, Any]) -> list[Any] | None:
        """The local command line that starts the holder; None where this connection can't."""
        connection = self._connection
        become = self._become()
        if connection.transport not in ("ssh", "local"):
            return None
        if become is not None and become.name not in ("sudo", "doas", "dzdo", "pbrun"):
            return None
        if become is not None and become.name != "sudo" and become.get_option("become_pass"):
            return None
        command = shlex.join([self._interpreter(task_vars), "-IS", "-c", BOOTSTRAP, NAME])
        if become is not None:
            command = become.build_become_command(command, connection._shell)
        command = f"/bin/sh -c {shlex.quote(command)}"
        if connection.transport == "local":
            return ["/bin/sh", "-c", command]
        return self._ssh(command)

    def _ssh(self, command: str) -> list[Any]:
        """The connection's own ssh command; it never prompts, and ends when the network is down."""
        connection = self._connection
        executable = connection.get_option("ssh_executable")
        host = connection.get_option("host") or self._play_context.remote_addr
        argv = connection._build_command(executable, "ssh", host, command)
        # With a password sshpass stands in front, with a pipe that it alone could read. The
        # connection that the look opened still works and needs none.
        for handle in connection.sshpass_pipe or () if argv[0] == b"sshpass" else ():
            os.close(handle)
        connection.sshpass_pipe = None
        start = argv.index(os.fsencode(executable)) + 1
        settings = ("BatchMode=yes", "ServerAliveInterval=30", "ServerAliveCountMax=4")
        ours = [part for setting in settings for part in ("-o", setting)]
        return [argv[start - 1], *ours, *argv[start:]]

    def _interpreter(self, task_vars: dict[str, Any]) -> str:
        """The host's Python that the user chose, else the platform's."""
        value = task_vars.get("ansible_python_interpreter")
        try:
            chosen = str(self._templar.template(value)).strip() if value else ""
        except AnsibleError:
            chosen = ""
        return "/usr/bin/python3" if not chosen or chosen.startswith("auto") else chosen

    def _hold(self, command: list[Any], channel: int, name: str) -> dict[str, Any]:
        """Starts the holder and takes its answer; the task's result."""
        request = json.loads(os.environ.get("PROVISION_HOLD_REQUEST") or "{}")
        become = self._become()
        password = become.get_option("become_pass") if become is not None else None
        errors = tempfile.TemporaryFile()  # noqa: SIM115  the holder writes to it, after this task
        broken = None
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        try:
            # A session of its own: Ctrl-C reaches the run only, whose end closes the pipe.
            process = subprocess.Popen(
                command, stdin=theirs_in, stdout=theirs_out, stderr=errors, start_new_session=True
            )
        except OSError as error:
            return self._without(f"{os.fsdecode(command[0])}: {error.strerror}")
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        try:
            if password:
                os.write(ours_in, str(password).encode() + b"\n")
            os.write(ours_in, program(request, self._places))
            answer, rest = self._answer(ours_out)
            if "held" in answer:
                self._hand_over(channel, name, [ours_in, ours_out], rest)
                return {"changed": False, "held": True}
        except OSError as error:  # it has ended, and says why on its standard error
            answer, broken = {}, error.strerror
        finally:
            os.close(ours_in)
            os.close(ours_out)
        if "busy" in answer:
            content = answer["busy"]
            if content.get("run") == request.get("run"):
                return {"changed": False, "held": True}
            return {"failed": True, "msg": busy(content)}
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_SECONDS)  # until a refusal is written
        process.kill()
        process.wait()
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").strip().splitlines()
        if any("must have a tty" in line for line in lines):
            return {"failed": True, "msg": NO_TERMINAL.format(user=self._get_remote_user())}
        no_answer = broken or f"no answer (exit {process.poll()})"
        why = answer.get("failed") or (lines[-1] if lines else no_answer)
        return self._without(why)

    def _without(self, why: str) -> dict[str, Any]:
        """The result of a run that goes on without the lock, with a warning."""
        text = f"this host is not held for the run, and another may begin beside it: {why}"
        return {"changed": False, "held": False, "reason": why, "warnings": [text]}

    def _answer(self, handle: int) -> tuple[dict[str, Any], bytes]:
        """(the holder's answer, what it wrote after it); {} where none came in time."""
        deadline = time.monotonic() + ANSWER_SECONDS
        data = b""
        while True:
            line, newline, rest = data.partition(b"\n")
            if newline:
                data = rest
                text = line.decode("utf-8", "replace")
                if not text.startswith(MARK):  # a login banner, sudo's lecture
                    continue
                answer = json.loads(text[len(MARK) :])
                if "waiting" not in answer:
                    return answer, rest
                deadline = time.monotonic() + WAIT_SECONDS
                self._display.display(
                    f"{self._play_context.remote_addr}: waits for what a run that was cut off "
                    f"still finishes: {answer['waiting'].get('finishing')}"
                )
                continue
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                return {}, b""
            more = os.read(handle, 65536)
            if not more:
                return {}, b""
            data += more

    def _hand_over(self, channel: int, name: str, handles: list[int], rest: bytes) -> None:
        """Gives both pipes to the main process; they close when it ends."""
        message = json.dumps({"host": name, "rest": rest.decode("utf-8", "replace")}).encode()
        with socket.socket(fileno=os.dup(channel)) as here:
            socket.send_fds(here, [message], handles)
