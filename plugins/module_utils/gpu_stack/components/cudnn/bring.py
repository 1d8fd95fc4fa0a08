"""Brings a host to the cuDNN that is wished, or takes it away: what the module does, in its order.

Fetching and unpacking take long and wait for nothing. `begin` does them behind other tasks, and
`present` takes up the result; what went wrong behind is met again there, and told.
"""

import collections
import contextlib
import os
import signal
import sys

from ...host import background
from ...host.context import Context
from ...host.process_name import called
from . import fetch, layout, tree, versions, ways
from .archive import RefusalError

JOB = "/run/provision/cudnn"
# In /proc/PID/comm while it fetches and unpacks: scripts/fault_watch.py looks for it.
PROCESS = "provision-cudnn"

# How it shall be there, beside which version it is. links: CUDA's tree for them, or None.
Manner = collections.namedtuple("Manner", "reinstall keep_old links")


class Sources(collections.namedtuple("Sources", "host_file archive to_come urls proxy ca_bundle")):
    """Where the archive is to be had, the first that is set.

    archive: a file in one of fetch.directory's, which goes with it. to_come: whether such a one
    will be copied here once it is known to be needed.
    """

    __slots__ = ()

    @property
    def waits(self):
        return self.to_come and not self.host_file and not self.archive

    @property
    def none(self):
        return not (self.host_file or self.archive or self.to_come or self.urls)


def settle(params, check_mode):
    """What the module of these parameters returns. RefusalError."""
    context = Context()
    root = params["root"].rstrip("/")
    wish = layout.Wish(root, params["version"], params["cuda"], (params["sha256"] or "").lower())
    if params["state"] == "absent":
        return absent(context, wish, check_mode)
    sources = Sources(
        params["host_file"],
        params["archive"],
        bool(params["controller_file"]),
        *(params[name] for name in ("urls", "proxy", "ca_bundle")),
    )
    links = layout.tree_of(params["layout"], params["tree"], wish.cuda)
    manner = Manner(params["reinstall"], params["keep_old"], links)
    doing = begin if params["begin"] else present
    return doing(context, wish, sources, manner, check_mode)


def begin(context, wish, sources, manner, check_mode=False):
    """Begins to fetch and to unpack, where that is to do and can be done; changes nothing else."""
    found = versions.look(context, wish)
    _refuse_without_source(wish, sources, manner, found)
    if found["complete"] or manner.reinstall or check_mode:
        return {"changed": False, "begun": False}
    if sources.waits:
        return {"changed": False, "begun": False, "archive_needed": _place()}
    try:
        background.begin(JOB, lambda: _brought(context, wish, sources))
    except (background.BusyError, OSError):  # it is done in its own turn
        fetch.forget(sources.archive)
        return {"changed": False, "begun": False}
    return {"changed": False, "begun": True}


def present(context, wish, sources, manner, check_mode=False):
    """Brings the wished version to its place and makes it current, readable and linked."""
    result = {"changed": False, "backup": [], "removed": []}
    if not check_mode:
        _take_up(result)
    found = versions.look(context, wish)
    result["renewed"] = not found["complete"] or manner.reinstall or not found["current"]
    if not found["complete"] or manner.reinstall:
        reason = _refuse_without_source(wish, sources, manner, found)
        if check_mode:
            result["msg"] = f"Would install cuDNN {wish.name}: {reason}"
        elif sources.waits:
            result["changed"] |= bool(fetch.remove_remains())
            return dict(result, archive_needed=_place())
        else:
            _install(context, wish, sources, manner, result)
            found = versions.look(context, wish)
        result["changed"] = True
    _settle(context, wish, manner, found, result, check_mode)
    library = _library(wish, found)
    places = [library] if manner.links is None else [library, f"{manner.links}/lib64"]
    return dict(result, library=library, libraries=places)


