"""cuDNN: one version directory, unpacked from a checked archive, behind a symlink.

The manifest that the role writes last says what the archive held; comparing sizes, modes and links
with it names a deleted or truncated library without reading 1.5 GB.
"""

from ...change import change
from ...host import file_state, loader, modes
from . import layout, ways
from .layout import MANIFEST, directory_name, header_version, library_directory

NAME = "cudnn"
LOADER_FILE = "/etc/ld.so.conf.d/00-provision-cudnn.conf"


def root_of(options):
    return (options.get("cudnn_root") or "/opt/nvidia/cudnn").rstrip("/")


def directory(row):
    """The name of the version's directory below the root."""
    return directory_name(row["version"], row["cuda"])


def tree_of(row, options):
    """CUDA's tree, where cuDNN's files shall be linked into it; None otherwise."""
    return layout.tree_of(options.get("cudnn_layout"), options.get("cudnn_tree"), row["cuda"])


def _links(context, row, top, names):
    """({path: target} as wished, {path: target} that are there and shall not be)."""
    tree = tree_of(row, context.options)
    wish = {} if tree is None else layout.tree_links(top, names, tree)
    left = {}
    for path in context.glob(f"{layout.TREES}/{layout.TREE_RECORD}"):
        for link, target in layout.recorded(context, path).items():
            if link not in wish and context.readlink(link) == target:
                left[link] = target
    return wish, left


def look(context):
    """{version, current, manifest, files, header, loader_file, written, library, ways}.

    `version` is what cudnn_version.h under `current` says, which is what a compiler would see;
    `files` says of each file in the manifest what is there now.
    """
    row = context.part(NAME)
    root = root_of(context.options)
    top = "{0}/{1}".format(root, directory(row)) if row else None
    place = "{0}/{1}".format(top, MANIFEST)
    manifest = layout.manifest(context, top) if top else None
    # The manifest is written last: what is newer was touched after it was unpacked.
    since = context.stat(place).st_mtime if manifest else 0
    here = context.stat("/")
    owner = here.st_uid if here is not None else 0
    names = sorted(manifest["files"]) if manifest else []
    soname = row.get("soname")
    path = context.loader.get(soname) if soname else None
    header = header_version(context.read(root + "/current/include/cudnn_version.h"))
    links, left = _links(context, row, top, names) if row else ({}, {})
    return {
        "links": {
            one: context.readlink(one) for one in links if context.readlink(one) != links[one]
        },
        "links_left": sorted(left),
        "version": header,
        "current": context.readlink(root + "/current"),
        "manifest": manifest,
        "files": {name: layout.entry(context, f"{top}/{name}", owner, since) for name in names},
        "header": header,
        "loader_file": context.read(LOADER_FILE),
        "written": file_state.faults(context, [LOADER_FILE]),
        "cache": loader.cache(context),
        "library": None if path is None else loader.inspect(context, path),
        "loader_path": path,
        "ways": ways.faults(context, root, top, names) if top else {},
        "manifest_mode": modes.ways(context, [place]).get(place) if top else None,
    }


def _file_change(name, wish, seen):
    """The change for one file of the manifest, or None when it is as it was unpacked."""
    fault = layout.fault(wish, seen)
    if fault is None:
        return None
    item = name.rsplit("/", 1)[-1]
    reason = f"{name} is part of the archive"
    to = f"link to {wish['link']}" if "link" in wish else f"{wish['size']} bytes"
    if fault == "missing":
        return change(NAME, item, "missing", to, reason)
    if fault == "kind":
        old = f"link to {seen['link']}" if "link" in seen else seen.get("other", "a file")
        return change(NAME, item, old, to, reason)
    if fault == "size":
        return change(NAME, item, f"{seen['size']} bytes", to, reason)
    if fault == "mode":
        return change(NAME, item, "mode " + seen["mode"], "mode " + wish["mode"], reason)
    repair = {"cudnn_reinstall": True}  # the role compares sizes and modes, nothing else
    if fault == "sha256":
        return change(NAME, item, "other content", wish.get("sha256"), reason, repair=repair)
    old = f"owned by user {seen['owner']}"
    return change(NAME, item, old, "owned by root", reason, repair=repair)


