"""A receipt of another lock, or none."""

from __future__ import annotations

from collections.abc import Iterator

from check_states import State


def states() -> Iterator[State]:
    yield State(
        "receipt.lock",
        "the receipt is of another lock",
        {"probe/receipt/lock_digest": "sha256:old"},
        ("finished run had another lock (sha256:old)", "run the playbook"),
    )
    yield State(
        "receipt.lock",
        "the receipt names no lock",
        {"probe/receipt/lock_digest": None},
        ("finished run had another lock (None)",),
    )
    yield State(
        "receipt.lock",
        "the receipt can't be read",
        {"probe/receipt": {"error": "/var/lib/provision/receipt.json can't be read"}},
        ("receipt.json can't be read", "a finished run writes it"),
    )
    yield State(
        "receipt.lock",
        "the lock here is another one",
        {"lock_digest": "sha256:new"},
        ("finished run had another lock (sha256:7385b4ce",),
    )
