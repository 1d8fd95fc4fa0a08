"""A host that serves a model, for the doctor's cases: what a run left there, made up.

TensorFlow Serving's answers and its journal are told as they are to be.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpu_stack.components.gpu_serving import door_files, places
from gpu_stack.host.context import Result

if TYPE_CHECKING:
    from doctor_patient import Patient

ADDRESS = "172.30.0.2"
ENTRY = {"name": "mnist", "models": "/srv/models/mnist", "gpus": [0], "port": 8501}
# Words of TensorFlow Serving's, as in tensorflow/serving#992.
NO_OP = "Op type not registered 'PyFunc' in binary running on iva. Make sure the Op and Kernel are"
FULL = (
    "2022-10-06 19:36:02.112233: I external/org_tensorflow/tensorflow/stream_executor/cuda/"
    "cuda_driver.cc:802] failed to allocate 9.39G (10084155392 bytes) from device: "
    "CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
)


def model_status(*rows: tuple[int, str, str]) -> dict[str, Any]:
    """What GET /v1/models/mnist answers: (version, state, error)."""
    return {
        "model_version_status": [
            {
                "version": str(number),
                "state": state,
                "status": {"error_code": "UNKNOWN" if error else "OK", "error_message": error},
            }
            for number, state, error in rows
        ]
    }


def unit(**more: Any) -> Result:
    """What systemctl shows of the container's unit, which has run for ten minutes."""
    words = {"ActiveState": "active", "SubState": "running", "NRestarts": 0, "ExecMainStatus": 0}
    words.update({"ActiveEnterTimestampMonotonic": 400_000_000, **more})
    return Result(0, "".join(f"{key}={words[key]}\n" for key in words), "")


def listens(uid: int) -> str:
    row = f"0: 0100007F:2135 00000000:0000 0A 0:0 00:0 0 {uid} 0 4711 1 0"
    return f"  sl  local_address\n{row}\n"


def serve(host: Patient, versions: tuple[str, ...] = ("2",)) -> None:
    """The host serves version 2 as it should, behind a front door."""
    record = {
        "settings": {"entry": ENTRY},
        "slot": "a",
        "addresses": {"a": ADDRESS, "b": "172.30.0.3"},
    }
    host.write(f"{places.folder('mnist')}/{places.RECORD}", json.dumps(record))
    host.write(f"{places.folder('mnist')}/token", "0123456789abcdef")
    texts = door_files.texts({"mnist": record}, {"mnist": "0123456789abcdef"})
    for path, text in texts.items():
        host.write(path, text)
        host.path(path).chmod(0o600 if path == places.DOOR_TOKENS else 0o644)
    door = {"settings": {"name": "gpu01.example.org", "serving": True}, "files": {}}
    host.write("/etc/gpu-front-door/door.json", json.dumps(door))
    for number in versions:
        host.write(f"/srv/models/mnist/{number}/saved_model.pb", b"")
    host.write("/proc/uptime", "1000.00 4000.00\n")
    host.write("/proc/net/tcp", listens(0))
    host.answers["systemctl"] = unit()
    host.answers["journalctl"] = Result(0, "Entering the event loop ...\n", "")
    host.models[ADDRESS] = model_status((2, "AVAILABLE", ""))


def restarts(host: Patient) -> None:
    serve(host)
    more = {"SubState": "auto-restart", "ActiveState": "activating", "NRestarts": 12}
    host.answers["systemctl"] = unit(**more, ExecMainStatus=137)
    del host.models[ADDRESS]


def unavailable(host: Patient) -> None:
    serve(host)
    host.models[ADDRESS] = model_status(
        (2, "END", "Could not find SavedModel .pb at /models/mnist/2")
    )


def older(host: Patient) -> None:
    serve(host, ("2", "3"))
    broken = "Data loss: Unable to parse tensor proto"
    host.models[ADDRESS] = model_status((3, "END", broken), (2, "AVAILABLE", ""))


def other_tensorflow(host: Patient) -> None:
    serve(host, ("2", "3"))
    host.models[ADDRESS] = model_status((3, "END", NO_OP), (2, "AVAILABLE", ""))


def gpu_memory(host: Patient) -> None:
    serve(host)
    host.models[ADDRESS] = model_status((2, "END", "Resource exhausted"))
    host.answers["journalctl"] = Result(0, FULL, "")


def port(host: Patient) -> None:
    """A user's program has opened the port in systemd's absence."""
    serve(host)
    host.write("/proc/net/tcp", listens(1000))
    host.write("/proc/77/comm", "python3\n")
    host.link("/proc/77/fd/3", "socket:[4711]")


def door(host: Patient) -> None:
    serve(host)
    host.remove(places.DOOR_PATHS)


# As BROKEN of doctor_cases.py.
BROKEN: dict[str, tuple[Callable[[Patient], None], str, str]] = {
    "serving-restarts": (restarts, "begun again 12 times, and ended with status 137", "-mnist.a"),
    "serving-unavailable": (unavailable, "Could not find SavedModel", "ls -l /srv/models/mnist"),
    "serving-older": (older, "version 2 still serves", "ls -l /srv/models/mnist/3"),
    "serving-other-tensorflow": (other_tensorflow, "Op type not registered 'PyFunc'", "explain"),
    "serving-gpu-memory": (gpu_memory, "failed to allocate 9.39G", "nvidia-smi"),
    "serving-port": (port, "port 8501 of mnist: python3 (uid 1000) listens", "'sport = :8501'"),
    "serving-door": (door, f"{places.DOOR_PATHS}: absent", "--tags gpu_serving"),
}
