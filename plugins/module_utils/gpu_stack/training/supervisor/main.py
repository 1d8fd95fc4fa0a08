"""Keeps one worker of a training across hosts: starts it, tells how it ends, starts it again.

Started by systemd as the person whose job it is; argument: the worker's folder. Worker 0's also has
the board (board.py), by which all decide together.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import tarfile
import threading
import time

from . import backup, board, verdicts, wire, worker

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

# Seconds between two words with the board.
TURN = 0.3
# Until a supervisor that can't reach the board gives up: at the start, and later.
ALONE = {False: 150.0, True: board.RETURN}
# Until the board goes whose end not all know yet.
LINGER = 60.0
# Until the board's port is free that a former supervisor, or the look, has just left.
BIND = 20.0


def read(path: str) -> Any:
    """The content of a JSON file; None without one."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def write(path: str, content: Any) -> None:
    """Atomically: who watches sees the old or the new."""
    with open(path + ".new", "w", encoding="utf-8") as stream:
        json.dump(content, stream)
    os.replace(path + ".new", path)


def _newest(path: str) -> float:
    """When a file was written last, or what is in a folder; 0 where there is none."""
    times = [0.0]
    with contextlib.suppress(OSError):
        times.append(os.path.getmtime(path))
        if os.path.isdir(path):
            times += [os.path.getmtime(os.path.join(path, name)) for name in os.listdir(path)]
    return max(times)


def _bind(port: int | None) -> None:
    """Raises OSError where somebody listens on the port that the worker needs."""
    if port is None:
        return
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))


