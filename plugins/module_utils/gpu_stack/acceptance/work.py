"""Parts 2 and 3 of an acceptance: what TensorFlow does on each GPU of the host.

It loads the cards, so it is asked for. A card on which somebody works is left alone, and named.
Without a real GPU the same programs run on logical CPU devices, one for each simulated GPU.
"""

from __future__ import annotations

import functools
import os
import threading

from ..type_checking import TYPE_CHECKING
from . import levels
from .checks import computing

if TYPE_CHECKING:
    from typing import Any, Callable

    from .runner import Runner

    Ask = Callable[[str, dict[str, Any], str, float], dict[str, Any]]

GPU, CPU = "GPU", "CPU"
# {program: seconds that it may take}. TensorFlow's first start from a cold disk takes a minute; a
# card that TensorFlow has no code for compiles it for several.
ON_EACH = {
    "product": 300,
    "pattern": 300,
    "xla": 300,
    "convolution": 300,
    "pipeline": 300,
}
# Of real cards alone: what NVML and CUDA say of them.
BY_UUID, BY_INDEX = "by_uuid", "by_index"
ON_EACH_REAL = {"growth": 300, BY_UUID: 300, BY_INDEX: 300}
ON_ALL = {"copies": 600}
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
    work = [entry for entry in gpu["processes"] if entry["kind"] == "compute"]
    if work:
        who = sorted({entry.get("user") or "an unknown user" for entry in work})
        return "in use: {0}".format(", ".join(who))
    if (gpu["mig"] or {}).get("mode"):
        return "MIG is on"
    if gpu["compute_mode"] == "prohibited":
        return "its compute mode lets no program compute"
    return None


def look(facts: dict[str, Any], level: str, runner: Runner, minutes: float = 0) -> dict[str, Any]:
    """{level, kind, missing, skipped, order, host, cards}: what TensorFlow did on a host's cards.

    facts: machine.look's. minutes: how long the burn-in of the level long takes.

    missing: why nothing could be asked, or None. skipped: {index: why} of the cards that were left
    alone. order: the indexes of the others. host: {program: answer}; cards: {index: {program:
    answer}}, an answer as Runner.ask returns it, with `first`, the one before, where a suspect was
    asked again. Indexes are text, as in JSON.
    """
    what = kind(facts)
    gpus = facts["nvml"]["gpus"]
    skipped = {str(gpu["index"]): in_the_way(gpu) for gpu in gpus if in_the_way(gpu)}
    free = [gpu for gpu in gpus if str(gpu["index"]) not in skipped]
    work: dict[str, Any] = {
        "level": level, "kind": what, "missing": None, "skipped": skipped,
        # The devices of the programs in `host` are these cards.
        "order": [str(gpu["index"]) for gpu in free],
        "host": {}, "cards": {},
    }  # fmt: skip
    if what is None or not free:
        return work
    if not os.path.exists(runner.python):
        work["missing"] = "there is no TensorFlow: {0} does not exist".format(runner.python)
        return work
    try:
        with runner:
            _ask(free, what, runner, work)
            if level == levels.LONG:
                _burn(free, what, runner.ask, work["cards"], 60 * minutes)
    except OSError as error:  # a full disk, a folder that root may not write
        work["missing"] = "no program could be started: {0}".format(error)
    return work


def _ask(free: list[dict[str, Any]], what: str, runner: Runner, work: dict[str, Any]) -> None:
    """Fills in what the programs answer, and asks a suspect again, alone."""
    visible = [gpu["uuid"] for gpu in free] if what == GPU else [NONE]
    everyone = {"kind": what, "count": len(free), "uuids": [gpu["uuid"] for gpu in free]}
    work["host"][LISTED] = runner.ask(LISTED, everyone, ",".join(visible), LISTED_PATIENCE)
    work["cards"] = _on_each(free, what, runner)
    _again(free, what, runner.ask, work["cards"])
    for program, patience in ON_ALL.items():
        work["host"][program] = runner.ask(program, everyone, ",".join(visible), patience)


def _on_each(gpus: list[dict[str, Any]], what: str, runner: Runner) -> dict[str, Any]:
    """Every program on every card: cards at once, where they are real, and one after the other."""
    cards: dict[str, Any] = {str(gpu["index"]): {} for gpu in gpus}
    # Stand-ins share one CPU.
    _at_once(
        [
            functools.partial(_on_one, gpu, what, runner.ask, cards[str(gpu["index"])])
            for gpu in gpus
        ],
        one_by_one=what == CPU,
    )
    return cards


def _at_once(works: list[Callable[[], None]], one_by_one: bool = False) -> None:
    """Does all of them, each in a thread of its own; they wait for programs."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
        if one_by_one:
            thread.join()
    for thread in threads:
        thread.join()


def _burn(
    free: list[dict[str, Any]], what: str, ask: Ask, cards: dict[str, Any], seconds: float
) -> None:
    """Keeps all cards at work at once, as the power supply and the cooling have to bear it."""

    def one(gpu: dict[str, Any]) -> None:
        given = {"kind": what, "count": 1, "uuid": gpu["uuid"], "seconds": seconds}
        visible = gpu["uuid"] if what == GPU else NONE
        cards[str(gpu["index"])][BURN] = ask(BURN, given, visible, seconds + BURN_MORE)

    _at_once([functools.partial(one, gpu) for gpu in free if not _hung(cards[str(gpu["index"])])])


def _hung(answers: dict[str, Any]) -> bool:
    """Whether a card gave no answer in time: it is asked nothing more."""
    return any(answer["silent"] for answer in answers.values())


def _on_one(gpu: dict[str, Any], what: str, ask: Ask, answers: dict[str, Any]) -> None:
    for program in programs(what):
        answers[program] = _asked(gpu, what, ask, program)
        # A card that hangs would hold each of them for its whole time.
        if answers[program]["silent"]:
            break


def programs(what: str) -> tuple[str, ...]:
    """The programs that every card is asked."""
    return (*ON_EACH, *ON_EACH_REAL) if what == GPU else tuple(ON_EACH)


def _asked(gpu: dict[str, Any], what: str, ask: Ask, program: str) -> dict[str, Any]:
    given = {"kind": what, "count": 1, "uuid": gpu["uuid"]}
    visible = NONE
    if what == GPU:
        visible = str(gpu["index"]) if program == BY_INDEX else gpu["uuid"]
    patience = {**ON_EACH, **ON_EACH_REAL}[program]
    return ask(LISTED if program in (BY_UUID, BY_INDEX) else program, given, visible, patience)


def _again(free: list[dict[str, Any]], what: str, ask: Ask, cards: dict[str, Any]) -> None:
    """Asks every suspect once more, alone: other work may have been in its way.

    Not where all cards of several fail: then it is the stack, and takes their time for nothing.
    """
    everywhere = computing.everywhere(cards)
    for gpu in free:
        answers = cards[str(gpu["index"])]
        for program, first in sorted(answers.items()):
            shared = program in everywhere and len(cards) > 1
            if shared or first["silent"] or not computing.suspect(gpu, what, program, answers):
                continue
            answers[program] = dict(_asked(gpu, what, ask, program), first=first)
