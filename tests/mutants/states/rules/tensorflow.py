"""Processors and GPUs that a TensorFlow has no code for, and environments in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import fresh
from rule_states import JOB, PRE, State, machine

from .nvidia_driver import WINDOWS


@fresh
def repaired() -> dict[str, Any]:
    """The machine, whose environment of TensorFlow is made anew; made up."""
    data = machine()
    data["found"]["state"]["tensorflow"]["root"] = {"parents": None}
    data["found"]["preflight"]["venvs"] = {
        "2.9.3-444c500c": {"kind": "anew", "more": [], "using": [], "kept": None}
    }
    return data


def states() -> Iterator[State]:
    yield from processor_states()
    yield from code_states()
    yield from conda_states()
    yield from venv_states()


def processor_states() -> Iterator[State]:
    yield State(
        "avx",
        "the processor has no AVX",
        {PRE + "avx": False},
        ("the processor has no AVX", "Illegal instruction", "host-passthrough"),
    )
    yield State("avx", "the processor's flags can't be read", {PRE + "avx": None})
    yield State("avx", "TensorFlow is not changed", {PRE + "avx": False}, only=("cuda",))


# Generation that TensorFlow 2.21 has no code for: what its message says to do.
WITHOUT_CODE = {
    "Fermi": "out of the group",
    "Kepler": "older than 2.15",
    "Maxwell": "older than 2.17",
    "Blackwell": "out of the group",
}


def code_states() -> Iterator[State]:
    for name, device, _first, _last in WINDOWS:
        for version in ("2.15.1", "2.16.0"):
            row = {"row/tensorflow/version": version, "row/nvidia_driver/branch": "575"}
            trips = name == "Hopper" and version == "2.15.1"
            old = ("gpu-driver-window",) if name in ("Fermi", "Kepler") else ()
            none = name in ("Fermi", "Blackwell", "Kepler")
            old += ("gpu-without-code",) if none else ()
            yield State(
                "gpu-translated",
                f"{name} with TensorFlow {version}",
                {"found/gpus/0/device": device, "found/gpus/1/device": device, **row},
                (f"TensorFlow 2.15.1 has no code for a {name} GPU", "newer than 2.15")
                if trips
                else (),
                also=old,
            )
    for name, device, _first, _last in WINDOWS:
        for version in ("2.21.0", "2.22.0"):
            row = {"row/tensorflow/version": version, "row/nvidia_driver/branch": "575"}
            trips = name in WITHOUT_CODE and version == "2.21.0"
            words = (f"TensorFlow 2.21.0 does not run on a {name} GPU", WITHOUT_CODE.get(name, ""))
            yield State(
                "gpu-without-code",
                f"{name} with TensorFlow {version}",
                {"found/gpus/0/device": device, "found/gpus/1/device": device, **row},
                words if trips else (),
                also=("gpu-driver-window",) if name in ("Fermi", "Kepler") else (),
            )


def conda_states() -> Iterator[State]:
    rule = "conda"
    yield State(
        rule,
        "conda stands first in PATH",
        {PRE + "conda": ["/root/.bashrc", "/home/alice/.profile"]},
        ("after login (/root/.bashrc, /home/alice/.profile)", "auto_activate_base false"),
    )
    yield State(rule, "conda is not there", {PRE + "conda": []})
    yield State(rule, "TensorFlow is not changed", {PRE + "conda": ["/root/.bashrc"]},
                only=("cuda",))  # fmt: skip


def venv_states() -> Iterator[State]:
    """Environments that are changed under people, or with what people put into them."""
    venv = PRE + "venvs/2.9.3-444c500c/"
    rule, here = "venv-in-use", {"base": repaired, "only": ("tensorflow",)}
    anew = "pid 4711 of ada uses TensorFlow's environment 2.9.3-444c500c, which would be made anew"
    yield State(rule, "a job", {venv + "using": [JOB]}, (anew, "none is ever ended"), **here)
    changed = {venv + "using": [JOB], venv + "kind": "changed"}
    yield State(rule, "wheels are put back", changed, ("would be changed: python",), **here)
    yield State(rule, "nobody uses it", {venv + "using": []}, **here)
    rule = "venv-kept"
    more = {venv + "more": ["pandas 2.0.3", "mine.py"], venv + "kept": "/opt/tensorflow/x.save"}
    words = ("stays in /opt/tensorflow/x.save: pandas 2.0.3, mine.py", "x.save/bin/python -m pip")
    yield State(rule, "packages of people's", more, words, **here)
    yield State(rule, "the locked wheels alone", {venv + "more": []}, **here)
    rule, place = "venv-parents", "found/state/tensorflow/root/parents"
    why = "/data is writable for all"
    yield State(rule, "others may write", {place: why}, (why, "chmod go-w"), **here)
    yield State(rule, "root alone", {place: None}, **here)
