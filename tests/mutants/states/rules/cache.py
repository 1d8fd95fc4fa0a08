"""What the fleet's cache says of itself, or that it says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rule_states import PRE, State


def bare(found: dict[str, Any]) -> None:
    found["preflight"]["cache"] = None


def states() -> Iterator[State]:
    good = {"place": "http://c:8088", "lock": "sha256:new", "platforms": ["debian11"]}

    def found(**other: Any) -> dict[str, Any]:
        return {PRE + "cache": {**good, **other}}

    silent = {"message": "gpu_cache: the cache http://c:8088 does not answer", "hint": "start it"}
    goes_on = {PRE + "cache": {**silent, "goes_on": True}}
    stops = {PRE + "cache": {**silent, "goes_on": False}}
    rule = "cache"
    yield State(rule, "of this lock and platform", found())
    yield State(rule, "there is none", {PRE + "cache": None})
    words = ("the cache http://c:8088 is of another lock: sha256:old, and this project's is "
             "sha256:new", "`ansible-playbook cache.yml -i lab`")  # fmt: skip
    yield State(rule, "of another lock", found(lock="sha256:old"), words)
    words = ("has nothing for debian11; it is for debian12", "--limit gpu07,gpu_cache")
    yield State(rule, "of another platform", found(platforms=["debian12"]), words)
    yield State(rule, "of several", found(platforms=["debian11", "debian12"]))
    yield State(rule, "it is silent", stops, ("does not answer", "start it"))
    yield State(rule, "nothing is to be changed", found(lock="sha256:old"), only=())
    rule = "cache-silent"
    words = ("does not answer; this host fetches from the lock's own addresses", "start it")
    yield State(rule, "the host goes on", goes_on, words)
    yield State(rule, "it answers", found())
    yield State(rule, "there is none", {PRE + "cache": None})
