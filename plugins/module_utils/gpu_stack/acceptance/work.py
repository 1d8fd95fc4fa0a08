"""Parts 2 and 3 of an acceptance: what TensorFlow does on each GPU of the host.

It loads the cards, so it is asked for. A card on which somebody works is left alone, and named.
Without a real GPU the same programs run on logical CPU devices, one for each simulated GPU.
"""

from __future__ import annotations

import os
import threading
import time

from ..type_checking import TYPE_CHECKING
from . import levels, words
from .checks import computing, copying, names, training

if TYPE_CHECKING:
    from typing import Any, Callable

    from .runner import Runner

    Taken = Callable[[str], "str | None"]
    Strangers = Callable[[list[str]], dict[str, str]]
    Free = Callable[[str], "int | None"]

GPU, CPU = "GPU", "CPU"
NAMED_BY = ("uuid", "pci")
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
TOGETHER = {LISTED: 300, **ON_ALL}
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
        return words.SILENT
    at_work = _at_work_on(gpu)
    if at_work:
        return at_work
    if (gpu["mig"] or {}).get("mode"):
        return "MIG is on"
    if gpu["compute_mode"] == "prohibited":
        return "its compute mode lets no program compute"
    return None


def _at_work_on(gpu: dict[str, Any]) -> str | None:
    """Who computes on a card that answers, as the look has read it; None where nobody does."""
    if gpu["processes"] is None:
        return words.UNSAID
    return words.in_use(
        [entry.get("user") for entry in gpu["processes"] if entry["kind"] == "compute"]
    )


def _at_work(gpus: list[dict[str, Any]]) -> dict[str, str]:
    """{UUID: who computes there} of the cards on which somebody does."""
    users = {gpu["uuid"]: _at_work_on(gpu) for gpu in gpus if not gpu["error"]}
    return {uuid: word for uuid, word in users.items() if word}


def spare_all(gpus: list[dict[str, Any]], skipped: dict[str, str], at_work: dict[str, str]) -> None:
    """Leaves all cards alone where somebody computes on one; each says whose sake it is for."""
    named = [(gpu["index"], at_work[gpu["uuid"]]) for gpu in gpus if gpu.get("uuid") in at_work]
    for gpu in gpus if named else ():
        own = at_work.get(gpu.get("uuid") or "")
        skipped.setdefault(str(gpu["index"]), own or words.in_use_elsewhere(*named[0]))


def nobody(uuid: str) -> str | None:  # noqa: ARG001
    """For `taken` where nobody can be there."""
    return None


def unsaid(uuid: str) -> int | None:  # noqa: ARG001
    """For `free` where nothing says how much memory a card has left."""
    return None


