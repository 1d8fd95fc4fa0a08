"""A front door that does not answer, lists others or lets anybody in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import State, fresh

from .gpu_workspace import shared


@fresh
def doored() -> dict[str, Any]:
    """The machine with workspaces and a door to them; made up."""
    data = shared()
    data["options"] |= {"gpu_front_door_name": "gpu01.example.org"}
    page = {"status": 200, "tls": "TLSv1.3", "error": None, "names": ["ada", "bob"]}
    paths = {"/ada/api/status": 403, "/ada/tensorboard/": 302, "/bob/": 404}
    data["probe"]["front_door"] = {"page": page, "paths": paths, "plain": 400}
    return data


def states() -> Iterator[State]:
    door = "probe/front_door"
    answers, page, strangers = (
        f"gpu_front_door.{name}" for name in ("answers", "page", "strangers")
    )
    refused = "[Errno 111] Connection refused"
    for check, fact, changes, words in (
        (answers, "nobody answers", {f"{door}/page/error": refused}, refused),
        (answers, "TLS of yesterday", {f"{door}/page/tls": "TLSv1.1"}, "it speaks TLSv1.1"),
        (answers, "plain HTTP is answered", {f"{door}/plain": 200}, "answers in plain HTTP"),
        (page, "there is no page", {f"{door}/page/status": 404}, "page has status 404"),
        (
            page,
            "somebody is missing",
            {f"{door}/page/names": ["bob"]},
            "lists bob, not ada, bob",
        ),
        (
            page,
            "somebody is there still",
            {f"{door}/page/names": ["ada", "bob", "eve"]},
            "lists ada, bob, eve, not ada, bob",
        ),
        (page, "nobody is listed", {f"{door}/page/names": []}, "lists nobody, not ada, bob"),
        (
            strangers,
            "anybody gets to Jupyter",
            {f"{door}/paths": {"/ada/api/status": 200}},
            "/ada/api/status answers with status 200",
        ),
        (
            strangers,
            "anybody sees the board",
            {f"{door}/paths": {"/ada/tensorboard/": 200}},
            "/ada/tensorboard/ answers with status 200",
        ),
        (
            strangers,
            "nothing answers",
            {f"{door}/paths": {"/ada/api/status": None}},
            "/ada/api/status answers with status nothing",
        ),
        (
            strangers,
            "a path for somebody who has none",
            {f"{door}/paths": {"/bob/": 200}},
            "/bob/ answers with status 200",
        ),
    ):
        yield State(check, fact, changes, (words,), base=doored, machine_only=True)
