"""Reads lock.yml and checks it: format, shape, digest, and that it fits the inventory.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from provision import inputs
from provision.catalog import load
from provision.errors import InputError
from provision.inventory import Fleet
from provision.lock import shape
from provision.lock.model import FORMAT, Lock, digest_of
from provision.models import HostFacts, plain
from provision.registry import NEEDS
from provision.resolve.words import shortened

ANEW = "`provision lock --upgrade` makes it anew"


def parse(data: bytes, *, where: str) -> Lock:
    """The lock in lock.yml's bytes. InputError where format, shape or digest is wrong."""
    hint = f"{ANEW}; of a merge, take either side and `provision lock`"
    document = inputs.load(data, where=where, subject="the lock", hint=hint)
    slim = document.get("gpu_lock") if isinstance(document, dict) else None
    details = document.get("gpu_lock_details") if isinstance(document, dict) else None
    if not isinstance(slim, dict) or not isinstance(details, dict):
        raise InputError(
            "the lock lacks its two parts",
            where=where,
            expected="gpu_lock and gpu_lock_details",
            hint=hint,
        )
    message = "the lock has a format of another provision"
    inputs.of_format(slim, FORMAT, message, where=where, hint=hint)
    digest = digest_of(slim.get("rows"), slim.get("stacks"), details)
    if slim.get("digest") != digest:
        raise InputError(
            "the lock was edited: its digest does not match its content",
            where=where,
            got=str(slim.get("digest")),
            expected=digest,
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
    """InputError where the lock has no row for a host's wish and platform, or lacks its GPU model.

    The run compares GPUs with the lock's models.
    """
    for wish, kinds in fleet.kinds():
        rows = [row for row in lock.slim["rows"] if row["wish"] == plain(wish.literal)]
        if not rows:
            raise _not_locked(
                "the lock has no row for the gpu_stack of "
                + shortened(host for _, hosts in kinds for host in hosts),
                where=where,
                got=json.dumps(plain(wish.literal)),
                expected=" or ".join(json.dumps(row["wish"]) for row in lock.slim["rows"]),
            )
        models = {model for row in rows for model in row.get("models", {})}
        for facts, hosts in kinds:
            platforms = [row["platform"] for row in rows]
            if facts.platform is not None and _platform(facts.platform) not in platforms:
                raise _not_locked(
                    f"the lock has no row for the platform of {shortened(hosts)}",
                    where=where,
                    got=facts.platform,
                    expected=" or ".join(" ".join(platform.values()) for platform in platforms),
                )
            missing = [model for model in facts.models if model not in models]
            if missing:
                raise _not_locked(
                    f"the lock doesn't know the gpu_models of {shortened(hosts)}",
                    where=where,
                    got=", ".join(missing),
                    expected=", ".join(models) or "none",
                )
            for host in hosts:
                _check_absent(lock, fleet, host, facts, rows)


def _check_absent(
    lock: Lock, fleet: Fleet, host: str, facts: HostFacts, rows: Sequence[Mapping[str, Any]]
) -> None:
    """InputError where a component is wished absent that the rest of the host's stack needs.

    A host of unknown platform may be any of the rows': the error is for all of them failing.
    """
    absent = fleet.absent.get(host, {})
    if not absent:
        return
    if facts.platform is not None:
        rows = [row for row in rows if row["platform"] == _platform(facts.platform)]
    contradictions = [_contradiction(lock.stacks[row["stack"]], absent) for row in rows]
    if contradictions and all(contradictions):
        name, lacking = contradictions[0] or ("", [])
        raise InputError(
            f"{name} of {host} does not work without {' and '.join(lacking)}",
            where=fleet.sources.where(f"{lacking[0]}_state", near=absent[lacking[0]]) or host,
            got=", ".join(f"{component}_state: absent" for component in absent),
            expected=f"{name}_state: absent as well, or {' and '.join(lacking)} present",
        )


def _contradiction(
    stack: Mapping[str, Any], absent: Collection[str]
) -> tuple[str, list[str]] | None:
    """(component, absent components that it needs) of the first such component, or None."""
    for name, needs in NEEDS.items():
        lacking = [need for need in needs if need in absent and need in stack]
        if name in stack and name not in absent and lacking:
            return name, lacking
    return None


def _platform(name: str) -> dict[str, str]:
    """A platform of the catalog by its id, as the lock's rows have it.

    The catalog is loaded here, and not before: most inventories declare no platform.
    """
    return next(row.platform.as_data() for row in load().platforms if row.id == name)


def _not_locked(message: str, *, where: str, got: str, expected: str) -> InputError:
    hint = "the inventory changed since: `provision lock`"
    return InputError(message, where=where, got=got, expected=expected, hint=hint)