def _link_changes(row, found, root):
    """Links in CUDA's own tree that are lacking, and those that are of no use any more."""
    to = "link into {0}/{1}".format(root, directory(row))
    changes = [
        change(NAME, path, seen, to, "cudnn_layout is cuda")
        for path, seen in sorted((found.get("links") or {}).items())
    ]
    for path in found.get("links_left") or []:
        changes.append(change(NAME, path, "link", None, "it is of another version or layout"))
    return changes


def differ(row, found, options):
    """What keeps the wished cuDNN from being whole, current, readable and found by the loader."""
    root = root_of(options)
    version = "{0} for CUDA {1}".format(row["version"], row["cuda"])
    manifest = found["manifest"]
    changes = []
    if manifest is None:
        reason = "{0}/{1} is not there or not finished".format(root, directory(row))
        changes.append(change(NAME, "cudnn", found["version"], version, reason))
        return changes
    digest = row["sha256"].lower()
    wish = (row["version"], row["cuda"], digest)
    if wish != tuple(manifest.get(key) for key in ("version", "cuda", "archive_sha256")):
        reason = "it was unpacked from another archive than the lock's"
        changes.append(change(NAME, "cudnn", manifest.get("version"), version, reason))
        return changes
    for name in sorted(manifest["files"]):
        one = _file_change(name, manifest["files"][name], found["files"].get(name))
        if one is not None:
            changes.append(one)
    if found["current"] != directory(row):
        reason = "{0}/current is what the loader and compilers see".format(root)
        changes.append(change(NAME, "current", found["current"], directory(row), reason))
    elif not changes and not row["version"].startswith((found["header"] or "none") + "."):
        reason = "cudnn_version.h says what is really there"
        changes.append(change(NAME, "cudnn_version.h", found["header"], row["version"], reason))
    for path, fault in sorted(found["ways"].items()):
        reason = "users could not load it" if fault == "closed" else "others could change cuDNN"
        changes.append(change(NAME, path, fault, "root's, readable by all", reason))
    fault = found.get("manifest_mode")
    if fault is not None:
        reason = "it tells whether cuDNN's files are whole"
        repair = {"cudnn_reinstall": True}
        item = "{0}/{1}/{2}".format(root, directory(row), MANIFEST)
        changes.append(change(NAME, item, fault[0], "mode " + fault[1], reason, repair=repair))
    changes += _link_changes(row, found, root)
    libraries = "{0}/current/{1}".format(root, library_directory(manifest["files"]))
    fault = (found.get("written") or {}).get(LOADER_FILE)
    if fault is not None or (found["loader_file"] or "").strip() != libraries:
        old = fault or (found["loader_file"] or "").strip() or None
        reason = "the loader learns of the directory from it"
        changes.append(change(NAME, LOADER_FILE, old, libraries, reason))
    places = [libraries + "/"]
    tree = tree_of(row, options)
    if tree is not None:
        places.append(tree + "/lib64/")
    changes.extend(_soname_changes(row, found, libraries, places, changes))
    return changes


def needs_archive(changes):
    """Do some of these changes unpack the archive? The others set links, modes and loader files."""
    return any(
        one["component"] == NAME
        and one["to"] != "absent"
        and one["item"] != "current"
        and not one["item"].startswith("/")
        and not str(one["from"]).startswith("/")
        for one in changes
    )


def _soname_changes(row, found, libraries, places, known):
    soname = row.get("soname")
    if not found.get("cache", True):
        reason = "without it the loader finds no library outside its own directories"
        return [change(NAME, loader.CACHE, "missing", "rebuilt", reason)]
    items = [one["item"] for one in known]
    if soname is None or soname in items:
        return []
    to = "{0}/{1}".format(libraries, soname)
    seen = found["library"]
    fault = loader.complaint(seen)
    if fault is not None:
        reason = "TensorFlow opens {0} by name, and the loader finds no whole file".format(soname)
        return [change(NAME, soname, fault, to, reason)]
    if not found["loader_path"].startswith(tuple(places)):
        reason = "the loader takes {0} from another cuDNN first".format(soname)
        return [change(NAME, soname, found["loader_path"], to, reason)]
    return []
