"""The board of a training: when all workers begin, begin again, and how a job ends."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.training.supervisor import board, verdicts

HOSTS = ["gpu01", "gpu02", "gpu03"]


class Play:
    """A board whose workers say what a test says, at a time that the test sets."""

    def __init__(self, restarts: int = 10) -> None:
        self.now = 100.0
        self.board = board.Board(HOSTS, restarts, self.now)
        self.reports: list[dict[str, Any]] = [{} for _host in HOSTS]

    def say(self, worker: int, **report: Any) -> dict[str, Any]:
        self.reports[worker].update(report)
        return self.board.answer(worker, dict(self.reports[worker]), self.now)

    def all_say(self, **report: Any) -> dict[str, Any]:
        for worker in range(len(HOSTS)):
            answer = self.say(worker, **report)
        return answer

    def end(self, worker: int, code: int) -> dict[str, Any]:
        ended = {"generation": self.board.generation, "code": code}
        return self.say(worker, running=None, ended=ended)

    def later(self, seconds: float, *silent: int) -> dict[str, Any]:
        """All but some are heard again after some time."""
        answer: dict[str, Any] = {}
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 1)
            for worker in range(len(HOSTS)):
                if worker not in silent:
                    answer = self.say(worker)
        return answer


@pytest.fixture
def play() -> Play:
    """All three workers run their first try."""
    made = Play()
    assert made.all_say(ready=0)["do"] == board.RUN
    made.all_say(running=0)
    return made


def test_nobody_begins_before_all_are_ready() -> None:
    play = Play()
    assert play.say(0, ready=0)["do"] == board.PREPARE
    assert play.say(1, ready=0)["do"] == board.PREPARE
    assert play.say(2, ready=0)["do"] == board.RUN


def test_who_does_not_come_ends_the_job_with_its_name() -> None:
    play = Play()
    play.say(0, ready=0)
    play.say(2, ready=0)
    answer = play.later(board.GATHER + 1, 1)
    assert (answer["verdict"], answer["reason"]) == ("failed", "no word from gpu02")


def test_who_has_come_may_take_long_to_copy_the_backup() -> None:
    """It says nothing meanwhile, and a former job of this name has left gigabytes."""
    play = Play()
    play.say(0, ready=0)
    play.all_say()
    play.say(2, ready=0)
    assert play.later(board.GATHER * 3, 1)["do"] == board.PREPARE
    assert play.say(1, ready=0)["do"] == board.RUN


def test_who_can_not_get_ready_says_why() -> None:
    """A disk that is full, say: it is heard, and never comes."""
    play = Play()
    play.all_say()
    play.say(0, ready=0)
    play.say(1, trouble="the backup did not come: No space left on device")
    answer = play.later(board.RETURN + 1)
    assert answer["reason"] == (
        "gpu02: the backup did not come: No space left on device; no word from gpu03"
    )


@pytest.mark.parametrize("code", [130, 137, 138, 143])
@pytest.mark.parametrize("worker", [0, 1, 2])
def test_a_killed_worker_begins_again_with_all(play: Play, worker: int, code: int) -> None:
    answer = play.end(worker, code)
    assert (answer["do"], answer["generation"]) == (board.PREPARE, 1)
    assert play.all_say(ready=1, running=None)["do"] == board.RUN
    assert [cause["worker"] for cause in play.board.history] == [worker]


@pytest.mark.parametrize("code", [1, 2, 3, 126, 127, 128, 134, 139])
def test_a_worker_that_fails_by_itself_ends_the_job(play: Play, code: int) -> None:
    assert play.end(1, code)["do"] == board.RUN
    answer = play.later(board.SETTLE + 0.1)
    assert answer["do"] == board.END
    assert answer["verdict"] == "failed"
    assert answer["reason"].startswith(f"worker 1 on gpu02 ended with {code}")


def test_those_that_fail_because_of_a_killed_one_are_not_the_cause(play: Play) -> None:
    """TensorFlow's other workers end with 1 before the supervisor of the killed one is heard."""
    play.end(0, 1)
    play.now += 1
    play.end(1, 1)
    play.now += 1
    assert play.end(2, 137)["do"] == board.PREPARE


def test_the_first_that_fails_is_named(play: Play) -> None:
    play.end(2, 1)
    play.now += 0.5
    play.end(0, 1)
    play.now += 0.1
    answer = play.end(1, 134)
    assert answer["reason"] == "worker 2 on gpu03 ended with 1 (the script failed)"


def test_a_host_that_is_silent_is_waited_for_before_others_are_blamed(play: Play) -> None:
    play.end(0, 1)
    play.end(1, 1)
    assert play.later(board.SETTLE + 1, 2)["do"] == board.RUN
    play.later(board.LOST - 5, 2)
    answer = play.later(5, 2)
    assert (answer["do"], answer["generation"]) == (board.PREPARE, 1)
    assert play.board.history[0]["words"] == "is silent"
    # It comes back, as where the network was away.
    assert play.all_say(ready=1)["do"] == board.RUN


