"""Finds the processes that have files below a directory open as code.

A run that takes such a directory away would break them: libraries are opened when they are needed
first, also late in a job.
"""

from __future__ import annotations

import os

from ..type_checking import TYPE_CHECKING
from .processes import process
from .refusal import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .context import Context


def resolved(context: Context, paths: dict[str, str]) -> dict[str, str]:
    """{name: real path} of those of these directories that exist."""
    real = {name: context.resolve(path) for name, path in paths.items()}
    return {name: path for name, path in real.items() if path is not None}


def using(context: Context, places: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    """{name: [{pid, user, command}]} of processes that have files below these open as code."""
    return {
        name: [process(context, pid, comm) for pid, comm in users]
        for name, users in users_of(context, places).items()
    }


def names_of_users(context: Context, directories: Iterable[str]) -> list[str]:
    """["pid 77 (python)"] of processes that use one of these directories."""
    users = users_of(context, resolved(context, {path: path for path in directories}))
    every = {user for processes in users.values() for user in processes}
    return [
        f"pid {pid} ({comm})"
        for pid, comm in sorted(every, key=lambda user: int(user[0]))
        if int(pid) != os.getpid()
    ]


def refuse(context: Context, directories: Iterable[str]) -> None:
    """RefusalError where a process uses one of these directories."""
    for path in directories:
        users = names_of_users(context, [path])
        if users:
            raise RefusalError(
                f"{path} is in use by {', '.join(users[:5])}: nothing of it was touched, and none "
                "is ever ended for you."
            )


def users_of(context: Context, places: dict[str, str]) -> dict[str, list[tuple[str, str]]]:
    """{name: [(pid, name of the process)]} of processes that have files below these open as code.

    In a container root may not read the maps of others; there their command line decides.
    """
    users: dict[str, list[tuple[str, str]]] = {}
    for path in context.glob("/proc/[0-9]*/maps") if places else []:
        text = context.read(path)
        if text is None:
            line = context.read(path[: -len("maps")] + "cmdline")
            if line is None:
                continue
            text = started(context, line)
        for name in sorted(places):
            if places[name] + "/" in text:
                pid = path.split("/")[2]
                comm = (context.read(f"/proc/{pid}/comm") or "").strip()
                users.setdefault(name, []).append((pid, comm))
    return users


def in_words(users: dict[str, list[dict[str, Any]]], what: str) -> list[str]:
    """Sentences on these users, as of `using`, of directories that a run would remove."""
    return [
        f"pid {user['pid']} of {user['user']} uses {what}{name}, which would be removed: "
        f"{user['command']}"
        for name in sorted(users)
        for user in users[name]
    ]


def started(context: Context, line: str) -> str:
    """The real directories of a command line's program and of its script, a line each."""
    paths = [word.rpartition("/")[0] for word in line.split("\0")[:2] if word.startswith("/")]
    return "\n".join(f"{context.resolve(path or '/')}/" for path in paths)
