"""People's uids, and whether accounts of the host can reach the homes.

A program that a container leaves in a home can run outside it as the account that has its uid on
the host. So each person has a uid that no account has, and the homes' root is root's alone. This
only finds differences; `uids` assigns the uids and records them.
"""

from __future__ import annotations

import os
import re
import stat

from ...host import mapping
from ...type_checking import TYPE_CHECKING
from . import wished
from .program import places, traits

if TYPE_CHECKING:
    from typing import Any, Collection

    from ...host.context import Context

PATIENCE = "20"


def accounts(context: Context, numbers: Collection[int], kind: str = "passwd") -> dict[int, str]:
    """{number: name} of the host's accounts ("passwd") or groups ("group") among these numbers.

    From getent, which also asks LDAP; from the host's own file if that does not answer in time.
    """
    lines = (context.read("/etc/" + kind) or "").splitlines()
    if numbers:
        command = ["timeout", PATIENCE, "getent", kind]
        lines += context.run([*command, *sorted(map(str, numbers))]).out.splitlines()
    rows = [line.split(":") for line in lines]
    names = {int(row[2]): row[0] for row in rows if len(row) > 3 and row[2].isdigit()}
    return {number: names[number] for number in numbers if number in names}


def delegated(context: Context, number: int) -> str | None:
    """Whose user namespaces have this uid or gid (/etc/subuid, /etc/subgid), or None."""
    for path in ("/etc/subuid", "/etc/subgid"):
        for line in (context.read(path) or "").splitlines():
            match = re.match(r"([^:]+):(\d+):(\d+)$", line)
            if match and 0 <= number - int(match.group(2)) < int(match.group(3)):
                return f"{match.group(1)} ({path})"
    return None