def test_a_host_that_stays_away_ends_the_job(play: Play) -> None:
    play.later(board.LOST + 1, 2)
    play.say(0, ready=1)
    play.say(1, ready=1)
    answer = play.later(board.RETURN + 1, 2)
    assert (answer["verdict"], answer["reason"]) == ("failed", "no word from gpu03")


def test_restarts_have_a_limit() -> None:
    play = Play(restarts=1)
    play.all_say(ready=0)
    play.end(1, 137)
    play.all_say(ready=1, ended=None)
    answer = play.end(2, 137)
    assert answer["verdict"] == "failed"
    assert answer["reason"] == (
        "worker 2 on gpu03 ended with 137 (SIGKILL), after 1 restarts, which is the limit"
    )


def test_the_mark_and_not_the_exit_codes_says_that_it_is_complete(play: Play) -> None:
    """TensorFlow crashes after training (tensorflow#56684)."""
    play.say(0, mark={"model": "final"})
    play.end(0, 139)
    play.end(1, 134)
    answer = play.end(2, 0)
    assert answer["verdict"] == "complete"
    assert "worker 0 ended with 139 (it crashed (SIGSEGV))" in answer["reason"]


def test_who_hangs_after_the_training_is_not_waited_for_for_ever(play: Play) -> None:
    play.say(0, mark={"model": "final"})
    play.end(0, 0)
    play.end(1, 0)
    assert play.later(1)["do"] == board.RUN
    answer = play.later(board.CLOSE + 1)
    assert answer["verdict"] == "complete"
    assert "1 of 3 workers had not ended" in answer["reason"]


def test_a_kill_after_the_mark_begins_nothing_again(play: Play) -> None:
    play.say(0, mark={"model": "final"})
    play.end(1, 137)
    play.end(0, 0)
    assert play.end(2, 0)["verdict"] == "complete"


def test_zero_without_a_mark_is_no_completion(play: Play) -> None:
    play.end(0, 0)
    play.end(1, 0)
    assert play.end(2, 0)["verdict"] == "ended"


def test_one_that_is_done_before_the_others_ends_nothing(play: Play) -> None:
    play.end(1, 0)
    assert play.later(1000)["do"] == board.RUN


def test_a_stop_on_any_host_stops_all(play: Play) -> None:
    answer = play.say(1, stop=True)
    assert (answer["do"], answer["verdict"]) == (board.END, "stopped")
    assert answer["reason"] == "asked for on gpu02"
    assert play.say(2)["do"] == board.END
    assert not play.board.is_known_to_all()
    play.all_say(over=True)
    assert play.board.is_known_to_all()


def test_an_end_stays_one(play: Play) -> None:
    play.say(1, stop=True)
    assert play.end(0, 137)["verdict"] == "stopped"
    play.board.stop("again")
    play.board.fail("its port is taken")
    assert play.board.reason == "asked for on gpu02"


def test_a_board_that_was_killed_goes_on_with_the_next_try() -> None:
    play = Play(restarts=5)
    play.board.take_up({"generation": 3, "restarts": 2, "history": [{"worker": 1}]})
    assert (play.board.generation, play.board.restarts) == (4, 3)
    assert [cause.get("code") for cause in play.board.history] == [None, 137]
    assert play.all_say(ready=4)["do"] == board.RUN


def test_a_worker_whose_supervisor_has_forgotten_its_try_is_lost(play: Play) -> None:
    """It was killed before it had written down that the worker runs."""
    answer = play.say(1, ready=None, running=None)
    assert (answer["do"], answer["generation"]) == (board.PREPARE, 1)
    assert [(cause["worker"], cause["code"]) for cause in play.board.history] == [(1, 137)]


def test_ends_of_a_former_try_do_not_count(play: Play) -> None:
    play.end(1, 137)
    assert play.board.generation == 1
    answer = play.all_say(ready=1)
    assert answer["do"] == board.RUN  # worker 1 still tells of its end in try 0
    assert play.later(board.SETTLE + 1)["do"] == board.RUN


@pytest.mark.parametrize(
    ("status", "code"), [(0, 0), (1, 1), (-9, 137), (-15, 143), (-2, 130), (-11, 139)]
)
def test_a_signal_is_an_exit_code_as_a_shell_has_it(status: int, code: int) -> None:
    assert verdicts.exit_code(status) == code


def test_what_is_tried_again_is_what_the_issue_says() -> None:
    again = {code for code in range(256) if verdicts.is_tried_again(code)}
    assert again == {130, 137, 138, 143}
    assert not again & set(verdicts.NEVER)
    assert verdicts.words(3) == "ended with 3"
