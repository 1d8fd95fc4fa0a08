"""A host that can't be asked."""

from __future__ import annotations

from collections.abc import Iterator

from check_states import BY_ID, State


def states() -> Iterator[State]:
    refused = "ssh: connect to host gpu01 port 22: Connection refused"
    yield State(
        "host.answers",
        "there is no answer",
        {"error": refused},
        (refused, "ansible -m ping"),
        silent=tuple(name for name in BY_ID if name != "host.answers"),
    )
