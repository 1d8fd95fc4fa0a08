"""Compares what a served model predicts with what TensorFlow of the host says itself."""

from __future__ import annotations

import json
import math

from ...type_checking import TYPE_CHECKING
from ..gpu_workspace.program import programs, traits
from . import asking, places

if TYPE_CHECKING:
    from typing import Any

# Between a processor and a GPU, whose matrix products have 10 bits of mantissa (TF32) since Ampere.
RELATIVE, ABSOLUTE = 1e-2, 1e-3
SECONDS = 300
# Bytes of memory that TensorFlow itself takes beside a model.
OF_TENSORFLOW = 4 << 30
# What TensorFlow says of a model, in bytes.
SAID = 16 << 20


def expected(entry: dict[str, Any], path: str, python: str, program: str) -> dict[str, Any]:
    """What TensorFlow's own answer is of the version at `path`: {signature, inputs, outputs}, or
    {none: why}.

    Whoever writes a model can have its graph read and write files: it is loaded by the model's
    user, in a place without network, homes and GPUs, which can write nothing but its own /tmp, with
    no more memory than the model's own and TensorFlow's.
    """
    uid, gid = traits.numbers(entry["user"])
    # systemd's own users need a name; this one is a number.
    user = ("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs")
    limits: tuple[str, ...] = (
        *("PrivateNetwork=yes", "PrivateTmp=yes", "PrivateDevices=yes", "ProtectHome=yes"),
        *("ProtectSystem=strict", "NoNewPrivileges=yes", f"RuntimeMaxSec={SECONDS}"),
        *("TasksMax=4096", "InaccessiblePaths=-" + places.PLACE),
        "BindReadOnlyPaths=" + entry["models"],
    )
    memory = traits.size(entry["memory"])
    if memory is not None:
        limits += (f"MemoryMax={memory + OF_TENSORFLOW}", "MemorySwapMax=0")
    sandbox = [word for limit in limits for word in ("--property", limit)]
    environment = ("env", "-i", "HOME=/tmp", "PATH=/usr/bin:/bin", "CUDA_VISIBLE_DEVICES=-1",
                   "TF_CPP_MIN_LOG_LEVEL=3")  # fmt: skip
    code, out, error = programs.limited(
        ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", *sandbox, *user, *environment,
         python, "-I", "-c", program, path],
        timeout=SECONDS + 10,
        size=SAID,
    )  # fmt: skip
    lines = out.splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except (ValueError, RecursionError):
        answer = None
    if code or not isinstance(answer, dict):
        message = (error.strip().splitlines() or [f"status {code}"])[-1]
        return {"none": "TensorFlow itself fails: " + asking.plain(message)}
    if "none" in answer:
        return {"none": asking.plain(str(answer["none"]))}
    # Its graph ran in that program: what it says is the model's word.
    whole = [answer.get("inputs"), answer.get("outputs"), answer.get("signature")]
    fit = [isinstance(part, kind) for part, kind in zip(whole, (dict, dict, str))]  # noqa: B905  Python 3.7
    return answer if all(fit) and whole[1] else {"none": "TensorFlow itself says nothing of it"}


def compared(entry: dict[str, Any], address: str, answer: dict[str, Any]) -> str | None:
    """What differs between a model's prediction and TensorFlow's own; None where nothing does."""
    body = {"signature_name": answer["signature"], "inputs": answer["inputs"]}
    path = "/v1/models/{0}:predict".format(entry["name"])
    status, prediction = asking.ask(address, places.REST, path, body)
    if status != 200 or not isinstance(prediction, dict):
        why = prediction.get("error") if isinstance(prediction, dict) else None
        return "it predicts nothing: " + asking.plain(str(why or f"status {status}"))
    outputs = prediction.get("outputs")
    wanted = answer["outputs"]
    if len(wanted) == 1:
        # TensorFlow Serving leaves the name of a single output out.
        outputs = {next(iter(wanted)): outputs}
    if not isinstance(outputs, dict):
        return "its prediction has no outputs"
    for name in sorted(wanted):
        try:
            same = close(wanted[name], outputs.get(name))
        except RecursionError:
            return "its prediction is nested too deeply"
        if not same:
            return "it predicts {0} for {1}, and TensorFlow itself {2}".format(
                _short(outputs.get(name)), asking.plain(name), _short(wanted[name])
            )
    return None


def close(wanted: Any, predicted: Any) -> bool:
    """Whether two nested lists have the same shape, and numbers that are equal within tolerance."""
    if isinstance(wanted, list):
        return (
            isinstance(predicted, list)
            and len(predicted) == len(wanted)
            and all(close(first, second) for first, second in zip(wanted, predicted))  # noqa: B905  Python 3.7
        )
    number = (int, float)
    if isinstance(wanted, number) and isinstance(predicted, number):
        try:
            same = math.isnan(wanted) and math.isnan(predicted)
            return same or math.isclose(wanted, predicted, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        except OverflowError:  # a whole number that no float has
            return bool(wanted == predicted)
    return bool(wanted == predicted)


def _short(value: Any) -> str:
    return asking.plain(json.dumps(value))[:60]
