"""Served models: their units run, their newest version is served, and the door asks for a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cures import CURES, Cure
from .check import AGAIN, Seen, Verdict, check, failed, front_door, not_applicable, passed, some_of

JOURNAL = "`journalctl -u 'gpu-serving-*'` says why"

CURES.update(
    {
        "gpu_serving.runs": Cure(("gpu_serving", "nvidia_container_toolkit"), JOURNAL),
        "gpu_serving.available": Cure(
            ("gpu_serving",),
            f"replace or remove the directory of the version that does not load; {JOURNAL}",
        ),
        "gpu_serving.strangers": Cure(("gpu_serving", "gpu_front_door"), JOURNAL),
    }
)


def served(seen: Seen) -> bool:
    """Does the inventory name models for this host?"""
    return bool(seen.options.get("gpu_servings"))


def _judged(seen: Seen, fault: Callable[[dict[str, Any]], str | None], good: str) -> Verdict:
    """The verdict over all models; `fault` says what is wrong with one."""
    answers = seen.probe["served_models"]
    faults = {name: fault(answers[name]) for name in sorted(answers)}
    wrong = [f"{name}: {faults[name]}" for name in faults if faults[name]]
    if wrong:
        return failed(some_of(wrong), AGAIN, "; ".join(wrong))
    return passed(f"{', '.join(faults)}: {good}")


@check("gpu_serving.runs", "Every model's TensorFlow Serving runs", served)
def models_run(seen: Seen) -> Verdict:
    def fault(model: dict[str, Any]) -> str | None:
        if model["unit"] != "active":
            return f"its unit is {model['unit']}"
        # Another program may have opened the port since.
        return None if model["port"] == "active" else f"its port's unit is {model['port']}"

    return _judged(seen, fault, "active")


@check("gpu_serving.available", "The newest version of every model is served", served)
def models_are_available(seen: Seen) -> Verdict:
    def fault(model: dict[str, Any]) -> str | None:
        if model["versions"] is None:
            return "nothing answers at its port"
        serving = [int(row["version"]) for row in model["versions"] if row["state"] == "AVAILABLE"]
        still = f"version {max(serving)} still serves" if serving else "no version serves"
        for row in model["versions"]:
            # TensorFlow Serving lists what failed until it ends, whatever came of it since.
            gone = model["there"] is not None and row["version"] not in model["there"]
            newer = all(int(row["version"]) > version for version in serving)
            if row["state"] == "END" and row["error"] and newer and not gone:
                return f"version {row['version']} does not load: {row['error']}; {still}"
        return None if serving else still

    return _judged(seen, fault, "AVAILABLE")


@check("gpu_serving.strangers", "The front door refuses access to models without a token", served)
def models_refuse_strangers(seen: Seen) -> Verdict:
    if not front_door(seen):
        return not_applicable("there is no front door here")
    return _judged(
        seen,
        lambda model: (
            None if model["door"] == 401 else f"the door answers {model['door'] or 'nothing'}"
        ),
        "401 without a token",
    )
