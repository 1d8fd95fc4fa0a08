"""systemd's sockets on the host's ports that lead to Jupyter and TensorBoard."""

from __future__ import annotations

import os
import shutil

from ...type_checking import TYPE_CHECKING
from . import wished
from .program import files, places, programs

if TYPE_CHECKING:
    from typing import Any


def listen_file(port: str) -> str:
    return f"{places.UNITS_PLACE}/{places.PORT.format(port)}.d/address.conf"


def opened_for(name: str) -> list[str]:
    """The ports that systemd holds for a person, wished for or not."""
    before, after = places.PORT.split("{0}")
    try:
        units = os.listdir(files.inside(places.UNITS_PLACE))
    except FileNotFoundError:
        return []
    ports = [unit[len(before) : -len(after + ".d")] for unit in units
             if unit.startswith(before + name + ".") and unit.endswith(after + ".d")]  # fmt: skip
    return sorted(ports)


def close_ports(names: list[str]) -> None:
    """Closes systemd's sockets of these ports, and their connections."""
    if names:
        units = [places.PORT.format(port) for port in names]
        relays = [port[: -len("socket")] + "service" for port in units]
        programs.call(["systemctl", "disable", "--now", *units], timeout=300)
        programs.call(["systemctl", "stop", *relays], timeout=300)
    for port in names:
        shutil.rmtree(os.path.dirname(files.inside(listen_file(port))), ignore_errors=True)


def hold_ports(settled: dict[str, dict[str, Any]]) -> None:
    """systemd holds the ports of these people, {name: settings}; their containers are stopped."""
    contents: dict[str, str] = {}
    for name in settled:
        listens = wished.listens(settled[name])
        ours = opened_for(name)
        close_ports([port for port in ours if files.text(listen_file(port)) != listens.get(port)])
        contents.update(listens)
    for port in contents:
        os.makedirs(os.path.dirname(files.inside(listen_file(port))), mode=0o755, exist_ok=True)
        files.put(listen_file(port), contents[port], 0o644)
    programs.must(programs.call(["systemctl", "daemon-reload"]), "systemctl daemon-reload")
    if contents:
        units = [places.PORT.format(port) for port in sorted(contents)]
        programs.must(programs.call(["systemctl", "enable", *units]), "systemctl enable")
        programs.must(programs.call(["systemctl", "start", *units], timeout=300), "systemctl start")
