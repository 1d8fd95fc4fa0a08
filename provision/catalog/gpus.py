"""Which GPU a PCI device id or a name means: its generation, and what that needs."""

from __future__ import annotations

import difflib
import functools
import json
import re
from importlib import resources

from provision.catalog import Catalog, load
from provision.errors import InputError
from provision.values import Gpu


@functools.cache
def devices() -> dict[str, tuple[str, str, str]]:
    """PCI device id (four hex digits) -> name, generation, compute capability; see gpus.json."""
    text = (resources.files("provision.catalog") / "gpus.json").read_text(encoding="utf-8")
    return {
        one["id"]: (one["name"], one["generation"], one["capability"])
        for one in json.loads(text)["devices"]
    }


def gpu(word: str, *, where: str = "", catalog: Catalog | None = None) -> Gpu:
    """The GPU of a PCI id ("1eb8", "10de:1eb8", "0x1eb8") or a name ("Tesla T4", "A100").

    InputError for one that is not known, with those of nearly the same name.
    """
    known = devices()
    identity = _identity(word)
    if identity in known:
        return _made(*known[identity], catalog or load())
    wanted = _plain(word)
    same = {found: one for one, found in known.items() if _plain(found[0]) == wanted}
    if len({(generation, capability) for _, generation, capability in same}) > 1:
        raise InputError(
            f"{word} is the name of different GPUs",
            where=where,
            expected=" or ".join(
                f'"10de:{one}" ({generation}, compute capability {capability})'
                for (_, generation, capability), one in same.items()
            ),
            hint="`lspci -nn` says which it is",
        )
    if same:
        return _made(*next(iter(same)), catalog or load())
    names = {_plain(name): name for name, _, _ in known.values()}
    holding = [names[one] for one in sorted(names) if wanted and f" {wanted} " in f" {one} "]
    kinds = {(gen, capability) for name, gen, capability in known.values() if name in holding}
    if len(kinds) == 1:  # "A100": every card of that name is of one kind
        return _made(word.strip(), *kinds.pop(), catalog or load())
    near = [names[one] for one in difflib.get_close_matches(wanted, sorted(names), 3)]
    raise InputError(
        f"no NVIDIA GPU {word!r} is known",
        where=where,
        expected=" or ".join((holding or near)[:3])
        or 'a name as `nvidia-smi -L` shows it, or a PCI id as `lspci -nn` does ("10de:1eb8")',
        hint="a GPU newer than this catalog: leave it out, and the host is asked in the run",
    )


def ids(word: str) -> tuple[str, ...]:
    """The PCI device ids ("1eb8") of the cards that a word of `gpu` can mean, sorted."""
    known = devices()
    if _identity(word) in known:
        return (_identity(word),)
    wanted = _plain(word)
    same = [one for one, (name, _, _) in known.items() if _plain(name) == wanted]
    holding = [one for one, (name, _, _) in known.items() if f" {wanted} " in f" {_plain(name)} "]
    return tuple(sorted(same or holding))


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
    return Gpu(
        name=name,
        generation=generation,
        capability=capability,
        driver_first=window.driver_first or row.driver_first,
        driver_last=row.driver_last,
        cuda_last=window.cuda_last,
    )
