"""Is what a training leaves whole: its checkpoints, its logs, and the models it is exported to?

No card does these: its libraries, its disk or a version of Keras are at fault.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import FAILED, finding, not_applicable, ok
from . import computing

if TYPE_CHECKING:
    from typing import Any

# Sums are in the same order before and after a kill; an epoch more or less is worth 1e-2.
RESUMED = 1e-6
# Probabilities in float32, by other programs or another order of sums.
EXPORTED = 1e-4
# Of float16, which has 11 bits.
MIXED_EXPORTED = 1e-2
# The logs have float32.
LOGGED = 1e-5
SOURCE = "provision"


def checkpoints(facts: dict[str, Any]) -> dict[str, Any]:
    """A killed training goes on from its last epoch, and comes to the same end."""
    broken = computing.host_fault(facts, "checkpoints")
    if broken:
        return broken
    answer = facts["work"]["host"]["checkpoints"]["facts"]
    if answer["killed"] is None:
        return not_applicable("the training had ended before it was killed")
    where = "killed in epoch {0}, step {1}".format(
        answer["killed"]["epoch"] + 1, answer["killed"]["step"] + 1
    )
    if answer["began"] not in answer["may_begin"]:
        begun = "after its end"
        if answer["began"] is not None:
            begun = "in epoch {0}".format(answer["began"] + 1)
        return _fault("{0}, the training began again {1}".format(where, begun))
    if not answer["difference"] <= RESUMED:
        reason = "{0}, the training came to another end: its weights are off by {1:.1g}".format(
            where, answer["difference"]
        )
        return _fault(reason, RESUMED)
    if answer["files"] != answer["epochs"]:
        return _fault(
            "{0} of {1} checkpoints were written".format(answer["files"], answer["epochs"])
        )
    if answer["saved"] != 0:
        return _fault("the last checkpoint's weights are not those that were saved")
    but = "" if answer["difference"] == 0 else " but for a last bit"
    return ok("{0}, the training went on and came to the same weights{1}".format(where, but))


def tensorboard(facts: dict[str, Any]) -> dict[str, Any]:
    """TensorBoard's logs have every epoch's loss as the training had it."""
    missing = _no_export(facts)
    if missing:
        return missing
    logs = _export(facts)["logs"]
    if logs["error"]:
        return not_applicable("TensorBoard is not installed: {0}".format(logs["error"]))
    logged, trained = logs["logged"], logs["trained"]
    if len(logged) != len(trained):
        return _fault("{0} of {1} epochs are logged".format(len(logged), len(trained)))
    pairs = zip(logged, trained)  # noqa: B905 of one length; Python 3.7
    if not all(abs(loss - expected) <= LOGGED * abs(expected) for loss, expected in pairs):
        return _fault("the losses that are logged are not those of the training")
    return ok("the logs of {0} epochs are read back".format(len(trained)))


def saved_model(facts: dict[str, Any]) -> dict[str, Any]:
    """A SavedModel says the same in a new process."""
    broken = computing.host_fault(facts, "export")
    if broken:
        return broken
    difference = _export(facts)["saved_model"]["difference"]
    if not difference <= EXPORTED:
        reason = "a SavedModel says something else in a new process, by {0:.1g}".format(difference)
        return _fault(reason, EXPORTED)
    return ok("a SavedModel says the same in a new process")


def tflite(facts: dict[str, Any]) -> dict[str, Any]:
    """A float32 model says the same after its conversion."""
    return _converted(facts, "float32") or ok("a TFLite model says the same")


def tflite_mixed(facts: dict[str, Any]) -> dict[str, Any]:
    """A mixed one too, where TFLite can convert it at all."""
    missing = _no_export(facts)
    if missing:
        return missing
    error = _export(facts)["lite"]["mixed_float16"]["error"]
    if error:
        return not_applicable(
            "a model of mixed_float16 can't be converted to TFLite ({0}): build it anew in "
            "float32, give it the weights, and convert that".format(error)
        )
    return _converted(facts, "mixed_float16", MIXED_EXPORTED) or ok(
        "a mixed TFLite model says the same"
    )


def _converted(facts: dict[str, Any], name: str, limit: float = EXPORTED) -> dict[str, Any] | None:
    """What is wrong with a conversion."""
    missing = _no_export(facts)
    if missing:
        return missing
    lite = _export(facts)["lite"][name]
    if lite["error"]:
        return _fault("TFLite can't convert a model of {0}: {1}".format(
            name, lite["error"]))  # fmt: skip
    if not lite["difference"] <= limit:
        words = "a TFLite model of {0} says something else, by {1:.1g}"
        return _fault(words.format(name, lite["difference"]), limit)
    return None


def _export(facts: dict[str, Any]) -> dict[str, Any]:
    """What the program says, where it says something."""
    answer: dict[str, Any] = facts["work"]["host"]["export"]["facts"]
    return answer


def _no_export(facts: dict[str, Any]) -> dict[str, Any] | None:
    """The finding where it says nothing, which `saved_model` is blamed for; None where it does."""
    broken = computing.host_fault(facts, "export")
    return broken and not_applicable(broken["reason"])


def _fault(reason: str, limit: float | None = None) -> dict[str, Any]:
    source = "" if limit is None else SOURCE
    return finding(FAILED, reason, action="configure", how=computing.STACK, threshold=limit,
                   source=source)  # fmt: skip


HOST = (
    ("checkpoints", checkpoints),
    ("tensorboard", tensorboard),
    ("saved_model", saved_model),
    ("tflite", tflite),
    ("tflite_mixed", tflite_mixed),
)
