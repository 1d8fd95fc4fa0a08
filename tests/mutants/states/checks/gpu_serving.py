"""Models that aren't served, or that anybody may ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import State, fresh, machine


@fresh
def served() -> dict[str, Any]:
    """The machine, which serves a model behind a door; made up."""
    data = machine()
    model = {"name": "mnist", "models": "/srv/models/mnist", "gpus": "none", "port": 8501}
    data["options"] |= {"gpu_front_door_name": "gpu01.example.org", "gpu_servings": [model]}
    data["options"]["gpu_workspaces"] = []
    page = {"status": 200, "tls": "TLSv1.3", "error": None, "names": []}
    data["probe"]["front_door"] = {"page": page, "paths": {}, "plain": 400}
    versions = [{"version": "2", "state": "AVAILABLE", "error": ""}]
    data["probe"]["served_models"] = {
        "mnist": {
            "unit": "active",
            "port": "active",
            "versions": versions,
            "there": ["2", "3"],
            "door": 401,
        }
    }
    return data


def states() -> Iterator[State]:
    model = "probe/served_models/mnist"
    runs, available, strangers = (
        f"gpu_serving.{name}" for name in ("runs", "available", "strangers")
    )
    broken = {"version": "3", "state": "END", "error": "Op type not registered 'Foo'"}
    older = {"version": "2", "state": "AVAILABLE", "error": ""}
    loading = {"version": "1", "state": "LOADING", "error": ""}
    for check, fact, changes, words in (
        (runs, "a unit is gone", {f"{model}/unit": "not there"}, "mnist: its unit is not there"),
        (
            runs,
            "a unit begins again and again",
            {f"{model}/unit": "activating"},
            "mnist: its unit is activating",
        ),
        (
            runs,
            "systemd does not hold the port",
            {f"{model}/port": "failed"},
            "mnist: its port's unit is failed",
        ),
        (
            available,
            "nothing answers",
            {f"{model}/versions": None},
            "mnist: nothing answers at its port",
        ),
        (
            available,
            "a new version does not load",
            {f"{model}/versions": [broken, older]},
            "mnist: version 3 does not load: Op type not registered 'Foo'; version 2 still serves",
        ),
        (
            available,
            "no version is loaded",
            {f"{model}/versions": [loading]},
            "mnist: no version serves",
        ),
        (
            strangers,
            "anybody is answered",
            {f"{model}/door": 200},
            "mnist: the door answers 200",
        ),
        (
            strangers,
            "the door leads nowhere",
            {f"{model}/door": None},
            "mnist: the door answers nothing",
        ),
    ):
        yield State(check, fact, changes, (words,), base=served, machine_only=True)
