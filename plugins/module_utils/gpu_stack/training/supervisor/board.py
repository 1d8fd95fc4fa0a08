"""The one authority over a job: which try of it runs, and how it ends.

The supervisor of worker 0 has the board. All supervisors tell it what their worker does, and do
what it answers. When a worker is lost, the others of a MultiWorkerMirroredStrategy can't go on: all
are stopped and begin the next try together, from what worker 0 has backed up.

Pure: no clock, no sockets, no files.
"""

from __future__ import annotations

from . import verdicts

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

# What the board answers the workers.
PREPARE, RUN, END = "prepare", "run", "end"
# Seconds. Until every supervisor has come at the start: Ansible starts them one after the other.
GATHER = 120.0
# Until all are ready again, or for the first time after they have come.
RETURN = 900.0
# Without a word a supervisor is lost.
LOST = 30.0
# After a first end that may have its cause in another's: TensorFlow 2.9 tells the others of a dead
# one with exit code 1, some at once, most when it has missed its heartbeats, which is after 40 s.
SETTLE = 3.0
# What a worker may still do when the training is complete: TensorFlow crashes after training, or
# hangs in its own ending (tensorflow#56684).
CLOSE = 60.0


class Board:
    """A job of these hosts, in the order of their workers.

    restarts: how many tries may follow the first. now: any clock that only goes forward.
    """

    def __init__(self, hosts: list[str], restarts: int, now: float) -> None:
        self.hosts = hosts
        self.limit = restarts
        self.generation = 0
        self.restarts = 0
        self.phase = PREPARE
        self.verdict = ""
        self.reason = ""
        # [{generation, worker, host, code, words}] of what led to each further try.
        self.history: list[dict[str, Any]] = []
        self.reports: dict[int, dict[str, Any]] = {}
        self.seen: dict[int, float] = {}
        # When each worker was first said to have ended in this try.
        self._ends: dict[int, float] = {}
        self._began = now
        self._has_run = False
        self._first_end: float | None = None
        self._complete: float | None = None

    def take_up(self, former: dict[str, Any]) -> None:
        """Goes on with a job whose board was lost with its supervisor, which counts as a try.

        Where the job had ended, that end stays.
        """
        self.generation, self.restarts = former["generation"], former["restarts"]
        self.history = list(former["history"])
        self._has_run = True
        if former.get("verdict"):
            self._end(former["verdict"], former["reason"])
            return
        self._again(self._began, [self._cause(0, 137, "its supervisor was killed")])

    def answer(self, worker: int, report: dict[str, Any], now: float) -> dict[str, Any]:
        """What the supervisor of a worker is to do, which has reported this."""
        self.reports[worker] = report
        self.seen[worker] = now
        if worker in self._ended():
            self._ends.setdefault(worker, now)
        self.tick(now)
        return {
            "do": self.phase,
            "generation": self.generation,
            "verdict": self.verdict,
            "reason": self.reason,
        }

    def stop(self, reason: str) -> None:
        """Somebody has asked for the end."""
        if self.phase != END:
            self._end(verdicts.STOPPED, reason)

    def fail(self, reason: str) -> None:
        """The board itself can't go on."""
        if self.phase != END:
            self._end(verdicts.FAILED, reason)

    def tick(self, now: float) -> None:
        """Decides what follows from the reports and from the time."""
        if self.phase == END:
            return
        asked = [w for w, report in sorted(self.reports.items()) if report.get("stop")]
        if asked:
            self.stop("asked for on {0}".format(self.hosts[asked[0]]))
        elif self.phase == PREPARE:
            self._gather(now)
        else:
            self._watch(now)

    def is_known_to_all(self) -> bool:
        """Whether every supervisor has said that it knows of the end."""
        return all(self.reports.get(w, {}).get("over") for w in range(len(self.hosts)))

    def _gather(self, now: float) -> None:
        missing = [
            worker
            for worker in range(len(self.hosts))
            if self.reports.get(worker, {}).get("ready") != self.generation
            or now - self.seen[worker] > LOST
        ]
        if not missing:
            self.phase, self._has_run = RUN, True
            self._first_end = self._complete = None
            self._ends = {}
            return
        # Whoever has come once may be copying a backup of gigabytes, or be away for a moment.
        have_all_come = self._has_run or len(self.reports) == len(self.hosts)
        if now - self._began > (RETURN if have_all_come else GATHER):
            self._end(verdicts.FAILED, self._why(missing))

    def _why(self, missing: list[int]) -> str:
        """Who is not ready, and what its supervisor says about that."""
        parts = []
        for worker in missing:
            trouble = self.reports.get(worker, {}).get("trouble")
            host = self.hosts[worker]
            parts.append("{0}: {1}".format(host, trouble) if trouble else "no word from " + host)
        return "; ".join(parts)

    def _watch(self, now: float) -> None:
        if self._mark() is not None:
            self._complete = now if self._complete is None else self._complete
            if len(self._ended()) == len(self.hosts) or now - self._complete > CLOSE:
                self._end(verdicts.COMPLETE, self._after_training())
            return
        ended = self._ended()
        if len(ended) == len(self.hosts) and not any(ended.values()):
            self._end(verdicts.ENDED, "every worker ended with 0, and none named a final model")
            return
        silent = [w for w in range(len(self.hosts)) if now - self.seen.get(w, now) > LOST]
        wrong = [w for w in sorted(ended) if ended[w]]
        if not wrong and not silent:
            return
        if self._first_end is None:
            self._first_end = now
        # A worker that is not heard any more may be the cause: wait until it counts as lost.
        heard = sum(w in ended or w in silent or self._spoke(w) for w in range(len(self.hosts)))
        is_known = silent or any(verdicts.is_tried_again(ended[worker]) for worker in wrong)
        if (
            not is_known
            and len(ended) + len(silent) < len(self.hosts)
            and (now - self._first_end < SETTLE or heard < len(self.hosts))
        ):
            return
        self._judge(now, ended, silent)

    def _spoke(self, worker: int) -> bool:
        """Whether the worker was heard some time after the first end."""
        return self._first_end is not None and self.seen[worker] > self._first_end

    def _judge(self, now: float, ended: dict[int, int], silent: list[int]) -> None:
        causes = [
            self._cause(worker, code, verdicts.words(code))
            for worker, code in sorted(ended.items())
            if verdicts.is_tried_again(code)
        ]
        causes += [self._cause(worker, None, "is silent") for worker in silent]
        if causes:
            self._again(now, causes)
            return
        # The others fail after the first, because of it.
        first = min(
            (worker for worker in ended if ended[worker]),
            key=lambda worker: (self._ends[worker], worker),
        )
        self._end(
            verdicts.FAILED,
            "worker {0} on {1} {2}".format(first, self.hosts[first], verdicts.words(ended[first])),
        )

    def _again(self, now: float, causes: list[dict[str, Any]]) -> None:
        self.history += causes
        if self.restarts >= self.limit:
            self._end(
                verdicts.FAILED,
                "worker {0} on {1} {2}, after {3} restarts, which is the limit".format(
                    causes[0]["worker"], causes[0]["host"], causes[0]["words"], self.restarts
                ),
            )
            return
        self.restarts += 1
        self.generation += 1
        self.phase, self._began = PREPARE, now

    def _cause(self, worker: int, code: int | None, text: str) -> dict[str, Any]:
        return {
            "generation": self.generation, "worker": worker, "host": self.hosts[worker],
            "code": code, "words": text,
        }  # fmt: skip

    def _ended(self) -> dict[int, int]:
        """{worker: exit code} of those that have ended in this try."""
        codes = {}
        for worker, report in self.reports.items():
            ended = report.get("ended")
            if ended and ended["generation"] == self.generation:
                codes[worker] = ended["code"]
            elif self.phase == RUN and report.get("ready") != self.generation:
                # All were ready: its supervisor was killed before it had written down more.
                codes[worker] = 137
        return codes

    def _mark(self) -> dict[str, Any] | None:
        mark: dict[str, Any] | None = self.reports.get(0, {}).get("mark")
        return mark

    def _after_training(self) -> str:
        """What was wrong after the training was complete; "" where nothing was."""
        odd = [
            "worker {0} {1}".format(worker, verdicts.words(code))
            for worker, code in sorted(self._ended().items())
            if code
        ]
        hung = len(self.hosts) - len(self._ended())
        if hung:
            odd.append("{0} of {1} workers had not ended".format(hung, len(self.hosts)))
        return "; ".join(odd) and "after the training was complete " + "; ".join(odd)

    def _end(self, verdict: str, reason: str) -> None:
        self.phase, self.verdict, self.reason = END, verdict, reason