class Supervisor:
    """Of the worker whose folder this is."""

    def __init__(self, work: str) -> None:
        self.place = os.path.join(work, ".job")
        self.job: dict[str, Any] = dict(read(os.path.join(self.place, "job.json")), work=work)
        self.number: int = self.job["worker"]
        self.worker = worker.Worker(self.job, os.path.join(work, "output.log"))
        self.ready: int | None = None
        self.over = False
        # Whether systemd ends this supervisor, as where its host shuts down.
        self._is_terminated = False
        self.board: board.Board | None = None
        self._lock = threading.Lock()
        self._packed: int | None = None
        self._begun = False
        self._written: Any = None
        # What keeps this worker from being ready, in words.
        self.trouble = ""
        # When its try began.
        self._since: float | None = None

    def path(self, name: str) -> str:
        return os.path.join(self.place, name)

    def run(self) -> int:
        """Until the job ends; returns the supervisor's own exit code."""
        signal.signal(signal.SIGTERM, self._terminated)
        self._take_up(read(self.path("state.json")) or {})
        server = closed = None
        # A job of one host has nobody to tell.
        if self.number == 0 and len(self.job["hosts"]) > 1:
            try:
                server = self._listening()
                threading.Thread(target=server.serve_forever, daemon=True).start()
            except OSError as error:
                closed = self._closed(error)
        answer = closed or self._until_the_end()
        if answer is None:
            return self._leave(server)
        self.worker.stop()
        self.over = True
        self._note(answer)
        if closed is None:
            self._say_goodbye()
        if server is not None:
            server.shutdown()
        return 0

    def _listening(self) -> wire.Server:
        """The board's server. Raises OSError where its port stays another's."""
        deadline = time.monotonic() + BIND
        while True:
            try:
                return wire.Server(self.job["board"][1], self.job["secret"], self._reply)
            except OSError:
                if time.monotonic() > deadline or self._has_to_go():
                    raise
                time.sleep(TURN)

    def _closed(self, error: OSError) -> dict[str, Any]:
        """The end of a job whose board can't be reached: its port was taken after the look."""
        with self._lock:
            job_board = self._board()
            reason = "port {0} of {1}: {2}".format(
                self.job["board"][1], self.job["hosts"][0], error.strerror or error
            )
            job_board.fail(reason)
            return job_board.answer(0, self.report(), time.monotonic())

    def _terminated(self, _number: int, _frame: object) -> None:
        self._is_terminated = True

    def _has_to_go(self) -> bool:
        return self._is_terminated or self._is_asked_to_stop()

    def _leave(self, server: wire.Server | None) -> int:
        """Ends this worker, and not the job; returns SIGTERM's exit code.

        Systemd starts a supervisor anew that ends so, unless the unit is to stop. What was written
        down last says to that one that its worker was lost.
        """
        if server is not None:
            # No board that is about to go judges why the others' workers end.
            server.shutdown()
        running = self.worker.generation if self.worker.is_running() else None
        self.worker.stop()
        if running is not None:
            # Whatever the script makes of the signal.
            self.worker.lost(running, verdicts.TERMINATED)
        if self.board is None:
            with contextlib.suppress(wire.WireError):
                self._tell()
        return verdicts.TERMINATED

    def _take_up(self, former: dict[str, Any]) -> None:
        """Goes on where a supervisor was that has been killed."""
        running = former.get("running")
        if self.number == 0:
            self.board = board.Board(self.job["hosts"], self.job["restarts"], time.monotonic())
            old = former.get("board")
            if old:
                self.board.take_up(old)
            # What a try of the same number has packed may be older.
            self._packed = None
        elif running is not None:
            self.worker.lost(running)

    def _until_the_end(self) -> dict[str, Any] | None:
        """Does what the board says until that is the end; returns its last answer.

        None where systemd ends this supervisor, and nobody has asked the job to stop.
        """
        heard = time.monotonic()
        while self._is_asked_to_stop() or not self._is_terminated:
            try:
                answer = self._tell()
                heard = time.monotonic()
            except wire.WireError as error:
                if time.monotonic() - heard > ALONE[self._begun]:
                    return self._alone(str(error))
                if self._is_asked_to_stop():
                    return self._alone("asked to stop, and worker 0 does not answer")
                time.sleep(TURN)
                continue
            if answer["do"] == board.END:
                return answer
            if answer["do"] == board.PREPARE:
                if self._prepare(answer["generation"]):
                    continue  # the others wait for this word
            elif self.ready == answer["generation"] and self.worker.generation != self.ready:
                self._start(answer["generation"])
            self.worker.trim()
            self._note(answer)
            time.sleep(TURN)
        return None

    def _start(self, generation: int) -> None:
        try:
            self.worker.start(generation)
        except OSError as error:
            # Tried again with the next word.
            self.trouble = "its log can't be written: {0}".format(error.strerror)
            return
        self._begun, self._since, self.trouble = True, time.time(), ""
        if self.number == 0:
            # All have it. A second copy of a large model's backup is gigabytes.
            with self._lock:
                self._packed = None
            with contextlib.suppress(OSError):
                os.remove(self.path("backup.tar"))

    def _alone(self, why: str) -> dict[str, Any]:
        reason = "worker 0 on {0} is not heard: {1}".format(self.job["hosts"][0], why)
        return {"do": board.END, "generation": 0, "verdict": verdicts.FAILED, "reason": reason}

    def report(self) -> dict[str, Any]:
        """What the board hears of this worker."""
        code = self.worker.code()
        ended = None if code is None else {"generation": self.worker.generation, "code": code}
        return {
            "ready": self.ready,
            "running": self.worker.generation if self.worker.is_running() else None,
            "ended": ended,
            "pid": self.worker.pid() if self.worker.is_running() else None,
            "progress": read(self.path("progress.json")),
            "mark": self._mark() if self.number == 0 else None,
            "stop": self._is_asked_to_stop(),
            "over": self.over,
            "since": self._since,
            "trouble": self.trouble,
        }

    def _is_asked_to_stop(self) -> bool:
        return os.path.exists(self.path("stop"))

    def _mark(self) -> dict[str, Any] | None:
        """What says that the training is complete: the helper's mark, or the file that was named.

        A mark counts with the model that it names. A file does when the worker has ended that
        writes it, and was not killed: it may be half of one.
        """
        mark = read(self.path("complete.json"))
        if isinstance(mark, dict) and os.path.exists(str(mark.get("model"))):
            return mark
        final = self.job.get("final")
        path = os.path.join(self.job["work"], final) if final else ""
        code = self.worker.code()
        is_over = code is not None and not verdicts.is_tried_again(code)
        # One of a former job of this name says nothing about this one.
        if final and is_over and _newest(path) >= _newest(self.path("job.json")):
            return {"model": path}
        return None

    def _tell(self) -> dict[str, Any]:
        """The board's answer to this worker's report. Raises wire.WireError."""
        report = self.report()
        if self.board is not None:
            with self._lock:
                return self.board.answer(self.number, report, time.monotonic())
        question = {"worker": self.number, "report": report}
        address = (self.job["board"][0], self.job["board"][1])
        answer: dict[str, Any] = wire.ask(address, self.job["secret"], question)
        return answer

    def _reply(self, question: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
        """The answer to another supervisor, and the file that it asks for."""
        with self._lock:
            if "backup" in question:
                if self._packed != question["backup"] or self.ready != self._packed:
                    return {"wait": True}, os.devnull
                return {"wait": False}, self.path("backup.tar")
            answer = self._board().answer(question["worker"], question["report"], time.monotonic())
            return answer, None

    def _board(self) -> board.Board:
        """Worker 0's."""
        if self.board is None:
            raise RuntimeError("only worker 0 has the board")
        return self.board

    def _prepare(self, generation: int) -> bool:
        """Ends the worker of the former try, and takes what worker 0 has backed up.

        Whether the worker has become ready by it.
        """
        if self.ready == generation:
            return False
        self.worker.stop()
        port = (self.job.get("ports") or [None])[0]
        try:
            _bind(port)
        except OSError as error:
            # TensorFlow's own words for it would look like a fault of the script.
            self.trouble = "port {0}: {1}".format(port, error.strerror)
            return False
        archive = self.path("backup.tar")
        try:
            if self.number == 0:
                if len(self.job["hosts"]) > 1:
                    backup.pack(self.job["work"], archive)
                with self._lock:
                    self._packed = self.ready = generation
                self.trouble = ""
                return True
            address = (self.job["board"][0], self.job["board"][1])
            question = {"backup": generation}
            if wire.ask(address, self.job["secret"], question, target=archive)["wait"]:
                return False
            backup.unpack(archive, self.job["work"])
            os.remove(archive)
            self.ready, self.trouble = generation, ""
        except (wire.WireError, OSError, tarfile.TarError) as error:
            # Tried again: the board ends a job for which this lasts.
            self.trouble = "the backup did not come: {0}".format(error)
            return False
        return True

    def _note(self, answer: dict[str, Any]) -> None:
        """Writes down what a person who comes back, or the next supervisor, must know."""
        state = {
            "worker": self.number, "answer": answer, **self.report(),
            "board": self._board_state() if self.board is not None else None,
        }  # fmt: skip
        if state != self._written:
            # A full disk is no reason for a supervisor to end: the worker may still train.
            with contextlib.suppress(OSError):
                write(self.path("state.json"), dict(state, written=time.time()))
                self._written = state

    def _board_state(self) -> dict[str, Any]:
        with self._lock:
            job_board = self._board()
            return {
                "generation": job_board.generation, "restarts": job_board.restarts,
                "history": job_board.history,
                "verdict": job_board.verdict, "reason": job_board.reason,
                "workers": [job_board.reports.get(n) for n in range(len(job_board.hosts))],
            }  # fmt: skip

    def _say_goodbye(self) -> None:
        """The board stays until all know of the end; the others say once that they do."""
        deadline = time.monotonic() + LINGER
        while time.monotonic() < deadline:
            try:
                answer = self._tell()
                self._note(answer)
            except wire.WireError:
                return
            if self.board is None or self.board.is_known_to_all():
                return
            time.sleep(TURN)


def main() -> int:
    return Supervisor(os.path.abspath(sys.argv[1])).run()


if __name__ == "__main__":
    sys.exit(main())
