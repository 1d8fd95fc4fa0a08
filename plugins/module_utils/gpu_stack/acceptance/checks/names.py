"""What acceptance's TensorFlow programs are called in a finding, and why one was not asked."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

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


def silent(answers: dict[str, Any]) -> str | None:
    """Of a card's answers, or of those of all cards together: the program that gave none in time.

    What hangs would hold each further program for its whole time: it is asked nothing more.
    """
    return next((program for program, answer in answers.items() if answer["silent"]), None)


def unasked(answers: dict[str, Any]) -> str | None:
    """Why a program has no answer among these; None where they do not say it."""
    program = silent(answers)
    return program and "not asked: {0} gave no answer in time".format(NAMES[program])