def look(
    facts: dict[str, Any],
    level: str,
    runner: Runner,
    minutes: float = 0,
    taken: Taken = nobody,
    *,
    strangers: Strangers | None = None,
    free: Free = unsaid,
    patience: float = levels.PATIENCE,
    disk: Callable[[], dict[str, Any]] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """{level, kind, missing, skipped, gpus, order, host, cards, late, storage}.

    What TensorFlow did on a host's cards. facts: machine.look's. minutes: how long the burn-in of
    the level long takes. taken(uuid): who computes on a card now, as machine.taken says. strangers:
    machine.strangers, where nothing is to be loaded while anybody computes on any card. free:
    machine.free, asked where a program found too little memory. patience: minutes after which no
    other program is begun but the burn-in; stand-ins have no such end, as nobody is promised how
    long they take. disk: storage.measure.

    missing: why nothing could be asked, or None. skipped: {index: why} of the cards that were left
    alone. gpus: {index: {uuid, pci}} of all cards, None of one that does not answer: a later look
    may count them anew. order: the indexes of the others. host: {program: answer}; cards: {index:
    {program: answer}}, an answer as Runner.ask returns it, with `first`, the one before, where a
    suspect was asked again, and `free`, the bytes of its card, where it found too little memory. Of
    the host's programs an answer has the `order` of their devices; the training on all of them may
    have `without`, {index: its answer without that card}. Indexes are text, as in JSON. late:
    {index, or names.HOSTS: programs that were not begun for want of time}.
    storage: what `disk` said.
    """
    gpus = facts["nvml"]["gpus"]
    reasons = ((str(gpu["index"]), in_the_way(gpu)) for gpu in gpus)
    skipped = {index: reason for index, reason in reasons if reason}
    if strangers is not None:
        spare_all(gpus, skipped, _at_work(gpus))
    usable = [gpu for gpu in gpus if str(gpu["index"]) not in skipped]
    card_kind = kind(facts)
    work: dict[str, Any] = {
        "level": level, "kind": card_kind, "missing": None, "skipped": skipped,
        "gpus": {str(gpu["index"]): {name: gpu.get(name) for name in NAMED_BY} for gpu in gpus},
        "order": [str(gpu["index"]) for gpu in usable],
        "host": {}, "cards": {str(gpu["index"]): {} for gpu in usable}, "late": {}, "storage": None,
    }  # fmt: skip
    if card_kind is None or not usable:
        return work
    if not os.path.exists(runner.python):
        work["missing"] = "there is no TensorFlow: {0} does not exist".format(runner.python)
        return work
    end = clock() + 60 * patience if card_kind == GPU else None
    watch = Watch(taken, strangers, free, gpus, lambda: end is not None and clock() >= end)
    try:
        with runner:
            if disk is not None:
                work["storage"] = disk()
            Work(work, usable, runner, watch).do(60 * minutes)
    except OSError as error:  # a full disk, a folder that root may not write
        work["missing"] = "no program could be started: {0}".format(error)
    return work


def programs(card_kind: str) -> tuple[str, ...]:
    """The programs that every card is asked."""
    return (*ON_EACH, *ON_EACH_REAL) if card_kind == GPU else tuple(ON_EACH)


class Watch:
    """Whether another program may be begun: who is at work on the host's cards, and the time."""

    def __init__(
        self,
        taken: Taken,
        strangers: Strangers | None,
        free: Free,
        gpus: list[dict[str, Any]],
        over: Callable[[], bool],
    ) -> None:
        self._taken = taken
        self._strangers = strangers
        self.free = free
        self._gpus = gpus
        self.over = over

    def look(self, gpu: dict[str, Any], skipped: dict[str, str]) -> None:
        """Adds to `skipped` the cards to leave alone from now on; called before `gpu` is loaded."""
        if self._strangers is not None:
            uuids = [card["uuid"] for card in self._gpus if not card["error"]]
            spare_all(self._gpus, skipped, self._strangers(uuids))
            return
        user = self._taken(gpu["uuid"])
        if user:
            skipped[str(gpu["index"])] = user


class Work:
    """The programs of one acceptance on the cards of a host that are free; fills in `answers`.

    Somebody may begin to work on a card at any time: before each program it is asked who is there.
    """

    def __init__(
        self, answers: dict[str, Any], gpus: list[dict[str, Any]], runner: Runner, watch: Watch
    ) -> None:
        self._answers = answers
        self._gpus = gpus
        self._kind = answers["kind"]
        self._runner = runner
        self._watch = watch

    def do(self, seconds: float) -> None:
        """Everything of the level; the burn-in for so many seconds."""
        self._on_all(LISTED)
        self._on_each(self._on_one)
        self._again()
        for program in ON_ALL:
            if len(self._gpus) > 1 or program not in OF_SEVERAL:
                self._on_all(program)
        self._once_more("copies", copying.disputed)
        self._once_more(MIRRORED, training.disputed)
        self._without_each()
        if self._kind == GPU:
            self._on_cpu(DENSE)
        if self._answers["level"] == levels.LONG:
            self._on_each(lambda gpu: self._ask(gpu, BURN, seconds + BURN_MORE, anytime=True,
                                                seconds=seconds), one_by_one=False)  # fmt: skip

    def _of(self, gpu: dict[str, Any]) -> dict[str, Any]:
        answers: dict[str, Any] = self._answers["cards"][str(gpu["index"])]
        return answers

    def _usable(self, gpu: dict[str, Any]) -> bool:
        """Whether a card may be asked: it does not hang, and nobody has begun to work on it."""
        index, skipped = str(gpu["index"]), self._answers["skipped"]
        if index in skipped or names.silent(self._of(gpu)):
            return False
        self._watch.look(gpu, skipped)
        return index not in skipped

    def _late(self, whose: str, program: str, *, anytime: bool) -> bool:
        """Whether it is too late to begin a program; if so, it is noted in the answers' `late`."""
        if anytime or not self._watch.over():
            return False
        self._answers["late"].setdefault(whose, []).append(program)
        return True

    def _on_each(
        self, work: Callable[[dict[str, Any]], None], one_by_one: bool | None = None
    ) -> None:
        """Does `work` on all cards at once; one by one where stand-ins share a CPU."""
        threads = [threading.Thread(target=work, args=(gpu,)) for gpu in self._gpus]
        for thread in threads:
            thread.start()
            if self._kind == CPU if one_by_one is None else one_by_one:
                thread.join()
        for thread in threads:
            thread.join()

    def _on_one(self, gpu: dict[str, Any]) -> None:
        patiences = {**ON_EACH, **ON_EACH_REAL}
        for program in programs(self._kind):
            self._ask(gpu, program, patiences[program])

    def _ask(
        self,
        gpu: dict[str, Any],
        program: str,
        patience: float,
        *,
        anytime: bool = False,
        **given: Any,
    ) -> None:
        """Runs a program on a usable card while time is left; `anytime`: however late."""
        if self._late(str(gpu["index"]), program, anytime=anytime) or not self._usable(gpu):
            return
        visible = NONE
        if self._kind == GPU:
            visible = str(gpu["index"]) if program == BY_INDEX else gpu["uuid"]
        name = LISTED if program in (BY_UUID, BY_INDEX) else program
        given = {"kind": self._kind, "count": 1, "uuid": gpu["uuid"], **given}
        answer = self._runner.ask(name, given, visible, patience)
        self._of(gpu)[program] = self._with_room(answer, [gpu])

    def _with_room(self, answer: dict[str, Any], gpus: list[dict[str, Any]]) -> dict[str, Any]:
        """The answer, with how much of these cards' memory was `free` where it found too little.

        Of several that of the one with the least; None where the driver does not say it.
        """
        if self._kind != GPU or not names.out_of_memory(answer):
            return answer
        left = [self._watch.free(gpu["uuid"]) for gpu in gpus]
        sizes = [size for size in left if size is not None]
        if len(sizes) < len(left):
            return dict(answer, free=None)
        words = "NVML: right after it {0:.1f} GiB of the card's memory were free"
        line = words.format(min(sizes) / names.GIB)
        return dict(answer, free=min(sizes), log=[*answer["log"], line])

    def _again(self) -> None:
        """Asks every suspect once more, alone: other work may have been in its way.

        However late it is: nobody is accused for want of time.
        Not where all cards of several fail: then it is the stack, and takes their time for nothing.
        """
        cards = self._answers["cards"]
        everywhere = computing.everywhere(cards) if len(cards) > 1 else set()
        for gpu in self._gpus:
            answers = self._of(gpu)
            for program, first in sorted(answers.items()):
                accused = training.suspect(gpu, self._kind, program, answers)
                if accused and program not in everywhere and not first["silent"]:
                    self._ask(gpu, program, {**ON_EACH, **ON_EACH_REAL}[program], anytime=True)
                    if answers[program] is not first:
                        answers[program]["first"] = first

    def _once_more(self, program: str, disputed: Callable[[dict[str, Any]], bool]) -> None:
        """Asks all cards once more where their answer would accuse somebody."""
        host = self._answers["host"]
        if disputed(self._answers):
            first = host[program]
            self._on_all(program, anytime=True)
            if host[program] is not first:
                host[program]["first"] = first

    def _on_cpu(self, program: str) -> None:
        """What the cards are compared with: the same on the host's CPU."""
        if self._late(names.HOSTS, program, anytime=False):
            return
        if not any(self._usable(gpu) for gpu in self._gpus):
            return
        given = {"kind": CPU, "count": 1, "little": False}
        self._answers["host"][program] = dict(
            self._runner.ask(program, given, NONE, ON_EACH[program]), order=[]
        )

    def _without_each(self) -> None:
        """Trains without each card in turn, where training on all of them blames no single one.

        A card that spoils what all do together is found by leaving it out: of three cards these
        are the three pairs. Stand-ins are all one CPU.
        """
        host = self._answers["host"]
        if self._kind != GPU or not training.unresolved(self._answers):
            return
        tried: dict[str, Any] = {}
        for gpu in self._gpus:
            index = str(gpu["index"])
            if index not in host[MIRRORED]["order"]:
                continue
            others = [card for card in self._gpus if card is not gpu]
            answer = None if self._watch.over() else self._together(MIRRORED, others)
            if answer is None or answer["silent"]:
                return
            tried[index] = answer
        host[MIRRORED]["without"] = tried

    def _on_all(self, program: str, *, anytime: bool = False) -> None:
        """Asks all cards that may be asked, together, unless they hang together."""
        if names.silent(self._answers["host"]):
            return
        if self._late(names.HOSTS, program, anytime=anytime):
            return
        answer = self._together(program, self._gpus)
        if answer is not None:
            self._answers["host"][program] = answer

    def _together(self, program: str, gpus: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The program's answer on the usable cards, with their order; None without any."""
        free = [gpu for gpu in gpus if self._usable(gpu)]
        if not free:
            return None
        uuids = [gpu["uuid"] for gpu in free]
        given = {"kind": self._kind, "count": len(free), "uuids": uuids}
        visible = ",".join(uuids) if self._kind == GPU else NONE
        answer = self._runner.ask(program, given, visible, TOGETHER[program])
        return dict(self._with_room(answer, free), order=[str(gpu["index"]) for gpu in free])
