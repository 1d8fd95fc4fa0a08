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
    identity = re.fullmatch(r"(?:(?:0x)?10de:)?(?:0x)?([0-9a-f]{4})", word.strip().lower())
    if identity is not None and identity.group(1) in known:
        return _made(*known[identity.group(1)], catalog or load())
    wanted = _plain(word)
    for name, generation, capability in known.values():
        if _plain(name) == wanted:
            return _made(name, generation, capability, catalog or load())
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
