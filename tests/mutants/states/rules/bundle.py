"""What a bundle says of itself, against the host's lock and platform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rule_states import PRE, State


def bare(found: dict[str, Any]) -> None:
    found["preflight"]["bundle"] = None


def states() -> Iterator[State]:
    rule = "bundle"
    good = {"place": "file:///srv/lab", "lock": "sha256:new", "platforms": ["debian11"]}

    def found(**other: Any) -> dict[str, Any]:
        return {PRE + "bundle": {**good, **other}}

    yield State(rule, "of this lock and platform", found())
    yield State(rule, "there is none", {PRE + "bundle": None})
    words = ("/srv/lab is of another lock: sha256:old, and this project's is sha256:new",
             "`provision bundle` in this project")  # fmt: skip
    yield State(rule, "of another lock", found(lock="sha256:old"), words)
    words = ("has nothing for debian11; it is for debian12, ubuntu2204", "--platform debian11")
    yield State(rule, "of other platforms", found(platforms=["debian12", "ubuntu2204"]), words)
    yield State(rule, "of several", found(platforms=["debian11", "debian12"]))
    unfit = {PRE + "bundle": {"message": "gpu_bundle: it is unfinished", "hint": "resume it"}}
    yield State(rule, "it could not be read", unfit, ("it is unfinished", "resume it"))
    yield State(rule, "nothing is to be changed", found(lock="sha256:old"), only=())
