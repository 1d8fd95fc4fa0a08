"""lock.yml's bytes -> the lock, checked: format, shape, digest, and that it fits the inventory.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from provision import inputs
from provision.catalog import load
from provision.errors import InputError
from provision.inventory import Fleet
from provision.lock import shape
from provision.lock.model import FORMAT, Lock, digest_of, names
from provision.models import HostFacts, plain
from provision.registry import NEEDS

ANEW = "`provision lock --upgrade` makes it anew"


def parse(data: bytes, *, where: str) -> Lock:
    """lock.yml's bytes, checked: format, shape and digest. InputError says what is wrong."""
    hint = f"{ANEW}; of a merge, take either side and `provision lock`"
    document = inputs.load(data, where=where, what="the lock", hint=hint)
    slim = document.get("gpu_lock") if isinstance(document, dict) else None
    details = document.get("gpu_lock_details") if isinstance(document, dict) else None
    if not isinstance(slim, dict) or not isinstance(details, dict):
        raise InputError(
            "the lock lacks its two parts",
            where=where,
            expected="gpu_lock and gpu_lock_details",
            hint=hint,
        )
    if slim.get("format") != FORMAT:
        raise InputError(
            "the lock has a format of another provision",
            where=where,
            got=f"format {slim.get('format')!r}",
            expected=f"format {FORMAT}",
            hint=hint,
        )
    found = digest_of(slim.get("rows"), slim.get("stacks"), details)
    if slim.get("digest") != found:
        raise InputError(
            "the lock was edited: its digest does not match its content",
            where=where,
            got=str(slim.get("digest")),
            expected=found,
            hint=f"change gpu_stack in lab/ instead; {ANEW}",
        )
    strange = next(shape.faults(slim, details), "") or next(shape.missing_names(slim, details), "")
    if strange:
        raise InputError(
            "the lock was made by another version of provision",
            where=where,
            got=f"{strange} is missing, or not as this version writes it",
            hint=hint,
        )
    return Lock(slim, details)


def check_fits(lock: Lock, fleet: Fleet, *, where: str) -> None:
    """Every wish of the inventory must have a row, on the platform of a host that has one.

    And every GPU that the inventory names must be in it, for the run compares by that. InputError
    names the hosts.
    """
    for wish, kinds in fleet.kinds():
        rows = [row for row in lock.slim["rows"] if row["wish"] == plain(wish.literal)]
        if not rows:
            raise _not_locked(
                "the lock has no row for the gpu_stack of "
                + names(host for _, hosts in kinds for host in hosts),
                where=where,
                got=json.dumps(plain(wish.literal)),
                expected=" or ".join(json.dumps(row["wish"]) for row in lock.slim["rows"]),
            )
        known = {word for row in rows for word in row.get("models", {})}
        for facts, hosts in kinds:
            there = [row["platform"] for row in rows]
            if facts.platform is not None and _platform(facts.platform) not in there:
                raise _not_locked(
                    f"the lock has no row for the platform of {names(hosts)}",
                    where=where,
                    got=facts.platform,
                    expected=" or ".join(" ".join(one.values()) for one in there),
                )
            lacking = [word for word in facts.models if word not in known]
            if lacking:
                raise _not_locked(
                    f"the lock doesn't know the gpu_models of {names(hosts)}",
                    where=where,
                    got=", ".join(lacking),
                    expected=", ".join(known) or "none",
                )
            for host in hosts:
                _check_absent(lock, fleet, host, facts, rows)


def _check_absent(
    lock: Lock, fleet: Fleet, host: str, facts: HostFacts, rows: Sequence[Mapping[str, Any]]
) -> None:
    """A host can't be without what another component of its stack needs.

    InputError where that is so on every platform that the host may be.
    """
    gone = fleet.absent.get(host, ())
    if not gone:
        return
    if facts.platform is not None:
        rows = [row for row in rows if row["platform"] == _platform(facts.platform)]
    found = [_contradiction(lock.stacks[row["stack"]], gone) for row in rows]
    if found and all(found):
        name, lacking = found[0] or ("", [])
        raise InputError(
            f"{name} of {host} does not work without {' and '.join(lacking)}",
            where=fleet.sources.where(f"{lacking[0]}_state") or host,
            got=", ".join(f"{one}_state: absent" for one in gone),
            expected=f"{name}_state: absent as well, or {' and '.join(lacking)} present",
        )


def _contradiction(stack: Mapping[str, Any], gone: Sequence[str]) -> tuple[str, list[str]] | None:
    """(component, what it lacks) of the first one that can't do without what is wished away."""
    for name, needs in NEEDS.items():
        lacking = [one for one in needs if one in gone and one in stack]
        if name in stack and name not in gone and lacking:
            return name, lacking
    return None


def _platform(name: str) -> dict[str, str]:
    """A platform of the catalog as the lock's rows have it; most inventories declare none, and
    rendering needs no catalog then."""
    return next(row.platform.as_data() for row in load().platforms if row.id == name)


def _not_locked(message: str, *, where: str, got: str, expected: str) -> InputError:
    hint = "the inventory changed since: `provision lock`"
    return InputError(message, where=where, got=got, expected=expected, hint=hint)