def look(context: Context, people: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """{users: {name: "uid:gid"}, taken: {name: why}, homes: {name: "uid:gid"}, root: mode}.

    `users` are the people who have a uid, `taken` those whose wished uid is in use by another;
    `root` is None where the homes' root is root's alone, or missing.
    """
    state: dict[str, Any] = {"users": {}, "taken": {}, "homes": {}, "root": _root(context)}
    uids = recorded(context)
    wished_users = {name: people[name].get("user") or "" for name in people}
    asked = set(uids.values()) | {
        traits.numbers(wished_users[name])[0] for name in people if wished_users[name]
    }
    owners = {name: _owner(context, name) for name in people}
    homes = {name: owner for name, owner in owners.items() if owner}
    asked |= {int(owner.split(":")[0]) for owner in homes.values()}
    account_names = accounts(context, asked)
    for name in people:
        if name in homes:
            account = account_names.get(int(homes[name].split(":")[0]))
            state["homes"][name] = {"owner": homes[name], "account": account}
        uid = uids.get(name)
        if wished_users[name]:
            state["users"][name] = "{0}:{1}".format(*traits.numbers(wished_users[name]))
            why = taken(context, wished_users[name], account_names)
            if why:
                state["taken"][name] = why
        elif uid is not None and uid not in account_names and not delegated(context, uid):
            state["users"][name] = f"{uid}:{uid}"
    return state


def recorded(context: Context) -> dict[str, int]:
    """{name: uid} of all uids ever assigned here, also to people who were removed."""
    pairs = (mapping.of(context.read(places.USERS)) or {}).items()
    return {name: uid for name, uid in pairs if isinstance(uid, int) and not isinstance(uid, bool)}


def _owner(context: Context, name: str) -> str | None:
    """ "uid:gid" of a home; None where there is none, or it is something else."""
    seen = context.lstat(f"{wished.root_of(context.options)}/{name}")
    if seen is None or not stat.S_ISDIR(seen.st_mode):
        return None
    return f"{seen.st_uid}:{seen.st_gid}"


def _root(context: Context) -> str | None:
    """Mode and owner of a homes' root that others than root can enter; None if only root can."""
    seen = context.stat(wished.root_of(context.options))
    if seen is None:
        return None
    mode = stat.S_IMODE(seen.st_mode)
    if mode == 0o700 and seen.st_uid == os.geteuid():
        return None
    return f"mode {mode:04o} of uid {seen.st_uid}"


def taken(context: Context, user: str, account_names: dict[int, str]) -> str | None:
    """Why a person must not have the uid of `user`, or None; "0:0" is openly root."""
    uid, gid = traits.numbers(user)
    if uid == 0:
        return None
    if uid in account_names:
        return f"is {account_names[uid]}, an account of this host"
    holder = delegated(context, uid) or delegated(context, gid)
    if holder:
        return f"is among the numbers that {holder} has for containers"
    for line in (context.read("/etc/passwd") or "").splitlines():
        row = line.split(":")
        if len(row) > 3 and row[3] == str(gid):
            return f"has the group of {row[0]}, an account of this host"
    # 100 is `users`, which gives no rights; other system groups (docker, sudo, disk) do.
    return "has a group of the system" if gid < 1000 and gid != 100 else None


def unfit(context: Context) -> str | None:
    """Why a directory can't be the homes' root, which root alone enters; None where it can."""
    root = wished.root_of(context.options)
    for path in (root, _real(context, root)):
        if path.rstrip("/") in places.SHARED_PLACES or path == "/":
            return f"{path} holds more than homes, and nobody else could use it"
        for line in (context.read("/etc/passwd") or "").splitlines():
            home = line.split(":")[5] if line.count(":") == 6 else ""
            if (home.rstrip("/") + "/").startswith(path.rstrip("/") + "/"):
                return "{0} is in it, the home of {1}".format(home, line.split(":")[0])
        why = _way(context, path)
        if why:
            return why
    return None


def _real(context: Context, path: str) -> str:
    """`path` without links, as far as it exists."""
    missing = []
    while path != "/" and context.resolve(path) is None:
        missing.append(os.path.basename(path))
        path = os.path.dirname(path)
    return os.path.join(context.resolve(path) or path, *reversed(missing))


def swapped(context: Context, people: dict[str, dict[str, Any]]) -> dict[str, str]:
    """{name: why} of the people with a volume that others than root could replace by a link.

    docker follows that link as root when the container starts: into another person's home, or /.
    """
    reasons: dict[str, str] = {}
    for name in sorted(people):
        for path in [volume["path"] for volume in people[name].get("volumes") or []]:
            candidates = (path, context.resolve(path) or path)
            why = next(filter(None, (_movable(context, place) for place in candidates)), None)
            if why is not None:
                reasons.setdefault(name, f"{path}: {why}")
    return reasons


def _movable(context: Context, path: str) -> str | None:
    """Who else than root can replace a directory itself; None: nobody."""
    why = _way(context, path)
    seen, around = context.lstat(path), context.lstat(os.path.dirname(path.rstrip("/")) or "/")
    if why or around is None or not around.st_mode & stat.S_ISVTX:
        return why
    # In a directory like /tmp everybody can rename their own entries, and create missing ones.
    if seen is not None and seen.st_uid in (0, os.geteuid()):
        return None
    return "others can make or replace it in {0}".format(os.path.dirname(path.rstrip("/")))


def _way(context: Context, path: str) -> str | None:
    """Who else than root can replace a directory above `path`; None: nobody."""
    parent = path.rstrip("/")
    while parent not in ("", "/"):
        parent = os.path.dirname(parent)
        why = _writable(context, parent)
        if why:
            return why
    return None


def _writable(context: Context, path: str) -> str | None:
    """Who else than root can rename a directory's entries; None: nobody, or it is missing."""
    seen = context.lstat(path)
    if seen is None:
        return None
    if seen.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to uid {seen.st_uid}, who could replace what is in it"
    if stat.S_ISLNK(seen.st_mode) or seen.st_mode & stat.S_ISVTX:
        return None
    if seen.st_mode & stat.S_IWOTH or (seen.st_mode & stat.S_IWGRP and seen.st_gid):
        mode = stat.S_IMODE(seen.st_mode)
        return f"{path} has mode {mode:04o}: others can replace what is in it"
    return None


def scratch(person: dict[str, Any]) -> list[str]:
    """Paths of the volumes that a person can write to; a run does not change owners in them."""
    return [volume["path"] for volume in person.get("volumes") or [] if volume.get("writable")]
