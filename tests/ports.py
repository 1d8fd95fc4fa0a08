"""TCP ports of the loopback address for programs of tests."""

from __future__ import annotations

from provision.locallab.vm.guest import free_port


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on just now."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)
