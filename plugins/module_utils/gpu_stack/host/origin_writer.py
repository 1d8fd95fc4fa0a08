"""Leads a run to a bundle: apt's configuration, sources and keys for it, and a note for modules.

What apt is to believe comes from the lock and from this file alone. A source that the bundle itself
brought could say that apt is to trust whatever it has.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from urllib.parse import urlsplit

from ..type_checking import TYPE_CHECKING
from . import bundle, bundle_layout, cache, package_lists, platform
from .context import Context
from .origin import CONFIGURATION, DIRECT, DIRECTORY, NOTE, Origin
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

PARTS = DIRECTORY + "/sources.list.d"
KEYS = DIRECTORY + "/keys"
OWN_PARTS = "/etc/apt/sources.list.d"
OWN_SETTINGS = "/etc/apt/apt.conf.d"
OWN_MAIN = "/etc/apt/apt.conf"
LISTS = DIRECTORY + "/lists"
# In which CUDA's role names the local installer that it has unpacked meanwhile.
LOCAL_SOURCE = "/etc/apt/sources.list.d/provision-cuda.sources"
# An option names Docker's repository and no lock: beside a cache it's asked itself.
DOCKER_SOURCE = "/etc/apt/sources.list.d/provision-docker.sources"

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
        its = _its(params)
        write(its, params["sources"], params["stack"])
    except OSError as error:
        raise RefusalError(f"{DIRECTORY} could not be written: {error}") from error
    if its.place:
        fetch_lists(its, params["wait"])
    addresses = {sha256: its.file(sha256, "") for sha256 in its.files}
    return {"changed": False, "addresses": addresses}


def _its(params: dict[str, Any]) -> Origin:
    """The Origin of this host's downloads, by a bundle or the fleet's cache; RefusalError."""
    context = Context()
    unfit = bundle.UnfitError if params["bundle"] else cache.UnfitError
    fallback = "" if params["bundle"] else params["fallback"]
    try:
        wish = params["bundle"]
        source = bundle.read(context, wish) if wish else cache.read(params["cache"])
        error = bundle.misfit(
            source._asdict(), params["lock_digest"], platform.look(context), unfit
        )
    except bundle.UnfitError as refused:
        error = refused
    if error is None:
        return Origin(source.place, source.by_hash, fallback)
    if fallback == DIRECT and error.silent:
        return Origin("", {}, fallback)
    raise RefusalError(f"{error}. To do: {error.hint}")


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
    archives = [source for source in sources if source["suite"] != "/"]
    texts = [_stanza(its, source, keyring) for source in archives]
    for name, repository in sorted(_repositories(stack).items()):
        key = f"{KEYS}/{name}.asc"
        _put(key, repository["key"].strip() + "\n")
        texts.append(_stanza(its, repository, key))
    _put(f"{PARTS}/provision-origin.sources", "\n".join(texts))
    if "installer" in (stack.get("cuda") or {}):
        os.symlink(LOCAL_SOURCE, f"{PARTS}/{os.path.basename(LOCAL_SOURCE)}")
    _put(NOTE, json.dumps(its._asdict(), indent=1, sort_keys=True) + "\n")
    if its.fallback:
        os.symlink(DOCKER_SOURCE, f"{PARTS}/{os.path.basename(DOCKER_SOURCE)}")
        if not archives:
            _keep_own_sources()
    _put(CONFIGURATION, _configuration(its.place))


def _repositories(stack: Mapping[str, Any]) -> dict[str, Any]:
    """{component: its repository}, each address once."""
    component_of: dict[str, str] = {}
    for name in sorted(stack):
        part = stack[name]
        repository = part.get("repository") if isinstance(part, dict) else None
        if repository and repository.get("key"):
            component_of.setdefault(repository["url"], name)
    return {name: stack[name]["repository"] for name in component_of.values()}


def _stanza(its: Origin, source: Mapping[str, Any], key: str) -> str:
    """A source of apt's: signed as ever. Without translations and other architectures, which a
    bundle has not; its index may be older than its signer wanted, a cache's is as upstream's.
    """
    suite, components = source["suite"], source.get("components") or []
    named = suite == "/" or _SUITE.fullmatch(suite)
    if not named or not all(_WORD.fullmatch(name) for name in components):
        raise RefusalError(f"{suite} {' '.join(components)}: the lock names no suite of an archive")
    lines = [
        "Types: deb",
        f"URIs: {_address(its, source['url'])}",
        f"Suites: {suite}",
        *([f"Components: {' '.join(components)}"] if suite != "/" else []),
        "Architectures: amd64",
        "Languages: none",
        f"Signed-By: {key}",
        *([] if its.fallback else ["Check-Valid-Until: no"]),
    ]
    return "\n".join(lines) + "\n"


def _address(its: Origin, url: str) -> str:
    """Where apt asks for an archive. Where a host may go on without the cache, apt itself goes from
    one address to the other, file by file (apt-transport-mirror).
    """
    if not its.goes_on:
        return its.archive(url)
    path = f"{DIRECTORY}/mirrors/{hashlib.sha256(url.encode()).hexdigest()[:16]}"
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    os.chmod(os.path.dirname(path), 0o755)  # noqa: S103  apt reads as a user of its own
    if not os.path.exists(path):
        _put(path, f"{its.archive(url)}\tpriority:1\n{url}\tpriority:2\n")
    return f"mirror+file:{path}"


def _keep_own_sources() -> None:
    """Has apt read the host's own sources as well: a stack with NVIDIA's driver and CUDA alone has
    no archive of the distribution in its lock.
    """
    parts = [f"{OWN_PARTS}/{name}" for name in sorted(os.listdir(OWN_PARTS))]
    for path in ["/etc/apt/sources.list", *parts]:
        name = os.path.basename(path)
        if name.endswith((".list", ".sources")) and not name.startswith("provision-"):
            os.symlink(path, f"{PARTS}/own-{name}")


def _configuration(place: str) -> str:
    """apt's settings. Packages are kept where they ever are: apt compares their hashes.

    apt reads APT_CONFIG before the host's own settings, which would then have the last word: so
    they are read from here, before what leads the run, and not once more.
    """
    head = "// Written by provision, for one run: where apt takes everything from.\n"
    if not place:
        return head
    server = urlsplit(place)
    # The host's proxy leads out of the lab; one that it has for this very server counts.
    proxy = f"Acquire::{server.scheme}::Proxy::{server.hostname}"
    before = [f'{proxy} "DIRECT";'] if server.hostname else []
    own = [
        *([f'#include "{OWN_SETTINGS}/";'] if os.path.isdir(OWN_SETTINGS) else []),
        *([f'#include "{OWN_MAIN}";'] if os.path.isfile(OWN_MAIN) else []),
    ]
    settings = {
        "Dir::Etc::Parts": "/dev/null",
        "Dir::Etc::Main": "/dev/null",
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": PARTS,
        "Dir::State::Lists": LISTS,
        "Dir::Cache::pkgcache": DIRECTORY + "/pkgcache.bin",
        "Dir::Cache::srcpkgcache": DIRECTORY + "/srcpkgcache.bin",
    }
    after = [f'{name} "{value}";' for name, value in settings.items()]
    return head + "".join(line + "\n" for line in [*before, *own, *after])


def fetch_lists(its: Origin, wait: int) -> None:
    """Has apt read the indices there; RefusalError in its words where it can't."""
    os.environ["APT_CONFIG"] = CONFIGURATION
    lists = package_lists.fetch([], wait)
    if lists["locked"]:
        raise RefusalError(f"Another apt is at work. {lists['words']}")
    # Beside a cache the host's own sources may count, of which somebody else's may fail.
    if lists["usable"] if its.fallback else not lists["errors"]:
        return
    if its.fallback:
        raise RefusalError(
            f"apt can't use the fleet's cache {its.place}: {lists['words']} Nothing was installed."
            f" Without {cache.OPTION} hosts fetch from the lock's own addresses."
        )
    place = its.place.replace("file://", "")
    raise RefusalError(
        f"apt can't use the bundle at {place}: {lists['words']} Nothing was installed. `provision"
        " bundle --verify` says whether it is whole; where a key has expired or changed, lock again"
        " and make a new one."
    )


def forget() -> None:
    """Removes what `write` wrote."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)


def _put(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, 0o644)
        file.write(text)
