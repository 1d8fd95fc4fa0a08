"""What goes wrong with served models."""

from __future__ import annotations

import re

from ...doctor.case import Case, clue
from ...type_checking import TYPE_CHECKING
from .. import gpu_front_door, gpu_serving
from . import asking, places, saved_model
from .doctor_look import ask

__all__ = ["CASES", "CHECKS", "FIXES", "ask"]

if TYPE_CHECKING:
    from typing import Any, Iterator

    from ...shapes import Clues, Facts

# The reasons that have a case of their own.
UNKNOWN_OP = (
    r"Op type not registered '(?P<op>[^'\n]{1,80})'",
    r"NodeDef mentions attr '(?P<op>[^'\n]{1,80})' not in Op",
)
# The path of TensorFlow in the server: a training's own log has another.
GPU_FULL = (
    r"external/org_tensorflow/\S{1,200}\] failed to allocate .{1,80}CUDA_ERROR_OUT_OF_MEMORY",
)
FULL = r"CUDA_ERROR_OUT_OF_MEMORY|OOM when allocating tensor|failed to allocate memory"
# Seconds in which a server begins to answer, and a large model is loaded.
LONG = 300

CASES = (
    Case(
        "serving-restarts",
        "a served model's container does not run, or ends and is begun again and again",
        (),
        "its journal says why; a status of 137 is the kernel's, for more than its `memory`, and "
        "125 docker's own",
        ("journalctl -u {unit} -n 50", "systemctl status {unit}"),
        (),
        "",
    ),
    Case(
        "serving-unavailable",
        "no version of a model is served: the newest one does not load, or there is none",
        ("tensorflow/serving#1723", "tensorflow/serving#1419"),
        "put a whole SavedModel there as a directory with a higher number, readable for the "
        "model's user: it is loaded without a run",
        ("ls -l {directory}", "journalctl -u {unit} -n 50"),
        (
            r"Loading servable: \{name: (?P<model>\S{1,80}) version: \d+\} failed: "
            r"(?!Not found: Op type|.{0,300}(?:OOM when allocating|OUT_OF_MEMORY))",
            r"No versions of servable (?P<model>\S{1,80}) found under base path (?P<directory>\S+)",
        ),
        "",
    ),
    Case(
        "serving-older",
        "a model's newest version does not load, and an older one serves until the next restart",
        (),
        "remove or replace that version's directory now: TensorFlow Serving begins with the newest "
        "version alone, so after a reboot none would serve",
        ("ls -l {directory}/{version}", "journalctl -u {unit} -n 50"),
        (),
        "",
    ),
    Case(
        "serving-other-tensorflow",
        "a model has an operation that its server's TensorFlow does not know",
        ("tensorflow/serving#411", "tensorflow/serving#992", "tensorflow/serving#1155"),
        "save it with the TensorFlow of the lock or an older 2.x; an operation of TensorFlow "
        "Text's, of tf.py_function or of your own needs a server that was built with it",
        ("provision explain gpu_serving_image",),
        UNKNOWN_OP,
        "",
    ),
    Case(
        "serving-gpu-memory",
        "a GPU has no memory left for a served model",
        ("tensorflow/serving#593", "tensorflow/serving#675", "tensorflow/serving#2066"),
        "without gpu_memory a model takes all that is free: give each of those on one GPU a share, "
        "together below 1, and the workspaces there as well",
        ("nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv",),
        GPU_FULL,
        "",
    ),
    Case(
        "serving-port",
        "systemd does not listen on the port of a served model: closed, or another program's",
        (),
        "end what listens there, or give the model another port in gpu_servings; then a run opens "
        "it again",
        ("ss -tlnp 'sport = :{port}'", "provision apply --limit {host} --tags gpu_serving"),
        (),
        "a run of the component where nobody else listens there",
    ),
    Case(
        "serving-door",
        "the front door answers 502 or 404 for a served model",
        (),
        "a run leads the door to the model anew; where the model itself does not answer its "
        "journal says why",
        (
            "provision apply --limit {host} --tags gpu_serving",
            "journalctl -u 'gpu-serving-{model}.*' -n 50",
        ),
        (r"(?:GET|POST) /serving/(?P<model>[a-z][a-z0-9-]{0,30})/\S{0,300} 50[24] ",),
        "a run of the component where the door's routes differ from what a run wrote",
    ),
)


def _models(facts: Facts) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """(name, what is seen of it, why its newest version is not served or None) of each model."""
    for name in sorted(facts["served"]):
        model = facts["served"][name]
        wait, wrong = asking.judged(model["states"], model["disk"]["newest"])
        if not model["answers"]:
            wrong = "nothing answers at {0}:{1}".format(model["address"], places.REST)
        long = (model["state"]["age"] or 0) >= LONG
        # It begins, or another version is being loaded.
        begins = (wait or not model["answers"]) and not long
        older = wait and asking.serving(model["states"]) is not None
        yield name, model, None if begins or older else wrong


