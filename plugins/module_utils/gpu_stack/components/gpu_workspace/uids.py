"""Gives each person a uid of their own."""

from __future__ import annotations

import json
import os

from ...type_checking import TYPE_CHECKING
from . import homes, wished, workspace_users
from .program import files, places

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context

# Above the uids of accounts and of systemd's own, below those that useradd hands out for user
# namespaces: https://systemd.io/UIDS-GIDS/
FIRST_USER, LAST_USER = 70000, 99999


def own_users(context: Context, people: list[dict[str, Any]]) -> dict[str, str]:
    """{name: "uid:gid"} of those who have one; a recorded uid that an account has now is left out.

    RefusedError where a person's `user` is an account of the host: that account could run the
    person's programs outside the container and read the home. "0:0" is accepted: it says openly
    that the person is root in the container.
    """
    seen = workspace_users.look(context, {person["name"]: person for person in people})
    for person in people:
        why = seen["taken"].get(person["name"])
        if why:
            raise places.RefusedError(
                "user {0} of {1} {2}; leave `user` out, then the host gives {1} a number of their "
                "own".format(person["user"], person["name"], why)
            )
    users: dict[str, str] = seen["users"]
    return users


def assign(context: Context, people: list[dict[str, Any]]) -> dict[str, str]:
    """{name: "uid:gid"} of all people; new ones are recorded before they are used."""
    root = wished.root_of(context.options)
    users, recorded = own_users(context, people), workspace_users.recorded(context)
    lacking = [person["name"] for person in people if person["name"] not in users]
    names = os.listdir(files.inside(root)) if os.path.isdir(files.inside(root)) else []
    owners = {
        name: int((homes.owner_of(places.home_of(root, name)) or "0").partition(":")[0])
        for name in names
    }
    used = set(recorded.values()) | {int(user.split(":")[0]) for user in users.values()}
    for name in lacking:
        # If the record was lost, the home's owner has it.
        uid = owners.get(name, 0)
        others = used | {owners[other_name] for other_name in owners if other_name != name}
        if not (FIRST_USER <= uid <= LAST_USER and uid not in others and _free(context, [uid])):
            uid = _next(context, others | {uid})
        recorded[name] = uid
        used.add(uid)
        users[name] = f"{uid}:{uid}"
    if lacking:
        os.makedirs(os.path.dirname(files.inside(places.USERS)), mode=0o700, exist_ok=True)
        files.put(places.USERS, json.dumps(recorded, sort_keys=True) + "\n")
    return users


def _free(context: Context, numbers: list[int]) -> list[int]:
    """The numbers that no account, no group and no user namespace (/etc/subuid) uses."""
    taken = set(workspace_users.accounts(context, numbers))
    taken |= set(workspace_users.accounts(context, numbers, "group"))
    return [
        number
        for number in numbers
        if number not in taken and not workspace_users.delegated(context, number)
    ]


def _next(context: Context, used: set[int]) -> int:
    """The first free number of the range."""
    for start in range(FIRST_USER, LAST_USER + 1, 64):
        block = [
            number for number in range(start, min(start + 64, LAST_USER + 1)) if number not in used
        ]
        free = _free(context, block) if block else []
        if free:
            return free[0]
    raise places.RefusedError(
        f"no uid from {FIRST_USER} to {LAST_USER} is left on this host; say `user` of who is new"
    )
