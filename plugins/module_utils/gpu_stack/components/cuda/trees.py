"""Removes trees of NVIDIA's packages, as /usr/local/cuda-11.8, that this program brought.

A record in each tree names the packages that its role installed. What was on the host before the
first run stays, and so does what the wished release needs too. A tree that a process uses is not
removed: it may open a library of that tree yet.
"""

from __future__ import annotations

import glob
import os

from ...host import apt_commands, code_users, directory_entries
from ...host.context import Context
from ...host.package_removal import ledger
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import tree_in_use
from .nvidia_cuda import MARK

if TYPE_CHECKING:
    from typing import Any

TREES = "/usr/local/cuda-*"
PROFILE = "bin/nvcc.profile"
DIVERT = ("dpkg-divert", "--local", "--rename", "--remove")


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; raises RefusalError or OSError."""
    if params["state"] == "present":
        return tree_in_use.settle(params, check_mode)
    removed = [tree for tree in recorded() if tree != params["keep"].rstrip("/")]
    going = [] if check_mode else removed
    code_users.refuse(Context(), going)
    for tree in going:
        remove(Context(), tree, params["packages"], params["wait"])
    return {"changed": bool(removed), "removed": removed}


def recorded() -> list[str]:
    """The trees with a record."""
    return [
        tree
        for tree in sorted(glob.glob(TREES))
        if not os.path.islink(tree) and os.path.lexists(f"{tree}/{MARK}")
    ]


def remove(context: Context, tree: str, wished: list[str], wait: int = 0) -> None:
    """Removes the packages of a tree, what the role added to it, and what is empty then."""
    with open(f"{tree}/{MARK}", encoding="utf-8") as file:
        names = set(file.read().split())
    theirs = names.intersection(ledger(context, "cuda", []).theirs)
    going = [
        name
        for name in sorted(names - theirs - set(wished))
        if context.packages.get(name, {}).get("status") == "installed"
    ]
    _give_profile_back(tree)
    if going:
        # dpkg itself, for apt would also remove what somebody else has installed upon them.
        answer = apt_commands.run(["dpkg", "--purge", *going], wait)
        if answer.rc != 0:
            words = " ".join(apt_commands.errors(answer)) or answer.err.strip()
            raise RefusalError(f"dpkg could not remove the packages of {tree}: {words} Run again.")
    # What was there before the first run leads somebody to their own libraries.
    if not theirs:
        # Fails where NVIDIA's own scripts did it.
        apt_commands.run(["update-alternatives", "--remove", "cuda", tree])
    directory_entries.remove(f"{tree}/host-compiler")
    directory_entries.remove(f"{tree}/{MARK}")
    for directory, _names, _files in os.walk(tree, topdown=False):
        if not os.listdir(directory):
            os.rmdir(directory)


def _give_profile_back(tree: str) -> None:
    """Puts NVIDIA's own profile of nvcc back where the role's stands."""
    profile = f"{tree}/{PROFILE}"
    if not os.path.lexists(f"{profile}.distrib"):
        return
    directory_entries.remove(profile)
    answer = apt_commands.run([*DIVERT, profile])
    if answer.rc != 0:
        raise RefusalError(f"dpkg-divert could not give {profile} back: {answer.err.strip()}")
