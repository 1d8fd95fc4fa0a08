"""cuDNN: one version directory, unpacked from a checked archive, behind a symlink.

The manifest that the role writes last lists the archive's content. Comparing sizes, modes and links
with it detects a deleted or truncated library without reading 1.5 GB.
"""

from __future__ import annotations

from ...change import change
from ...host import code_users, file_state, loader, modes
from ...type_checking import TYPE_CHECKING
from . import directories, layout
from .layout import MANIFEST, directory_name, header_version, library_directory

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row, Stack, State

NAME = "cudnn"
LOADER_FILE = "/etc/ld.so.conf.d/00-provision-cudnn.conf"


def root_of(options: Options) -> str:
    return (options.get("cudnn_root") or "/opt/nvidia/cudnn").rstrip("/")


def directory(row: Row) -> str:
    """The name of the version's directory below the root."""
    return directory_name(row["version"], row["cuda"])


def tree_of(row: Row, options: Options) -> str | None:
    """CUDA's tree if cuDNN's files are to be linked into it; None otherwise."""
    return layout.tree_of(options.get("cudnn_layout"), options.get("cudnn_tree"), row["cuda"])


def _links(
    context: Context, row: Row, top: str, names: list[str]
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """({path: target} of the links to have, {path: target} of existing links to remove, rivals)."""
    tree = tree_of(row, context.options)
    links = {} if tree is None else layout.tree_links(context, top, names, tree)
    obsolete = {}
    for linked in layout.linked_trees(context):
        for link, target in layout.recorded(context, linked).items():
            if link not in links and context.readlink(link) == target:
                obsolete[link] = target
    real = None if tree is None else context.resolve(tree)
    rivals = [] if real is None else layout.rivals(context, real, links)
    return links, obsolete, [path for path in rivals if path not in obsolete]


def look(context: Context) -> dict[str, Any]:
    """State of cuDNN on the host.

    `version` is from cudnn_version.h under `current`, which is what a compiler sees; `files` has
    the actual properties of each file in the manifest.
    """
    row = context.part(NAME)
    root = root_of(context.options)
    top = f"{root}/{directory(row)}" if row else None
    place = f"{top}/{MANIFEST}"
    manifest = layout.manifest(context, top) if top else None
    # The manifest is written last: newer files were changed after they were unpacked.
    info = context.stat(place) if manifest else None
    since = info.st_mtime if info is not None else 0
    info = context.stat("/")
    owner = info.st_uid if info is not None else 0
    names = sorted(manifest["files"]) if manifest else []
    soname = row.get("soname")
    path = context.loader.get(soname) if soname else None
    header = header_version(context.read(root + "/current/include/cudnn_version.h"))
    keeps_old = context.options.get("cudnn_keep_old", True)
    links, obsolete, rivals = _links(context, row, top, names) if top else ({}, {}, [])
    return {
        "links": {
            link: context.readlink(link) for link in links if context.readlink(link) != links[link]
        },
        "links_left": sorted(obsolete),
        "rivals": rivals,
        "version": header,
        "current": context.readlink(root + "/current"),
        "manifest": manifest,
        "old": layout.others(context, root, directory(row)) if row and not keeps_old else [],
        "files": {name: layout.entry(context, f"{top}/{name}", owner, since) for name in names},
        "header": header,
        "loader_file": context.read(LOADER_FILE),
        "written": file_state.faults(context, [LOADER_FILE]),
        "cache": loader.cache(context),
        "library": None if path is None else loader.inspect(context, path),
        "loader_path": path,
        "ways": directories.faults(context, root, top, names) if top else {},
        "manifest_mode": modes.faults(context, [place]).get(place) if top else None,
    }


def _file_change(
    name: str, expected: dict[str, Any], actual: dict[str, Any] | None
) -> dict[str, Any] | None:
    """The change for one file of the manifest; None if it is as it was unpacked."""
    fault = layout.fault(expected, actual)
    if fault is None:
        return None
    item = name.rsplit("/", 1)[-1]
    reason = f"{name} is part of the archive"
    to = f"link to {expected['link']}" if "link" in expected else f"{expected['size']} bytes"
    if fault == "missing" or actual is None:
        return change(NAME, item, "missing", to, reason)
    if fault == "kind":
        old = f"link to {actual['link']}" if "link" in actual else actual.get("other", "a file")
        return change(NAME, item, old, to, reason)
    if fault == "size":
        return change(NAME, item, f"{actual['size']} bytes", to, reason)
    if fault == "mode":
        return change(NAME, item, "mode " + actual["mode"], "mode " + expected["mode"], reason)
    repair = {"cudnn_reinstall": True}  # the role compares sizes and modes, nothing else
    if fault == "sha256":
        return change(NAME, item, "other content", expected.get("sha256"), reason, repair=repair)
    old = f"owned by user {actual['owner']}"
    return change(NAME, item, old, "owned by root", reason, repair=repair)


def _link_changes(row: Row, state: State, root: str) -> Changes:
    """Changes for links in CUDA's tree: missing and obsolete ones, and files that outdo them."""
    to = f"link into {root}/{directory(row)}"
    changes = [
        change(NAME, path, target, to, "cudnn_layout is cuda")
        for path, target in sorted((state.get("links") or {}).items())
    ]
    for path in state.get("links_left") or []:
        changes.append(change(NAME, path, "link", None, "it is of another version or layout"))
    reason = "the loader would take it before the link"
    for path in state.get("rivals") or []:
        changes.append(change(NAME, path, "another cuDNN", "set aside", reason))
    return changes


def differ(stack: Stack, state: State, options: Options) -> Changes:
    """Changes that make the locked cuDNN complete, current, readable and known to the loader, and
    the only one where others are not to be kept.
    """
    reason = "cudnn_keep_old is false"
    old = [change(NAME, name, "present", "absent", reason) for name in state.get("old") or []]
    return _locked_changes(stack[NAME], state, options) + old


def survey(context: Context, _facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `cudnn_users`: who uses the versions that a run would remove."""
    root = root_of(context.options)
    old = [entry["item"] for entry in changes if entry["component"] == NAME
           and entry["to"] == "absent" and not entry["item"].startswith("/")]  # fmt: skip
    places = code_users.resolved(context, {name: f"{root}/{name}" for name in old})
    return {"cudnn_users": code_users.using(context, places)} if old else {}


def _locked_changes(row: Row, state: State, options: Options) -> Changes:
    root = root_of(options)
    version = "{0} for CUDA {1}".format(row["version"], row["cuda"])
    manifest = state["manifest"]
    changes = []
    if manifest is None:
        reason = f"{root}/{directory(row)} is missing or unfinished"
        changes.append(change(NAME, "cudnn", state["version"], version, reason))
        return changes
    digest = row["sha256"].lower()
    locked = (row["version"], row["cuda"], digest)
    if locked != tuple(manifest.get(key) for key in ("version", "cuda", "archive_sha256")):
        reason = "it was unpacked from another archive than the lock's"
        changes.append(change(NAME, "cudnn", manifest.get("version"), version, reason))
        return changes
    for name in sorted(manifest["files"]):
        file_change = _file_change(name, manifest["files"][name], state["files"].get(name))
        if file_change is not None:
            changes.append(file_change)
    if state["current"] != directory(row):
        reason = f"{root}/current is what the loader and compilers see"
        changes.append(change(NAME, "current", state["current"], directory(row), reason))
    elif not changes and not row["version"].startswith((state["header"] or "none") + "."):
        reason = "cudnn_version.h says what is really there"
        changes.append(change(NAME, "cudnn_version.h", state["header"], row["version"], reason))
    for path, fault in sorted(state["ways"].items()):
        reason = "users could not load it" if fault == "closed" else "others could change cuDNN"
        changes.append(change(NAME, path, fault, "root's, readable by all", reason))
    fault = state.get("manifest_mode")
    if fault is not None:
        reason = "cuDNN's files are checked against it"
        repair = {"cudnn_reinstall": True}
        item = f"{root}/{directory(row)}/{MANIFEST}"
        changes.append(change(NAME, item, fault[0], "mode " + fault[1], reason, repair=repair))
    changes += _link_changes(row, state, root)
    libraries = "{0}/current/{1}".format(root, library_directory(manifest["files"]))
    fault = (state.get("written") or {}).get(LOADER_FILE)
    if fault is not None or (state["loader_file"] or "").strip() != libraries:
        old = fault or (state["loader_file"] or "").strip() or None
        reason = "it names the directory for the loader"
        changes.append(change(NAME, LOADER_FILE, old, libraries, reason))
    places = [libraries + "/"]
    tree = tree_of(row, options)
    if tree is not None:
        places.append(tree + "/lib64/")
    changes.extend(_soname_changes(row, state, libraries, places, changes))
    return changes


def needs_archive(changes: Changes) -> bool:
    """Whether any change unpacks the archive; the others set links, modes and loader files."""
    return any(
        entry["component"] == NAME
        and entry["to"] != "absent"
        and entry["item"] != "current"
        and not entry["item"].startswith("/")
        and not str(entry["from"]).startswith("/")
        for entry in changes
    )


def _soname_changes(
    row: Row,
    state: State,
    libraries: str,
    places: list[str],
    changes: list[dict[str, Any]],
) -> Changes:
    soname = row.get("soname")
    if not state.get("cache", True):
        reason = "without it the loader finds no library outside its own directories"
        return [change(NAME, loader.CACHE, "missing", "rebuilt", reason)]
    items = [entry["item"] for entry in changes]
    if soname is None or soname in items:
        return []
    to = f"{libraries}/{soname}"
    library = state["library"]
    fault = loader.complaint(library)
    if fault is not None:
        reason = f"TensorFlow opens {soname} by name, and the loader finds no whole file"
        return [change(NAME, soname, fault, to, reason)]
    if not state["loader_path"].startswith(tuple(places)):
        reason = f"the loader takes {soname} from another cuDNN first"
        return [change(NAME, soname, state["loader_path"], to, reason)]
    return []