def absent(context, wish, check_mode=False):
    """Takes away the versions that were unpacked here; a file that was changed since is kept."""
    library = _library(wish, versions.look(context, wish))
    if check_mode:
        removed = versions.removable(context, wish.root)
        result = {"changed": bool(removed), "removed": removed, "kept": []}
        if removed:
            words = "Would remove the versions of cuDNN that this role unpacked below"
            result["msg"] = f"{words} {wish.root}"
    else:
        result = versions.remove(context, wish.root)
    return dict(result, library=library)


def _library(wish, found):
    """Where the version has its libraries once it is current."""
    names = found["names"]
    place = layout.library_directory(names) if names else None
    place = place or layout.expected_library_directory(wish.version)
    return f"{wish.root}/{layout.CURRENT}/{place}"


def _take_up(result):
    """Waits for what was begun behind other tasks."""
    try:
        brought = background.result(JOB)
    except background.EndedError:
        return  # it is done in this turn, or what stands in the way is said
    if brought is not None:
        result["changed"] |= brought["changed"]
        result["backup"] += brought["backup"]


def _refuse_without_source(wish, sources, manner, found):
    """Why the archive is needed; refused where it is, and nothing says where it is to be had."""
    reason = (found["problems"] or ["cudnn_reinstall is set"])[0]
    if sources.none and (found["problems"] or manner.reinstall):
        raise RefusalError(
            f"cuDNN {wish.name} is not on this host ({reason}), and cudnn_host_file,"
            " cudnn_controller_file and cudnn_urls are all empty: name at least one of them."
        )
    return reason


def _place():
    return os.path.join(fetch.directory(), fetch.ARCHIVE)


def _install(context, wish, sources, manner, result):
    """Unpacks the archive, from wherever it is to be had."""
    if not sources.archive:
        fetch.remove_remains()
    try:
        brought = _brought(context, wish, sources, manner.reinstall)
    except fetch.NowhereError:
        raise
    except (RefusalError, OSError) as error:
        raise RefusalError(
            f"cuDNN {wish.name} was not installed: {error}. The host is as it was."
        ) from error
    result["backup"] += brought["backup"]


def _brought(context, wish, sources, again=False):
    """Puts the version in its place and switches to none: {changed, backup}."""
    with _at_work(), fetch.surroundings(sources.proxy, sources.ca_bundle):
        if sources.host_file:
            return versions.put(context, wish, sources.host_file, again)
        if sources.archive:
            try:
                return versions.put(context, wish, sources.archive, again)
            finally:
                fetch.forget(sources.archive)
        urls = fetch.addresses(sources.urls, wish.version, wish.cuda)
        return fetch.first(urls, lambda archive: versions.put(context, wish, archive, again))


@contextlib.contextmanager
def _at_work():
    """Known by its name; who ends this from outside ends it as an error does: nothing half-done."""
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        with called(PROCESS):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _settle(context, wish, manner, found, result, check_mode):
    """What needs no archive: the switch, modes, other versions, links in CUDA's tree."""
    if found["names"] and found["complete"] and not found["current"]:
        result["changed"] = True
        if not check_mode:
            result["backup"] += versions.switch(context, wish)["backup"]
    opened = ways.cure(context, wish.root, wish.tree, found["names"], doing=not check_mode)
    removed = [] if manner.keep_old else found["others"]
    if removed and not check_mode:
        versions.prune(context, wish)
    result["removed"] += removed
    links = _links(context, wish, manner, found["names"], check_mode)
    result["changed"] |= bool(opened or removed or links)


def _links(context, wish, manner, names, check_mode):
    """The links that were not as wished, by now put right; a layout without its tree is refused."""
    to = manner.links
    if to is not None and not context.exists(f"{to}/lib64") and not check_mode:
        raise RefusalError(
            f"cudnn_layout is cuda, and {to}/lib64 is not there: it comes with NVIDIA's packages of"
            " CUDA. Install them first, name their tree in cudnn_tree, or leave cudnn_layout at"
            " versioned."
        )
    links = {} if to is None else layout.tree_links(wish.tree, names, to)
    return tree.settle(context, to, links, doing=not check_mode)
