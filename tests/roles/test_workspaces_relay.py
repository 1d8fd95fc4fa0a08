"""Workspaces: the ways that lead into containers, and what comes back by them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import (
    bring,
    jupyter,
    obstacles,
    port_sockets,
    proof,
    running_host,
)
from gpu_stack.components.gpu_workspace.program import docker, files, places, relay, settings
from gpu_stack.host import answer_limit
from workspace_machine import ADA, BOB, Machine, wish


def test_a_way_leads_by_the_containers_own_network(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By no address or port of the host's, which somebody else could have by then (M6)."""
    monkeypatch.setattr(relay, "_process", lambda _name: (os.getpid(), "c1"))
    # This process is in the network of the host: no container's.
    assert relay._entered("ada") is None


def test_another_process_of_the_same_number_is_not_entered(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([(os.getpid(), "c1"), (os.getpid(), "c2")])
    real = os.fstat
    monkeypatch.setattr(relay, "_process", lambda _name: next(answers))
    monkeypatch.setattr(relay.os, "fstat", lambda handle: real(0) if handle > 2 else real(handle))
    assert relay._entered("ada") is None


@pytest.mark.parametrize(
    ("code", "out", "expected"),
    [
        (0, "4711 abc ada\n", (4711, "abc")),
        (0, "0 abc ada\n", None),
        (0, "4711 abc bob\n", None),
        (0, "4711 abc <no value>\n", None),
        (1, "", None),
    ],
)
def test_only_a_container_that_runs_and_is_hers_is_entered(
    monkeypatch: pytest.MonkeyPatch, code: int, out: str, expected: Any
) -> None:
    monkeypatch.setattr(docker, "answer", lambda *_words, **_more: (code, out, ""))
    assert relay._process("ada") == expected


def test_who_connects_while_there_is_no_container_is_turned_away(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay ends, and systemd holds the port on: nobody else can open it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname(), timeout=5) as caller:
            relay._turn_away(os.dup(listener.fileno()))
            assert caller.recv(1) == b""
        with socket.create_connection(listener.getsockname(), timeout=5):
            pass


def test_each_listening_socket_has_a_proxy_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy serves 256 connections: whoever opens them at the port leaves the door's way open."""

    def noted(_program: str, words: list[str]) -> None:
        inherited = [handle for handle in (3, *handles) if os.get_inheritable(handle)]
        listens = socket.socket(fileno=3).getsockname()
        given = [os.environ["LISTEN_FDS"], os.environ["LISTEN_PID"] == str(os.getpid())]
        (tmp_path / "said").write_text(repr([listens, inherited, given, words[-1]]))
        os._exit(0)

    monkeypatch.setattr(relay.os, "execvp", noted)
    with socket.socket(socket.AF_UNIX) as door, socket.socket() as port:
        door.bind(str(tmp_path / "door"))
        port.bind(("127.0.0.1", 0))
        handles = [door.fileno(), port.fileno()]
        for listener in (door, port):
            listens = listener.getsockname()
            net = os.open("/proc/self/ns/net", os.O_RDONLY)
            child = relay._proxy(listener.fileno(), handles, net, 8888)
            assert os.waitpid(child, 0)[1] == 0
            os.close(net)
            expected = [listens, [3], ["1", True], "127.0.0.1:8888"]
            assert (tmp_path / "said").read_text() == repr(expected)


def test_a_process_that_ended_is_seen(machine: Machine) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        handle = os.open(f"/proc/{process.pid}", os.O_RDONLY)
        assert relay._lives(handle)
        process.kill()
        process.wait()
        assert not relay._lives(handle)
        os.close(handle)


def test_a_token_is_told_only_at_the_socket_that_root_opened(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody of the host could have opened the port while the container started anew (M6)."""
    bring.apply(wish(ADA))
    places_asked: list[tuple[Any, ...]] = []

    def ask(*arguments: Any) -> tuple[int, str]:
        places_asked.append(arguments)
        return 200, "[]"

    monkeypatch.undo()
    monkeypatch.setattr(files, "ROOT", str(machine.root))
    monkeypatch.setattr(jupyter, "ask", ask)
    context = running_host.context(wish(ADA))
    # Also where systemd has lost the socket.
    (machine.root / f"{places.PORTS}/ada.jupyter".lstrip("/")).unlink()
    obstacles.in_use(context, ["ada"], {"ada": settings.of_person("ada")})
    proof._jupyter("ada", {"port": 8801, "address": "127.0.0.1", "base": "/ada/"})
    sockets = {arguments[0] for arguments in places_asked if len(arguments) > 2 and arguments[2]}
    assert sockets == {places.PORTS + "/ada.jupyter"}
    assert len(places_asked) == 3


class Endless:
    """A Jupyter of the person's own: it answers for ever, a byte at a time or as fast as it can."""

    def __init__(self, begin: bytes, piece: bytes) -> None:
        self.begin, self.piece, self.listener = begin, piece, socket.socket()
        self.stop, self.stopped = threading.Event(), threading.Event()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller = self.listener.accept()[0]
                threading.Thread(target=self.answer, args=[caller], daemon=True).start()

    def answer(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError), caller:
            caller.recv(4096)
            caller.sendall(self.begin)
            while not self.stop.is_set():
                caller.sendall(self.piece)
                if len(self.piece) == 1:
                    time.sleep(0.05)
            self.stopped.set()
            caller.recv(1)  # stays connected until the other side has ended


def test_an_answer_that_is_too_long_is_read_in_part() -> None:
    endless = Endless(b"HTTP/1.1 200 OK\r\n\r\n", b"[" * 65536)
    status, text = jupyter.ask(endless.listener.getsockname(), "/")
    assert (status, text) == (200, "[" * jupyter.SAID)
    assert obstacles.opened(endless.listener.getsockname(), "token") == 0
    endless.listener.close()


@pytest.mark.parametrize(
    "begin",
    [
        b"HTTP/1.1 200 OK\r\n",
        # Of these http.client gives the socket away.
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
    ],
    ids=["head", "body of HTTP/1.0", "body that closes"],
)
def test_a_slow_answer_that_never_ends_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    """A server that answered a byte now and then held a run of root's for ever."""
    endless = Endless(begin, b"[")
    cut = answer_limit._cut

    def cut_in_silence(stream: socket.socket) -> None:
        """A piece between the cut and the next read would reset the connection."""
        endless.stop.set()
        assert endless.stopped.wait(60)
        cut(stream)

    with monkeypatch.context() as patch:
        patch.setattr(answer_limit, "_cut", cut_in_silence)
        status, text = jupyter.ask(endless.listener.getsockname(), "/", patience=0.5)
    assert status == 200
    assert len(text) < jupyter.SAID
    endless.stop.clear()
    monkeypatch.setattr(obstacles, "ANSWER", 0.5)
    assert obstacles.opened(endless.listener.getsockname(), "token") == 0
    endless.listener.close()


def test_behind_its_socket_jupyter_is_asked_by_a_hosts_name(
    tmp_path: Path,
) -> None:
    """Tornado since 6.5 answers 400 to a header Host that is a path."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "ada.jupyter"))
    listener.listen()
    requests = []

    def answer() -> None:
        caller = listener.accept()[0]
        with caller:
            requests.append(caller.recv(4096).decode("ascii"))
            caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server = threading.Thread(target=answer, daemon=True)
    server.start()
    assert jupyter.ask(str(tmp_path / "ada.jupyter"), "/ada/api/status", "secret") == (200, "{}")
    server.join(timeout=10)
    listener.close()
    assert "\r\nHost: localhost\r\n" in requests[0]
    assert "\r\nAuthorization: token secret\r\n" in requests[0]


def test_ports_of_who_is_gone_are_free(machine: Machine) -> None:
    bring.apply(wish({**ADA, "tensorboard_port": 8901}, BOB))
    assert port_sockets.opened_for("ada") == ["ada.jupyter", "ada.tensorboard"]
    bring.apply(wish(ADA, BOB))
    assert port_sockets.opened_for("ada") == ["ada.jupyter"]
    bring.apply(wish(BOB))
    assert port_sockets.opened_for("ada") == []
    assert port_sockets.opened_for("bob") == ["bob.jupyter"]
