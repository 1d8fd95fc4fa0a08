"""Which GPU a PCI device id or a name means: its generation, and what that needs."""

from __future__ import annotations

import difflib
import functools
import json
import re
from importlib import resources
from typing import Any

from provision.catalog import Catalog, load
from provision.errors import InputError
from provision.models import Gpu


@functools.cache
def devices() -> dict[str, tuple[str, str, str]]:
    """PCI device id (four hex digits) -> name, generation, compute capability; see gpus.json."""
    return {one["id"]: (one["name"], one["generation"], one["capability"]) for one in _rows()}


@functools.cache
def _rows() -> list[dict[str, Any]]:
    text = (resources.files("provision.catalog") / "gpus.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["devices"]
    return rows


def gpu(word: str, *, where: str = "", catalog: Catalog | None = None) -> Gpu:
    """The GPU of a PCI id ("1eb8", "10de:1eb8", "0x1eb8") or a name ("Tesla T4", "A100").

    InputError for one that is not known, with those of nearly the same name, and for a name of
    different GPUs, with their PCI ids.
    """
    known = devices()
    identity = _identity(word)
    if identity in known:
        return _made(*known[identity], catalog or load())
    meant = {one: known[one] for one in ids(word)}
    kinds = {(generation, capability) for _, generation, capability in meant.values()}
    called = sorted({name for name, _, _ in meant.values()})
    if len(kinds) == 1:  # "A100": every card of that name is of one kind
        name = called[0] if _plain(called[0]) == _plain(word) else word.strip()
        return _made(name, *kinds.pop(), catalog or load())
    wanted = f" {_plain(word)} "
    if len({name for one in meant for name in _spoken()[one] if wanted in f" {name} "}) == 1:
        raise InputError(
            f"{word} is the name of different GPUs",
            where=where,
            expected=" or ".join(
                f'"10de:{one}" ({generation}, compute capability {capability})'
                for one, (_, generation, capability) in meant.items()
            ),
            hint="`lspci -nn` says which it is",
        )
    names = {_plain(name): name for name, _, _ in known.values()}
    near = [names[one] for one in difflib.get_close_matches(_plain(word), sorted(names), 3)]
    raise InputError(
        f"no NVIDIA GPU {word!r} is known",
        where=where,
        expected=" or ".join((called or near)[:3])
        or 'a name as `nvidia-smi -L` shows it, or a PCI id as `lspci -nn` does ("10de:1eb8")',
        hint="if this catalog lacks it: leave it out, and the host is asked in the run",
    )


def ids(word: str) -> tuple[str, ...]:
    """The PCI device ids ("1eb8") of the cards that a word of `gpu` can mean, sorted."""
    known = devices()
    if _identity(word) in known:
        return (_identity(word),)
    wanted = _plain(word)
    spoken = _spoken()
    same = [one for one, names in spoken.items() if wanted in names]
    holding = [
        one
        for one, names in spoken.items()
        if wanted and any(f" {wanted} " in f" {name} " for name in names)
    ]
    return tuple(sorted(same or holding))


@functools.cache
def _spoken() -> dict[str, frozenset[str]]:
    """PCI device id -> what cards of it are called: one id can be several products.

    Of "Quadro RTX 6000/8000" each of the two as well: such a name's last words are alternatives.
    """
    found = {}
    for one in _rows():
        called = {_plain(name) for name in (one["name"], *one.get("also", ()))}
        front, _, last = _plain(one["name"]).replace(" / ", "/").rpartition(" ")
        if front and "/" in last:
            called |= {f"{front} {word}" for word in last.split("/")}
        found[one["id"]] = frozenset(called)
    return found


def _identity(word: str) -> str:
    """The four digits of a PCI id, or ""."""
    found = re.fullmatch(r"(?:(?:0x)?10de:)?(?:0x)?([0-9a-f]{4})", word.strip().lower())
    return found.group(1) if found is not None else ""


def _plain(name: str) -> str:
    """A name without what nvidia-smi, lspci and people write differently."""
    return " ".join(name.lower().replace("nvidia", " ").replace("-", " ").split())


def _made(name: str, generation: str, capability: str, catalog: Catalog) -> Gpu:
    row = next(one for one in catalog.generations if one.name == generation)
    window = row.capabilities[capability]
    superchip = any(f" {one} " in f" {name} " for one in row.superchips)
    return Gpu(
        name=name,
        generation=generation,
        capability=capability,
        driver_first=window.driver_first or row.driver_first,
        driver_last=row.driver_last,
        cuda_last=window.cuda_last,
        architecture="aarch64" if superchip else "",
    )
