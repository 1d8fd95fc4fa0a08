"""What systemd and people call.

Each command imports what it needs and no more: a relay is begun for each port that somebody asks.
"""

from __future__ import annotations

import json
import sys

from .places import RefusedError

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Callable

USAGE = """\
gpu-workspace list          who has what on this host
gpu-workspace command NAME  the docker command of a workspace
gpu-workspace compose NAME  the same as a compose file; with --runtime for an old compose
gpu-workspace gpus          what the workspaces' containers list of their GPUs
(run, stop and relay are for systemd)"""


def _list() -> str:
    from . import listing

    return listing.listed() + "\n"


def _command(name: str) -> str:
    from . import command

    return json.dumps(["docker", *command.command(name)]) + "\n"


def _compose(name: str, *options: str) -> str:
    from . import compose

    return compose.compose(name, *options)


def _gpus() -> str:
    from . import handed_gpus

    return json.dumps(handed_gpus.handed()) + "\n"


def _run(name: str) -> None:
    from . import containers

    containers.run(name)


def _stop(name: str) -> None:
    from . import containers

    containers.stop(name)


def _relay(port: str) -> None:
    from . import relay

    relay.relay(port)


# {command: (what it does, how many words it takes, how many it takes at most)}
COMMANDS: dict[str, tuple[Callable[..., str | None], int, int | None]] = {
    "list": (_list, 0, 0),
    "command": (_command, 1, 1),
    "compose": (_compose, 1, None),
    "gpus": (_gpus, 0, 0),
    "run": (_run, 1, 1),
    "stop": (_stop, 1, 1),
    "relay": (_relay, 1, 1),
}


def main(argv: list[str]) -> int:
    """Does what the words say; the exit code: 0, 1 where it was refused, 2 for other words."""
    name, rest = (argv[0], argv[1:]) if argv else ("", [])
    if name not in COMMANDS or len(rest) < COMMANDS[name][1]:
        sys.stderr.write(USAGE + "\n")
        return 2
    act, _least, most = COMMANDS[name]
    try:
        sys.stdout.write(act(*rest[:most]) or "")
    except (RefusedError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
