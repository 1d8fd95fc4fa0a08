"""Ports for a virtual machine's forwarding, and for programs of tests."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

import pytest

from provision.locallab.vm.guest import free_port


def first_given() -> int:
    """The lowest port that the kernel gives to whoever asks for any."""
    return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def test_a_free_port_is_none_that_the_kernel_gives_to_others() -> None:
    ports = [free_port() for _ in range(20)]
    assert all(1024 < port < first_given() for port in ports)
    assert len(set(ports)) > 10
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_a_port_that_somebody_has_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port()
    again, real = iter([first_given() - 1 - first] * 2), secrets.randbelow
    monkeypatch.setattr("secrets.randbelow", lambda bound: next(again, real(bound)))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first))
        assert free_port() != first
    assert next(again, None) is None
