"""Parts 2 and 3 of an acceptance: what TensorFlow does on each GPU of the host.

It loads the cards, so it is asked for. A card on which somebody works is left alone, and named.
Without a real GPU the same programs run on logical CPU devices, one for each simulated GPU.
"""

from __future__ import annotations

import os
import threading

from ..type_checking import TYPE_CHECKING
from . import levels, words
from .checks import computing, names, training

if TYPE_CHECKING:
    from typing import Any, Callable

    from .runner import Runner

    Taken = Callable[[str], "str | None"]

GPU, CPU = "GPU", "CPU"
# {program: seconds that it may take}. TensorFlow's first start from a cold disk takes a minute; a
# card that TensorFlow has no code for compiles it for several.
ON_EACH = {
    "product": 300,
    "pattern": 300,
    "xla": 300,
    "convolution": 300,
    "pipeline": 300,
    "dense": 300,
    "resnet": 600,
}
# Of real cards alone: what NVML and CUDA say of them.
BY_UUID, BY_INDEX = "by_uuid", "by_index"
ON_EACH_REAL = {"growth": 300, BY_UUID: 300, BY_INDEX: 300}
MIRRORED, DENSE = "mirrored", "dense"
ON_ALL = {"copies": 600, MIRRORED: 300, "resnet": 600, "checkpoints": 300, "export": 300}
# For several cards alone.
OF_SEVERAL = ("resnet",)
BURN = "burn"
# What the burn-in takes besides its own time.
BURN_MORE = 300
LISTED = "listed"
LISTED_PATIENCE = 300
# No card: TensorFlow counts none.
NONE = "-1"


def kind(facts: dict[str, Any]) -> str | None:
    """What there is to compute on: GPUs, or logical CPU devices for simulated ones."""
    if not facts["nvml"]["gpus"]:
        return None
    return CPU if facts["simulated"] else GPU


def in_the_way(gpu: dict[str, Any]) -> str | None:
    """Why a card is not loaded; None where it may be."""
    if gpu["error"]:
        return "the card does not answer"
    if gpu["processes"] is None:
        return "the driver does not say who uses it"
    users = [entry.get("user") for entry in gpu["processes"] if entry["kind"] == "compute"]
    if users:
        return words.in_use(users)
    if (gpu["mig"] or {}).get("mode"):
        return "MIG is on"
    if gpu["compute_mode"] == "prohibited":
        return "its compute mode lets no program compute"
    return None


def nobody(uuid: str) -> str | None:  # noqa: ARG001
    """For `taken` where nobody can be there."""
    return None


def look(
    facts: dict[str, Any], level: str, runner: Runner, minutes: float = 0, taken: Taken = nobody
) -> dict[str, Any]:
    """{level, kind, missing, skipped, order, host, cards}: what TensorFlow did on a host's cards.

    facts: machine.look's. minutes: how long the burn-in of the level long takes. taken(uuid): who
    computes on a card now, as machine.taken says.

    missing: why nothing could be asked, or None. skipped: {index: why} of the cards that were left
    alone. order: the indexes of the others. host: {program: answer}; cards: {index: {program:
    answer}}, an answer as Runner.ask returns it, with `first`, the one before, where a suspect was
    asked again. Of the host's programs an answer has the `order` of their devices. Indexes are
    text, as in JSON.
    """
    gpus = facts["nvml"]["gpus"]
    skipped = {str(gpu["index"]): in_the_way(gpu) for gpu in gpus if in_the_way(gpu)}
    free = [gpu for gpu in gpus if str(gpu["index"]) not in skipped]
    what = kind(facts)
    work: dict[str, Any] = {
        "level": level, "kind": what, "missing": None, "skipped": skipped,
        "order": [str(gpu["index"]) for gpu in free],
        "host": {}, "cards": {str(gpu["index"]): {} for gpu in free},
    }  # fmt: skip
    if what is None or not free:
        return work
    if not os.path.exists(runner.python):
        work["missing"] = "there is no TensorFlow: {0} does not exist".format(runner.python)
        return work
    try:
        with runner:
            Work(work, free, runner, taken).do(60 * minutes)
    except OSError as error:  # a full disk, a folder that root may not write
        work["missing"] = "no program could be started: {0}".format(error)
    return work


def programs(what: str) -> tuple[str, ...]:
    """The programs that every card is asked."""
    return (*ON_EACH, *ON_EACH_REAL) if what == GPU else tuple(ON_EACH)


