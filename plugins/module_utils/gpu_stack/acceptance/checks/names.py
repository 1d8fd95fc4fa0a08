"""What acceptance's TensorFlow programs are called in a finding, and why one says nothing."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import FAILED, finding, not_applicable
from ..words import LATE

if TYPE_CHECKING:
    from typing import Any, Sequence

NAMES = {
    "listed": "listing TensorFlow's devices",
    "by_uuid": "listing TensorFlow's devices",
    "by_index": "listing TensorFlow's devices",
    "product": "a product of matrices",
    "pattern": "filling the memory",
    "growth": "growing in memory",
    "xla": "XLA",
    "convolution": "a convolution",
    "pipeline": "an input pipeline",
    "burn": "the burn-in",
    "copies": "copying",
    "dense": "training a dense network",
    "mirrored": "training on all cards",
    "resnet": "training ResNet-50",
    "checkpoints": "a training that is killed",
    "export": "exporting a model",
}

# In the programs that were not begun any more, the host's own.
HOSTS = "host"

# What TensorFlow says where a card has too little free memory: a small card, or one whose memory a
# display or somebody who has just come has taken.
NO_MEMORY = ("OOM when allocating", "ResourceExhaustedError", "Dst tensor is not initialized")
# Of these, what is of a card's memory and not of the host's.
OF_A_CARD = ("device:GPU:", "Dst tensor is not initialized")
GIB = 2**30
# {program: bytes that are more than enough for it}; what takes all that is free has no such number.
# ResNet-50 takes as many images as fit into 13 GiB, or fewer.
ENOUGH = {"pattern": None, "resnet": 16 * GIB}
# All others multiply, copy and train what takes less than 2 GiB, CUDA's own part among it.
ENOUGH_FOR_OTHERS = 4 * GIB
# A full disk is a ResourceExhaustedError as well.
NO_DISK = "No space left on device"
MAKE_ROOM = "make room on the disk that has /var/tmp, and ask again"


def no_room(program: str, answer: dict[str, Any]) -> dict[str, Any] | None:
    """The finding on a program that failed for want of memory or disk; None for all else.

    Neither says anything of a card's health. But a card that NVML says had more than enough (the
    answer's `free`) failed otherwise.
    """
    lines = [answer["error"] or "", *answer["log"]]
    if any(NO_DISK in line for line in lines):
        reason = "{0} failed: no space is left on the host's disk".format(NAMES[program])
        return finding(FAILED, reason, answer["log"], action="configure", how=MAKE_ROOM)
    if out_of_memory(answer) and not _had_enough(program, answer, lines):
        reason = "{0} needs more memory than is free on the card".format(NAMES[program])
        return not_applicable(reason)
    return None


def out_of_memory(answer: dict[str, Any]) -> bool:
    """Whether a program ended with TensorFlow's words for too little memory."""
    lines = [answer["error"] or "", *answer["log"]]
    return any(words in line for line in lines for words in NO_MEMORY)


def _had_enough(program: str, answer: dict[str, Any], lines: list[str]) -> bool:
    """Whether its cards' memory was free all the same, as far as NVML says it."""
    free, enough = answer.get("free"), ENOUGH.get(program, ENOUGH_FOR_OTHERS)
    if free is None or enough is None or free < enough:
        return False
    return any(words in line for line in lines for words in OF_A_CARD)


def silent(answers: dict[str, Any]) -> str | None:
    """Of a card's answers, or of those of all cards together: the program that gave none in time.

    What hangs would hold each further program for its whole time: it is asked nothing more.
    """
    return next((program for program, answer in answers.items() if answer["silent"]), None)


def unasked(answers: dict[str, Any], program: str, late: Sequence[str]) -> str | None:
    """Why a program has no answer among these; None where they do not say it.

    late: those that were not begun for want of time.
    """
    hanging = silent(answers)
    if hanging:
        return "not asked: {0} gave no answer in time".format(NAMES[hanging])
    return LATE if program in late else None


def no_card(work: dict[str, Any]) -> str:
    """Why nothing was begun on a host, of acceptance/work.py's answer."""
    return "no GPU is free" if work["kind"] else "there is no GPU"


def unasked_host(work: dict[str, Any], program: str) -> str:
    """Why a program of the host's has no answer in acceptance/work.py's."""
    return unasked(work["host"], program, work["late"].get(HOSTS, ())) or no_card(work)