def _said(model: dict[str, Any]) -> str:
    """What a server says of versions that do not load, and its journal."""
    return "\n".join([*(error for _state, error in model["states"].values()), model["words"]])


def _line(text: str, pattern: str) -> str | None:
    """The line of a text that a pattern is in; None without."""
    match = re.search(pattern, text)
    if match is None:
        return None
    start = text.rfind("\n", 0, match.start()) + 1
    line = text[max(start, match.start() - 150) : match.end() + 150].partition("\n")[0]
    return line.strip()


def _unknown_op(model: dict[str, Any], row: dict[str, Any]) -> str | None:
    """Why the newest version is another TensorFlow's; None where it is not."""
    lines = [_line(_said(model), pattern) for pattern in UNKNOWN_OP]
    saved, locked = model["disk"]["tensorflow"], (row.get("tensorflow") or {}).get("version")
    if saved_model.is_newer(saved, locked):
        lines.append(f"it was saved by TensorFlow {saved}, and the lock has {locked}")
    return next(filter(None, lines), None)


def _ends(model: dict[str, Any]) -> bool:
    """Whether a container does not run, or was begun again several times and just now."""
    state = model["state"]
    if state["active"] == "unknown":
        return False
    young = state["sub"] != "running" or (state["age"] is not None and state["age"] < LONG)
    stopped = state["active"] not in ("active", "activating")
    return stopped or (state["restarts"] > 2 and young)


def serving_restarts(facts: Facts) -> Clues:
    clues: Clues = []
    for name, model, _wrong in _models(facts):
        if _ends(model):
            last = [line for line in model["words"].splitlines() if line.strip()][-1:]
            words = (
                "{0}: its unit is {active} ({sub}), was begun again {restarts} times, and ended "
            )
            words += "with status {status}"
            clues.append(clue(words.format(name, **model["state"]), unit=model["unit"]))
            clues += [clue(f"{name}: {line[:200]}") for line in last]
    return clues


def _not_loaded(facts: Facts, older: bool) -> Clues:
    """Models whose newest version does not load, and that have an older one or none."""
    clues: Clues = []
    for name, model, wrong in _models(facts):
        serves = asking.serving(model["states"]) is not None
        explained = _unknown_op(model, facts["row"] or {}) or _line(_said(model), FULL)
        if wrong is None or serves is not older or explained or _ends(model):
            continue
        version = str(model["disk"]["newest"] or "")
        words = {"unit": model["unit"], "directory": model["directory"], "version": version}
        clues.append(clue(f"{name}: {wrong}", **words))
    return clues


def serving_unavailable(facts: Facts) -> Clues:
    return _not_loaded(facts, older=False)


def serving_older(facts: Facts) -> Clues:
    return _not_loaded(facts, older=True)


def serving_other_tensorflow(facts: Facts) -> Clues:
    clues: Clues = []
    for name, model, wrong in _models(facts):
        why = _unknown_op(model, facts["row"] or {}) if wrong is not None else None
        if why is not None:
            clues += [clue(f"{name}: {wrong}"), clue(f"{name}: {why}")]
    return clues


def serving_gpu_memory(facts: Facts) -> Clues:
    clues: Clues = []
    for name, model, wrong in _models(facts):
        why = _line(_said(model), FULL) if wrong is not None or _ends(model) else None
        if why is not None:
            clues += [clue(f"{name}: {text}") for text in (wrong, why) if text is not None]
    return clues


def serving_port(facts: Facts) -> Clues:
    clues: Clues = []
    for name, model, _wrong in _models(facts):
        for port, owners in sorted(model["ports"].items()):
            if owners["held"]:
                continue
            who = ", ".join(owners["programs"]) or "nobody"
            clues.append(clue(f"port {port} of {name}: {who} listens there", port=str(port)))
    return clues


def _door_leads(facts: Facts) -> bool:
    """Whether there is a front door that leads to models."""
    noted = (facts["found"]["state"].get(gpu_front_door.NAME) or {}).get("noted") or {}
    return bool((noted.get("settings") or {}).get("serving"))


def serving_door(facts: Facts) -> Clues:
    if not _door_leads(facts):
        return []
    return [
        clue(f"{path}: {fault}", model="*")
        for path, fault in sorted(facts["ways"].items())
        if fault is not None
    ]


def _run_where_free(facts: Facts, _clues: Clues) -> dict[str, Any]:
    """A run opens the ports again, unless another program has one of them."""
    models = facts["served"].values()
    taken = [port for model in models for port in model["ports"].values() if port["programs"]]
    return {} if taken else {"components": [gpu_serving.NAME]}


CHECKS = {
    "serving-restarts": serving_restarts,
    "serving-unavailable": serving_unavailable,
    "serving-older": serving_older,
    "serving-other-tensorflow": serving_other_tensorflow,
    "serving-gpu-memory": serving_gpu_memory,
    "serving-port": serving_port,
    "serving-door": serving_door,
}
FIXES = {
    "serving-port": _run_where_free,
    "serving-door": lambda _facts, _clues: {"components": [gpu_serving.NAME]},
}