class Work:
    """The programs of one acceptance on the cards of a host that are free; fills in `answers`.

    Somebody may begin to work on a card at any time: before each program it is asked who is there.
    """

    def __init__(
        self, answers: dict[str, Any], gpus: list[dict[str, Any]], runner: Runner, taken: Taken
    ) -> None:
        self._answers = answers
        self._gpus = gpus
        self._what = answers["kind"]
        self._runner = runner
        self._taken = taken

    def do(self, seconds: float) -> None:
        """Everything of the level; the burn-in for so many seconds."""
        self._on_all(LISTED, LISTED_PATIENCE)
        self._on_each(self._on_one)
        self._again()
        for program, patience in ON_ALL.items():
            if len(self._gpus) > 1 or program not in OF_SEVERAL:
                self._on_all(program, patience)
        self._mirrored_again()
        if self._what == GPU:
            self._on_cpu(DENSE)
        if self._answers["level"] == levels.LONG:
            self._on_each(lambda gpu: self._ask(gpu, BURN, seconds + BURN_MORE, seconds=seconds),
                          one_by_one=False)  # fmt: skip

    def _of(self, gpu: dict[str, Any]) -> dict[str, Any]:
        answers: dict[str, Any] = self._answers["cards"][str(gpu["index"])]
        return answers

    def _usable(self, gpu: dict[str, Any]) -> bool:
        """Whether a card may be asked: it does not hang, and nobody has begun to work on it."""
        index = str(gpu["index"])
        if index in self._answers["skipped"]:
            return False
        if names.silent(self._of(gpu)):
            return False
        user = self._taken(gpu["uuid"])
        if user:
            self._answers["skipped"][index] = user
        return user is None

    def _on_each(
        self, work: Callable[[dict[str, Any]], None], one_by_one: bool | None = None
    ) -> None:
        """Does it for all cards at once; one by one where stand-ins share a CPU."""
        threads = [threading.Thread(target=work, args=(gpu,)) for gpu in self._gpus]
        for thread in threads:
            thread.start()
            if self._what == CPU if one_by_one is None else one_by_one:
                thread.join()
        for thread in threads:
            thread.join()

    def _on_one(self, gpu: dict[str, Any]) -> None:
        patiences = {**ON_EACH, **ON_EACH_REAL}
        for program in programs(self._what):
            self._ask(gpu, program, patiences[program])

    def _ask(self, gpu: dict[str, Any], program: str, patience: float, **given: Any) -> None:
        """Asks a card, where it may be asked."""
        if not self._usable(gpu):
            return
        visible = NONE
        if self._what == GPU:
            visible = str(gpu["index"]) if program == BY_INDEX else gpu["uuid"]
        name = LISTED if program in (BY_UUID, BY_INDEX) else program
        given = {"kind": self._what, "count": 1, "uuid": gpu["uuid"], **given}
        self._of(gpu)[program] = self._runner.ask(name, given, visible, patience)

    def _again(self) -> None:
        """Asks every suspect once more, alone: other work may have been in its way.

        Not where all cards of several fail: then it is the stack, and takes their time for nothing.
        """
        cards = self._answers["cards"]
        everywhere = computing.everywhere(cards) if len(cards) > 1 else set()
        for gpu in self._gpus:
            answers = self._of(gpu)
            for program, first in sorted(answers.items()):
                accused = training.suspect(gpu, self._what, program, answers)
                if accused and program not in everywhere and not first["silent"]:
                    self._ask(gpu, program, {**ON_EACH, **ON_EACH_REAL}[program])
                    if answers[program] is not first:
                        answers[program]["first"] = first

    def _mirrored_again(self) -> None:
        """Trains once more on all cards where that came to something else than it should."""
        host = self._answers["host"]
        if training.disputed(self._answers):
            first = host[MIRRORED]
            self._on_all(MIRRORED, ON_ALL[MIRRORED])
            if host[MIRRORED] is not first:
                host[MIRRORED]["first"] = first

    def _on_cpu(self, program: str) -> None:
        """What the cards are compared with: the same on the host's CPU."""
        given = {"kind": CPU, "count": 1, "little": False}
        self._answers["host"][program] = dict(
            self._runner.ask(program, given, NONE, ON_EACH[program]), order=[]
        )

    def _on_all(self, program: str, patience: float) -> None:
        """Asks all cards that may be asked, together, unless they hang together."""
        if names.silent(self._answers["host"]):
            return
        free = [gpu for gpu in self._gpus if self._usable(gpu)]
        if not free:
            return
        uuids = [gpu["uuid"] for gpu in free]
        given = {"kind": self._what, "count": len(free), "uuids": uuids}
        visible = ",".join(uuids) if self._what == GPU else NONE
        answer = self._runner.ask(program, given, visible, patience)
        order = [str(gpu["index"]) for gpu in free]
        self._answers["host"][program] = dict(answer, order=order)
