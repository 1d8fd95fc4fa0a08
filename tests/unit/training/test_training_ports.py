"""Listeners and connections of a look, over this machine's own sockets."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_stack.host.context import Context
from gpu_stack.training import look, ports

from provision.locallab.vm.guest import free_port

ME = ("me", os.geteuid(), os.getegid())
TOKEN = "abcdef0123456789"  # noqa: S105 a look's mark, no secret


@pytest.fixture
def port() -> Iterator[int]:
    number = free_port()
    held, chosen = ports.listen(Context(), [number], TOKEN, ME)
    assert held == {}
    assert chosen
    assert ports.reach("127.0.0.1", chosen, TOKEN) == ports.OPEN
    yield number
    ports.release([number], TOKEN)


def test_a_listener_is_reached_by_its_token_and_ends_when_asked(port: int) -> None:
    assert ports.reach("127.0.0.1", port, TOKEN) == ports.OPEN
    assert ports.reach("127.0.0.1", port, "another") == "something else answers there"
    ports.release([port], "another")
    assert ports.reach("127.0.0.1", port, TOKEN) == ports.OPEN
    ports.release([port], TOKEN)
    assert "refused" in ports.reach("127.0.0.1", port, TOKEN)


def test_nobody_listens_for_a_user_that_is_not_there() -> None:
    params = {"ports": [free_port()], "token": TOKEN, "user": "nobody-here"}
    assert look.listen(Context(), params) == {"ports": {}, "any_port": None}


def test_who_holds_a_port_is_named() -> None:
    number = free_port()
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("", number))
        listener.listen(1)
        names, chosen = ports.listen(Context(), [number], TOKEN, ME)
    (held,) = names.values()
    assert chosen is None
    assert f"(pid {os.getpid()})" in held


def test_another_look_is_no_foreign_program(port: int) -> None:
    (held,) = ports.listen(Context(), [port], "another", ME)[0].values()
    assert "the look of another `provision train`" in held


def test_a_listener_that_somebody_keeps_busy_goes_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "LONGEST", 1.0)
    number = free_port()
    assert ports.listen(Context(), [number], TOKEN, ME)[0] == {}
    deadline = time.monotonic() + 10
    while ports.reach("127.0.0.1", number, TOKEN) == ports.OPEN:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_worker_that_holds_a_port_is_named_with_its_job(tmp_path: Path) -> None:
    process = tmp_path / "proc" / "7"
    process.mkdir(parents=True)
    (process / "comm").write_text("python\n")
    (process / "status").write_text("Uid:\t7\t7\t7\t7\n")
    words = "python of 7 (pid 7)"
    assert ports._process(Context(str(tmp_path)), "7") == words
    (process / "cgroup").write_text("0::/system.slice/provision-train-my-job-0.service\n")
    assert ports._process(Context(str(tmp_path)), "7") == words + ", of the training my-job"


def test_all_places_are_asked_at_once(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    places = [
        {"host": "gpu01", "address": "127.0.0.1", "port": port},
        {"host": "gpu02", "address": "127.0.0.1", "port": free_port()},
    ]
    first, second = ports.reach_all(places, TOKEN)
    assert first["answer"] == ports.OPEN
    assert "refused" in second["answer"]

    def slow(*_arguments: object) -> str:
        time.sleep(0.3)
        return ports.OPEN

    monkeypatch.setattr(ports, "reach", slow)
    begun = time.monotonic()
    assert {entry["answer"] for entry in ports.reach_all(places * 10, TOKEN)} == {ports.OPEN}
    assert time.monotonic() - begun < 2


def test_who_listens_and_says_nothing_is_not_open() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        assert "no answer" in ports.reach(
            "127.0.0.1", listener.getsockname()[1], TOKEN, patience=0.2
        )
