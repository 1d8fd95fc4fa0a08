"""What training came to on healthy cards, as the programs print it, and its faults.

Written by hand after what the programs print; the figures are no card's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Facts = dict[str, Any]


def card(kind: str) -> dict[str, Facts]:
    """{program: facts} of one healthy card, or of the logical CPU device in its place."""
    model = "ResNet-50" if kind == "GPU" else "a small ResNet in the place of ResNet-50"
    rates = {
        "float32 1": 120.0,
        "without prefetch": 80.0,
        "with prefetch": 119.0,
        "mixed 1": 260.0,
        "XLA 1": 140.0,
    }
    return {
        "dense": {
            "rows": 60000, "epochs": 5, "seconds": 7.5, "rate": 50000.0, "accuracy": 0.999,
        },
        "resnet": {"model": model, "batch": 64, "rates": rates, "left_out": []},
    }  # fmt: skip


def busy(count: int, percent: int, pause: float = 0.25) -> list[list[float]]:
    """A card's samples, as programs/card.py has them: idle at first."""
    return [[pause * number, percent if number else 0] for number in range(count)]


def host(count: int, kind: str) -> dict[str, Facts]:
    """{program: facts} of all cards together."""
    gpus = kind == "GPU"
    facts: dict[str, Facts] = {
        "mirrored": {
            "replicas": count,
            "shares": [1.0 + 1e-6 * (-1) ** place for place in range(count)],
            "apart": [0.0] * count,
            "loss": 5e-8,
            "weights": 6e-7,
            "fell": [2.3, 0.008],
            "busy": [1.0 if gpus else None] * count,
            "samples": [busy(4 * 6, 97) if gpus else None] * count,
        },
        "checkpoints": {
            "killed": {"epoch": 2, "step": 32},
            "began": 2,
            "may_begin": [2],
            "difference": 0.0,
            "loss": [0.0023, 0.0023],
            "files": 4,
            "epochs": 4,
            "saved": 0.0,
        },
        "export": {
            "logs": {"error": None, "logged": [2.1, 1.7, 1.2], "trained": [2.1, 1.7, 1.2]},
            "saved_model": {"difference": 0.0},
            "lite": {
                "float32": {"error": None, "difference": 4e-7},
                "mixed_float16": {
                    "error": "TFLite has no tf.Cast for these types", "difference": None,
                },
            },
        },
    }  # fmt: skip
    if count > 1:
        name = f"float32 {count}"
        facts["resnet"] = {
            "model": card(kind)["resnet"]["model"],
            "batch": 64,
            "rates": {"float32 1": 120.0, name: 110.0 * count, f"mixed {count}": 200.0 * count},
            "left_out": ["mixed 1"],
        }
    if gpus:
        facts["dense"] = {
            "rows": 60000, "epochs": 5, "seconds": 25.0, "rate": 12000.0, "accuracy": 0.999,
        }  # fmt: skip
    return facts


Change = Callable[[dict[str, Any]], None]


def of_card(program: str, **values: Any) -> Change:
    """Other facts of a program on card 1."""
    return lambda work: work["cards"]["1"][program]["facts"].update(values)


def of_all(program: str, **values: Any) -> Change:
    """Other facts of a program of all three cards."""
    return lambda work: work["host"][program]["facts"].update(values)


def lite(name: str, **values: Any) -> Change:
    return lambda work: work["host"]["export"]["facts"]["lite"][name].update(values)


def ends(program: str) -> Change:
    """The program gives no answer."""
    return lambda work: work["host"][program].update(facts=None, error="RuntimeError: no")


def slower_together(work: dict[str, Any]) -> None:
    work["host"]["resnet"]["facts"]["rates"]["float32 3"] = 90.0


def right_again(work: dict[str, Any]) -> None:
    work["host"]["mirrored"]["first"] = {"facts": {}, "error": None}


def without(*cures: str) -> Change:
    """Training on all fails; on all but one it is right where one of these is left out."""

    def change(work: dict[str, Any]) -> None:
        answer = work["host"]["mirrored"]
        answer.update(facts=None, error="RuntimeError: no", without={})
        for index in answer["order"]:
            order = [each for each in answer["order"] if each != index]
            right = host(len(order), work["kind"])["mirrored"]
            facts = right if index in cures else {**right, "weights": 0.2}
            entry = {"facts": facts, "error": None, "log": [], "silent": False, "order": order}
            answer["without"][index] = entry

    return change


def untried(work: dict[str, Any]) -> None:
    """Training is right without card 1; how it is without card 0 was not tried."""
    without("1")(work)
    del work["host"]["mirrored"]["without"]["0"]


def of_fewer(work: dict[str, Any]) -> None:
    """Training is right without card 1 and card 2, which somebody had begun to work on."""
    without("1")(work)
    answer = work["host"]["mirrored"]["without"]["1"]
    answer.update(order=["0"], facts=host(1, work["kind"])["mirrored"])


