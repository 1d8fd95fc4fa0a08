"""The GPU of a PCI device id or a name: its generation, and the drivers and CUDA it works with."""

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
    return {row["id"]: (row["name"], row["generation"], row["capability"]) for row in _rows()}


@functools.cache
def _rows() -> list[dict[str, Any]]:
    text = (resources.files("provision.catalog") / "gpus.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["devices"]
    return rows


def gpu(word: str, *, where: str = "", catalog: Catalog | None = None) -> Gpu:
    """The GPU of a PCI id ("1eb8", "10de:1eb8", "0x1eb8") or a name ("Tesla T4", "A100").

    InputError for an unknown GPU, with similar names, and for a name of different GPUs, with their
    PCI ids.
    """
    cards = devices()
    identity = _identity(word)
    if identity in cards:
        return _gpu(*cards[identity], catalog or load())
    matches = {identity: cards[identity] for identity in ids(word)}
    kinds = {(generation, capability) for _, generation, capability in matches.values()}
    titles = sorted({name for name, _, _ in matches.values()})
    if len(kinds) == 1:  # "A100": every card of that name is of one kind
        name = titles[0] if _plain(titles[0]) == _plain(word) else word.strip()
        return _gpu(name, *kinds.pop(), catalog or load())
    part = f" {_plain(word)} "
    names_with_part = {
        name for identity in matches for name in _names()[identity] if part in f" {name} "
    }
    if len(names_with_part) == 1:
        raise InputError(
            f"{word} is the name of different GPUs",
            where=where,
            expected=" or ".join(
                f'"10de:{identity}" ({generation}, compute capability {capability})'
                for identity, (_, generation, capability) in matches.items()
            ),
            hint="`lspci -nn` says which it is",
        )
    names = {_plain(name): name for name, _, _ in cards.values()}
    near = [names[plain] for plain in difflib.get_close_matches(_plain(word), sorted(names), 3)]
    raise InputError(
        f"no NVIDIA GPU {word!r} is known",
        where=where,
        expected=" or ".join((titles or near)[:3])
        or 'a name as `nvidia-smi -L` shows it, or a PCI id as `lspci -nn` does ("10de:1eb8")',
        hint="if this catalog lacks it: leave it out, and the host is asked in the run",
    )


def ids(word: str) -> tuple[str, ...]:
    """The PCI device ids ("1eb8") of the cards that a word of `gpu` can mean, sorted."""
    if _identity(word) in devices():
        return (_identity(word),)
    name = _plain(word)
    names_by_id = _names()
    exact = [identity for identity, names in names_by_id.items() if name in names]
    partial = [
        identity
        for identity, names in names_by_id.items()
        if name and any(f" {name} " in f" {full} " for full in names)
    ]
    return tuple(sorted(exact or partial))


@functools.cache
def _names() -> dict[str, frozenset[str]]:
    """PCI device id -> plain names of its cards; one id can be several products.

    "Quadro RTX 6000/8000" gives both names as well.
    """
    names_by_id = {}
    for row in _rows():
        names = {_plain(name) for name in (row["name"], *row.get("also", ()))}
        front, _, numbers = _plain(row["name"]).replace(" / ", "/").rpartition(" ")
        if front and "/" in numbers:
            names |= {f"{front} {number}" for number in numbers.split("/")}
        names_by_id[row["id"]] = frozenset(names)
    return names_by_id


def _identity(word: str) -> str:
    """The four digits of a PCI id, or ""."""
    match = re.fullmatch(r"(?:(?:0x)?10de:)?(?:0x)?([0-9a-f]{4})", word.strip().lower())
    return match.group(1) if match is not None else ""


def _plain(name: str) -> str:
    """A name without what nvidia-smi, lspci and people write differently."""
    return " ".join(name.lower().replace("nvidia", " ").replace("-", " ").split())


def _gpu(name: str, generation: str, capability: str, catalog: Catalog) -> Gpu:
    row = next(row for row in catalog.generations if row.name == generation)
    window = row.capabilities[capability]
    superchip = any(f" {part} " in f" {name} " for part in row.superchips)
    return Gpu(
        name=name,
        generation=generation,
        capability=capability,
        driver_first=window.driver_first or row.driver_first,
        driver_last=row.driver_last,
        cuda_last=window.cuda_last,
        architecture="aarch64" if superchip else "",
    )
