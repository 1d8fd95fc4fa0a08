"""Refuses, before a tree is written, hosts that the installed ansible-core can't manage.

Otherwise such a project would render, and fail on its hosts. Which release manages which Python is
read from the collection, whose look refuses the same hosts in a run.
"""

from __future__ import annotations

import functools
from importlib import metadata
from typing import Any

from provision import catalog, collection
from provision.catalog.rows import PlatformRow
from provision.errors import InputError
from provision.inventory import Fleet
from provision.lock import Lock
from provision.models import plain
from provision.resolve.words import shortened


@functools.cache
def releases() -> Any:
    """The collection's module of ansible-core's releases and the Pythons that they manage."""
    return collection.module("plugin_utils", "ansible_core.py")


def installed() -> str:
    """The version of the ansible-core beside this program."""
    return metadata.version("ansible-core")


def check_manages(core: str, lock: Lock, fleet: Fleet, *, where: str) -> None:
    """InputError where this ansible-core can't manage a host on any platform that it may have.

    A platform is judged by its own Python: no other has apt's bindings.
    """
    for wish, kinds in fleet.kinds():
        rows = [row for row in lock.slim["rows"] if row["wish"] == plain(wish.literal)]
        locked = [_platform(row["platform"]) for row in rows]
        for facts, hosts in kinds:
            platforms = [row for row in locked if facts.platform in (None, row.id)]
            if not platforms or any(releases().manages(core, row.python) for row in platforms):
                continue
            newest = platforms[0]
            raise InputError(
                f"the installed ansible-core can't manage {newest.title}, which has Python "
                f"{newest.python}: {shortened(hosts)}",
                where=where,
                got=f"ansible-core {core}",
                expected=f"ansible-core {releases().newest_for(newest.python)} or older",
                hint=releases().remedy(newest.python),
            )


def _platform(data: dict[str, str]) -> PlatformRow:
    """The catalog's row of a platform in a lock."""
    return next(row for row in catalog.load().platforms if row.platform.as_data() == data)
