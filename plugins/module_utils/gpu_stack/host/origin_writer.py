"""Leads a run to a bundle: apt's configuration, sources and keys for it, and a note for modules.

What apt is to believe comes from the lock and from this file alone. A source that the bundle itself
brought could say that apt is to trust whatever it has.
"""

from __future__ import annotations

import json
import os
import re
import shutil

from ..type_checking import TYPE_CHECKING
from . import bundle, bundle_layout, package_lists, platform
from .context import Context
from .origin import CONFIGURATION, DIRECTORY, NOTE, Origin
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

PARTS = DIRECTORY + "/sources.list.d"
KEYS = DIRECTORY + "/keys"
LISTS = DIRECTORY + "/lists"
# In which CUDA's role names the local installer that it has unpacked meanwhile.
LOCAL_SOURCE = "/etc/apt/sources.list.d/provision-cuda.sources"

_SUITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module `origin` returns for its parameters; RefusalError."""
    if check_mode:
        return {"changed": False, "addresses": {}}
    try:
        if params["state"] == "absent":
            forget()
            return {"changed": False, "addresses": {}}
        found = _found(params["bundle"], params["lock_digest"])
        its = Origin(found.place, found.by_hash)
        write(its, params["sources"], params["stack"])
    except OSError as error:
        raise RefusalError(f"{DIRECTORY} could not be written: {error}") from error
    fetch_lists(found.place, params["wait"])
    addresses = {sha256: its.file(sha256, "") for sha256 in found.by_hash}
    return {"changed": False, "addresses": addresses}


def _found(wish: str, digest: str) -> bundle.Bundle:
    """The bundle that the wish names, for this host and lock; RefusalError."""
    context = Context()
    try:
        found = bundle.read(context, wish)
        of_host = platform.look(context)
        error = bundle.misfit(found.place, found.lock, found.platforms, digest, of_host)
    except bundle.UnfitError as unfit:
        error = unfit
    if error is not None:
        raise RefusalError(f"{error}. To do: {error.hint}")
    return found


def write(its: Origin, sources: Sequence[Mapping[str, Any]], stack: Mapping[str, Any]) -> None:
    """Leads this run's apt to `its` place, and notes it for the modules; OSError, RefusalError.

    sources: the lock's, [{url, suite, components}]. stack: its parts, of which those with a
    repository of their own have its key. What an earlier run left is removed.
    """
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    for directory in (DIRECTORY, PARTS, KEYS, LISTS):
        os.makedirs(directory, mode=0o755, exist_ok=True)
        os.chmod(directory, 0o755)  # noqa: S103  apt reads as a user of its own
    keyring = bundle_layout.keyring(platform.look(Context())["distribution"])
    texts = [_stanza(its, source, keyring) for source in sources if source["suite"] != "/"]
    for name, repository in sorted(_repositories(stack).items()):
        key = f"{KEYS}/{name}.asc"
        _put(key, repository["key"].strip() + "\n")
        texts.append(_stanza(its, repository, key))
    _put(f"{PARTS}/provision-origin.sources", "\n".join(texts))
    if "installer" in (stack.get("cuda") or {}):
        os.symlink(LOCAL_SOURCE, f"{PARTS}/{os.path.basename(LOCAL_SOURCE)}")
    _put(
        NOTE, json.dumps({"place": its.place, "files": its.files}, indent=1, sort_keys=True) + "\n"
    )
    _put(CONFIGURATION, _configuration())


def _repositories(stack: Mapping[str, Any]) -> dict[str, Any]:
    """{component: its repository}, each address once."""
    known: dict[str, str] = {}
    for name in sorted(stack):
        part = stack[name]
        repository = part.get("repository") if isinstance(part, dict) else None
        if repository and repository.get("key"):
            known.setdefault(repository["url"], name)
    return {name: stack[name]["repository"] for name in known.values()}


def _stanza(its: Origin, source: Mapping[str, Any], key: str) -> str:
    """A source of apt's: signed as ever, with an index that may be older than its signer wanted.

    Without translations and other architectures, which a bundle has not.
    """
    suite, components = source["suite"], source.get("components") or []
    named = suite == "/" or _SUITE.fullmatch(suite)
    if not named or not all(_WORD.fullmatch(name) for name in components):
        raise RefusalError(f"{suite} {' '.join(components)}: the lock names no suite of an archive")
    lines = [
        "Types: deb",
        f"URIs: {its.archive(source['url'])}",
        f"Suites: {suite}",
        *([f"Components: {' '.join(components)}"] if suite != "/" else []),
        "Architectures: amd64",
        "Languages: none",
        f"Signed-By: {key}",
        "Check-Valid-Until: no",
    ]
    return "\n".join(lines) + "\n"


def _configuration() -> str:
    """apt's settings. Packages are kept where they ever are: apt compares their hashes."""
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": PARTS,
        "Dir::State::Lists": LISTS,
        "Dir::Cache::pkgcache": DIRECTORY + "/pkgcache.bin",
        "Dir::Cache::srcpkgcache": DIRECTORY + "/srcpkgcache.bin",
    }
    head = "// Written by provision, for one run: where apt takes everything from.\n"
    return head + "".join(f'{name} "{value}";\n' for name, value in settings.items())


def fetch_lists(place: str, wait: int) -> None:
    """Has apt read the indices there; RefusalError in its words where it can't."""
    os.environ["APT_CONFIG"] = CONFIGURATION
    lists = package_lists.fetch([], wait)
    if lists["locked"]:
        raise RefusalError(f"Another apt is at work. {lists['words']}")
    if lists["errors"]:
        raise RefusalError(
            f"apt can't use the bundle at {place.replace('file://', '')}: {lists['words']} Nothing"
            " was installed. `provision bundle --verify` says whether it is whole; where a key has"
            " expired or changed, lock again and make a new one."
        )


def forget() -> None:
    """Removes what `write` wrote."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)


def _put(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, 0o644)
        file.write(text)
