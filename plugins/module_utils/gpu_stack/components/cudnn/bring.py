"""Installs the locked cuDNN on a host, or removes it: the steps of the module.

Fetching and unpacking take long and depend on nothing. `begin` starts them in the background, and
`present` collects the result; after a failure in the background it tries again and reports.
"""

from __future__ import annotations

import collections
import os

from ...host import background, download, origin, termination
from ...host.context import Context
from ...host.process_name import called
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import directories, fetch, layout, tree, versions

if TYPE_CHECKING:
    from typing import Any

JOB = "/run/provision/cudnn"
# In /proc/PID/comm while it fetches and unpacks: scripts/fault_watch.py looks for it.
PROCESS = "provision-cudnn"

# Options of the installation. links: the CUDA tree for links, or None.
Manner = collections.namedtuple("Manner", "reinstall keep_old links")


class Sources(collections.namedtuple("Sources", "host_file archive to_come urls proxy ca_bundle")):
    """Sources of the archive; the first that is set is used.

    archive: a file in one of fetch.directory's, removed with it. to_come: whether such a file will
    be copied here once it is needed.
    """

    __slots__ = ()

    @property
    def waits(self) -> bool:
        return self.to_come and not self.host_file and not self.archive

    @property
    def none(self) -> bool:
        return not (self.host_file or self.archive or self.to_come or self.urls)


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Returns the module's result for its parameters; raises RefusalError."""
    context = Context()
    root = params["root"].rstrip("/")
    version = layout.Version(
        root, params["version"], params["cuda"], (params["sha256"] or "").lower()
    )
    if params["state"] == "absent":
        return absent(context, version, check_mode)
    sources = _sources(params, version)
    links = layout.tree_of(params["layout"], params["tree"], version.cuda)
    manner = Manner(params["reinstall"], params["keep_old"], links)
    doing = begin if params["begin"] else present
    return doing(context, version, sources, manner, check_mode)


def _sources(params: dict[str, Any], version: layout.Version) -> Sources:
    """Where the archive comes from: a bundle stands for addresses and controller, the fleet's
    cache for the addresses."""
    host_file, archive = params["host_file"], params["archive"]
    urls, ca_bundle = params["urls"], params["ca_bundle"]
    its = origin.current()
    to_come = bool(params["controller_file"])
    if not its.has(version.sha256):
        return Sources(host_file, archive, to_come, urls, params["proxy"], ca_bundle)
    named = fetch.addresses(urls, version.version, version.cuda)
    urls = [its.file(version.sha256, (named or [""])[0]), *(named if its.goes_on else [])]
    return Sources(host_file, archive, to_come and bool(its.fallback), urls, "", ca_bundle)


def begin(
    context: Context, version: layout.Version, sources: Sources, manner: Manner, check_mode: bool
) -> dict[str, Any]:
    """Starts fetching and unpacking in the background if needed; changes nothing else."""
    installed = versions.look(context, version)
    _refuse_without_source(version, sources, manner, installed)
    if installed["complete"] or manner.reinstall or check_mode:
        return {"changed": False, "begun": False}
    if sources.waits:
        return {"changed": False, "begun": False, "archive_needed": _place()}
    try:
        background.begin(JOB, lambda: _brought(context, version, sources))
    except (background.BusyError, OSError):  # `present` does it
        fetch.forget(sources.archive)
        return {"changed": False, "begun": False}
    return {"changed": False, "begun": True}


def present(
    context: Context, version: layout.Version, sources: Sources, manner: Manner, check_mode: bool
) -> dict[str, Any]:
    """Installs the locked version and makes it current, readable and linked."""
    result: dict[str, Any] = {"changed": False, "backup": [], "removed": []}
    if not check_mode:
        _take_up(result)
    installed = versions.look(context, version)
    result["renewed"] = not installed["complete"] or manner.reinstall or not installed["current"]
    if not installed["complete"] or manner.reinstall:
        reason = _refuse_without_source(version, sources, manner, installed)
        if check_mode:
            result["msg"] = f"Would install cuDNN {version.name}: {reason}"
        elif sources.waits:
            result["changed"] |= bool(fetch.remove_remains())
            return dict(result, archive_needed=_place())
        else:
            _install(context, version, sources, manner, result)
            installed = versions.look(context, version)
        result["changed"] = True
    _settle(context, version, manner, installed, result, check_mode)
    library = _library(version, installed)
    places = [library] if manner.links is None else [library, f"{manner.links}/lib64"]
    return dict(result, library=library, libraries=places)