Red = tuple[str, int | None, str, str]
# Of three cards: {name: (change, the only check that is red: (check, GPU or None, state, action))}
FAULTS: dict[str, tuple[Change, Red]] = {
    "nothing learnt": (of_card("dense", accuracy=0.11), ("learns", 1, "failed", "service")),
    "not a number": (
        of_card("dense", accuracy=float("nan")), ("learns", 1, "failed", "service"),
    ),
    "no gradient of one": (
        of_all("mirrored", shares=[1.0, 0.0, 1.0], loss=0.3, weights=0.1),
        ("together", 1, "failed", "reset"),
    ),
    "its gradient twice": (
        of_all("mirrored", shares=[1.0, 2.0, 1.0], loss=0.3, weights=0.1),
        ("together", 1, "failed", "reset"),
    ),
    "other weights": (
        of_all("mirrored", apart=[0.0, 9.8e-5, 0.0], loss=1e-4, weights=1e-4),
        ("together", 1, "failed", "reset"),
    ),
    "weights that are no numbers": (
        of_all("mirrored", apart=[0.0, float("nan"), 0.0]), ("together", 1, "failed", "reset"),
    ),
    "no majority": (
        of_all("mirrored", apart=[1e-4, 1e-4, 0.0]), ("replicas", None, "failed", "reset"),
    ),
    "not in sync": (
        of_all("mirrored", replicas=1, shares=[1.0], apart=[0.0], busy=[1.0]),
        ("replicas", None, "failed", "configure"),
    ),
    "another loss": (
        of_all("mirrored", loss=0.01), ("replicas", None, "failed", "configure"),
    ),
    "other weights than one's": (
        of_all("mirrored", weights=0.01), ("replicas", None, "failed", "configure"),
    ),
    "all are outside": (
        of_all("mirrored", shares=[0.0] * 3, weights=0.9),
        ("replicas", None, "failed", "configure"),
    ),
    "no training on all": (ends("mirrored"), ("replicas", None, "failed", "configure")),
    "training is right without one alone": (without("1"), ("together", 1, "failed", "reset")),
    "training is right without either of two": (
        without("0", "1"), ("replicas", None, "failed", "configure"),
    ),
    "training is never right": (without(), ("replicas", None, "failed", "configure")),
    "training without one was not tried": (
        untried, ("replicas", None, "failed", "configure"),
    ),
    "training without one was without another too": (
        of_fewer, ("replicas", None, "failed", "configure"),
    ),
    "wrong once": (right_again, ("replicas", None, "degraded", "watch")),
    "a silent card": (
        of_all("mirrored", busy=[1.0, 0.0, 0.95]), ("busy", 1, "failed", "reset"),
    ),
    "slower together": (slower_together, ("scaling", None, "degraded", "configure")),
    "no scaling": (ends("resnet"), ("scaling", None, "failed", "configure")),
    "an epoch is lost": (
        of_all("checkpoints", began=1), ("checkpoints", None, "failed", "configure"),
    ),
    "all epochs are lost": (
        of_all("checkpoints", began=0), ("checkpoints", None, "failed", "configure"),
    ),
    "another end": (
        of_all("checkpoints", difference=1e-3), ("checkpoints", None, "failed", "configure"),
    ),
    "a file is missing": (
        of_all("checkpoints", files=3), ("checkpoints", None, "failed", "configure"),
    ),
    "a file has other weights": (
        of_all("checkpoints", saved=1e-3), ("checkpoints", None, "failed", "configure"),
    ),
    "no checkpoints": (ends("checkpoints"), ("checkpoints", None, "failed", "configure")),
    "an epoch is not logged": (
        of_all("export", logs={"error": None, "logged": [2.1], "trained": [2.1, 1.7]}),
        ("tensorboard", None, "failed", "configure"),
    ),
    "another loss is logged": (
        of_all("export", logs={"error": None, "logged": [2.1, 1.8], "trained": [2.1, 1.7]}),
        ("tensorboard", None, "failed", "configure"),
    ),
    "the loaded model differs": (
        of_all("export", saved_model={"difference": 0.02}),
        ("saved_model", None, "failed", "configure"),
    ),
    "no export": (ends("export"), ("saved_model", None, "failed", "configure")),
    "the lite model differs": (
        lite("float32", difference=0.02), ("tflite", None, "failed", "configure"),
    ),
    "no conversion": (
        lite("float32", error="it was ended by signal 6"),
        ("tflite", None, "failed", "configure"),
    ),
    "the mixed lite model differs": (
        lite("mixed_float16", error=None, difference=0.5),
        ("tflite_mixed", None, "failed", "configure"),
    ),
}  # fmt: skip
