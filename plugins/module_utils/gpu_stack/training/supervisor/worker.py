"""The process of one worker: how it is started, watched and ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time

from . import verdicts

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Mapping

# Seconds between SIGTERM and SIGKILL.
GRACE = 5.0
# Bytes of a log that is kept as output.log.1 while another begins: two of them fill no disk.
LARGEST = 256 << 20


def variables(job: Mapping[str, Any], inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker: the unit's own, TF_CONFIG, and what the helper reads."""
    state = os.path.join(job["work"], ".job")
    given = {str(name): str(value) for name, value in job["environment"].items()}
    merged = {**inherited, **given}
    return {
        **merged,
        "TF_CONFIG": job["tf_config"],
        "PYTHONPATH": os.pathsep.join(
            filter(None, [os.path.join(state, "helper"), merged.get("PYTHONPATH")])
        ),
        "PYTHONUNBUFFERED": "1",
        "PROVISION_TRAINING": job["work"],
        "PROVISION_TRAINING_JOB": job["job"],
        "PROVISION_TRAINING_COMMUNICATION": job["communication"],
    }


class Worker:
    """The process of a try; `log` gets what it prints."""

    def __init__(self, job: Mapping[str, Any], log: str) -> None:
        self.job, self.log = job, log
        self.generation: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        # Said to have ended before it began, as where a supervisor was killed with it.
        self._lost: int | None = None

    def start(self, generation: int) -> None:
        """Begins a try. Raises OSError where its log can't be written, as on a full disk."""
        with open(self.log, "ab") as stream:
            stream.write("=== try {0}\n".format(generation + 1).encode())
            stream.flush()
            self.generation, self._lost, self._is_stopped = generation, None, False
            try:
                self._process = subprocess.Popen(
                    [self.job["python"], "-u", self.job["script"], *self.job["arguments"]],
                    cwd=self.job["work"],
                    env=variables(self.job, os.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    # Whatever it has started ends with it.
                    start_new_session=True,
                )
            except OSError as error:
                stream.write("{0}\n".format(error).encode())
                self._lost = 127 if isinstance(error, FileNotFoundError) else 126

    def lost(self, generation: int, code: int = 137) -> None:
        """The try was running when this worker's supervisor ended, and its process with it."""
        self.generation, self._lost = generation, code

    def code(self) -> int | None:
        """The exit code; None while it runs, and where it has not been started."""
        if self._lost is not None:
            return self._lost
        if self._process is None:
            return None
        status = self._process.poll()
        return None if status is None else verdicts.exit_code(status)

    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def trim(self) -> None:
        """Begins a new log where the old one has become large; the one before that goes.

        The worker writes on into the same file, which is emptied; a line may be lost meanwhile.
        """
        with contextlib.suppress(OSError):
            if os.path.getsize(self.log) <= LARGEST:
                return
            with contextlib.suppress(OSError):  # on a full disk it goes without a copy
                shutil.copyfile(self.log, self.log + ".1")
            os.truncate(self.log, 0)

    def stop(self) -> None:
        """Ends the process and all of its group: SIGTERM, then SIGKILL.

        Once: the number of a group that is gone may be another's later.
        """
        if self._process is None or self._is_stopped:
            return
        self._is_stopped = True
        for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
            deadline = time.monotonic() + patience
            _signal(self._process.pid, number)
            while self._process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
        # What it has left behind in its group.
        _signal(self._process.pid, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody is left
        os.killpg(group, number)