def absent(context: Context, version: layout.Version, check_mode: bool = False) -> dict[str, Any]:
    """Removes the versions that were unpacked here; keeps files that were changed since.

    The links to them in CUDA's trees go first: none leads nowhere after an interruption.
    """
    library = _library(version, versions.look(context, version))
    links = tree.settle(context, None, {}, doing=not check_mode)
    if check_mode:
        removed = versions.removable(context, version.root)
        result = {"changed": bool(removed), "removed": removed, "kept": []}
        if removed:
            words = "Would remove the versions of cuDNN that this role unpacked below"
            result["msg"] = f"{words} {version.root}"
        elif links:
            result["msg"] = "Would remove cuDNN's links from CUDA's tree"
    else:
        result = versions.remove(context, version.root)
    return dict(result, library=library, changed=result["changed"] or bool(links))


def _library(version: layout.Version, installed: dict[str, Any]) -> str:
    """Directory of the version's libraries once it is current."""
    names = installed["names"]
    place = layout.library_directory(names) if names else None
    place = place or layout.expected_library_directory(version.version)
    return f"{version.root}/{layout.CURRENT}/{place}"


def _take_up(result: dict[str, Any]) -> None:
    """Waits for the background job and adds its outcome to the result."""
    try:
        brought = background.result(JOB)
    except background.EndedError:
        return  # `present` does it, or reports what prevents it
    if brought is not None:
        result["changed"] |= brought["changed"]
        result["backup"] += brought["backup"]


def _refuse_without_source(
    version: layout.Version, sources: Sources, manner: Manner, installed: dict[str, Any]
) -> str:
    """Why the archive is needed; raises RefusalError if it is needed and no source is set."""
    reason: str = (installed["problems"] or ["cudnn_reinstall is set"])[0]
    if sources.none and (installed["problems"] or manner.reinstall):
        raise RefusalError(
            f"cuDNN {version.name} is not on this host ({reason}), and cudnn_host_file,"
            " cudnn_controller_file and cudnn_urls are all empty: name at least one of them."
        )
    return reason


def _place() -> str:
    return os.path.join(fetch.directory(), fetch.ARCHIVE)


def _install(
    context: Context,
    version: layout.Version,
    sources: Sources,
    manner: Manner,
    result: dict[str, Any],
) -> None:
    """Gets and unpacks the archive."""
    if not sources.archive:
        fetch.remove_remains()
    try:
        brought = _brought(context, version, sources, manner.reinstall)
    except fetch.NowhereError:
        raise
    except (RefusalError, OSError) as error:
        raise RefusalError(
            f"cuDNN {version.name} was not installed: {error}. The host is as it was."
        ) from error
    result["backup"] += brought["backup"]


def _brought(
    context: Context, version: layout.Version, sources: Sources, again: bool = False
) -> dict[str, Any]:
    """Installs the version without switching to it: {changed, backup}."""
    surroundings = download.surroundings(sources.proxy, sources.ca_bundle)
    with termination.orderly(), called(PROCESS), surroundings:
        if sources.host_file:
            return versions.put(context, version, sources.host_file, again)
        if sources.archive:
            try:
                return versions.put(context, version, sources.archive, again)
            finally:
                fetch.forget(sources.archive)
        urls = fetch.addresses(sources.urls, version.version, version.cuda)
        return fetch.first(urls, lambda archive: versions.put(context, version, archive, again))


def _settle(
    context: Context,
    version: layout.Version,
    manner: Manner,
    installed: dict[str, Any],
    result: dict[str, Any],
    check_mode: bool,
) -> None:
    """Does what needs no archive: the switch, modes, links in CUDA's tree, other versions."""
    if installed["names"] and installed["complete"] and not installed["current"]:
        result["changed"] = True
        if not check_mode:
            result["backup"] += versions.switch(context, version)["backup"]
    opened = directories.repair(
        context, version.root, version.tree, installed["names"], doing=not check_mode
    )
    links = _links(context, version, manner, installed["names"], check_mode)
    removed = [] if manner.keep_old else installed["others"]
    if removed and not check_mode:
        result["backup"] += versions.prune(context, version)
    result["removed"] += removed
    result["changed"] |= bool(opened or removed or links)


def _links(
    context: Context, version: layout.Version, manner: Manner, names: list[str], check_mode: bool
) -> list[str]:
    """Corrects links in CUDA's tree; returns those that differed. Refuses a missing tree."""
    to = manner.links
    if to is not None and not context.exists(f"{to}/lib64") and not check_mode:
        raise RefusalError(
            f"cudnn_layout is cuda, and {to}/lib64 is missing: it comes with NVIDIA's packages of"
            " CUDA. Install them first, name their tree in cudnn_tree, or leave cudnn_layout at"
            " versioned."
        )
    links = {} if to is None else layout.tree_links(context, version.tree, names, to)
    return tree.settle(context, to, links, doing=not check_mode)
