"""cuDNN's headers and libraries under their names in CUDA's tree, as tutorials copy them there.

Links to the version's own directory instead of copies: switching versions leaves nothing behind,
and the 1.5 GB are on the disk once. A foreign file in a link's place, and one that the loader
would take before a link, is kept in TREE/.provision-saved, which no loader reads.
TREE/.provision-cudnn records the links, and is written before them, so that an interrupted run
leaves no unrecorded link.
"""

from __future__ import annotations

import json
import os
import shutil

from ...host.kept_names import free_name
from ...type_checking import TYPE_CHECKING
from . import layout

if TYPE_CHECKING:
    from ...host.context import Context


def settle(context: Context, tree: str | None, links: dict[str, str], doing: bool) -> list[str]:
    """Brings the links in all CUDA trees to `links` in `tree`; returns the paths that differed.

    links: as of layout.tree_links. tree: None for no links in any tree. Without `doing` nothing is
    changed.
    """
    changed = []
    real = None if tree is None else context.resolve(tree) or tree
    for other in layout.linked_trees(context):
        if other != real:
            changed += _settle(context, other, {}, doing)
    if real is not None:
        changed += _settle(context, real, links, doing)
    return changed


def _settle(context: Context, tree: str, links: dict[str, str], doing: bool) -> list[str]:
    record = f"{tree}/{layout.TREE_RECORD}"
    before = layout.recorded(context, tree)
    changed = [path for path in sorted(links) if context.readlink(path) != links[path]]
    obsolete = [
        path
        for path in sorted(before)
        if path not in links and context.readlink(path) == before[path]
    ]
    rivals = [path for path in layout.rivals(context, tree, links) if path not in obsolete]
    if before != links:
        changed.append(record)
    if not doing or not changed + obsolete + rivals:
        return changed + obsolete + rivals
    if links:
        _write(record, dict(before, **links))
    for path in obsolete:
        os.unlink(path)
    for path in rivals:
        _set_aside(tree, path)
    for path in changed:
        if path == record:
            continue
        if path in before and context.readlink(path) == before[path]:
            os.unlink(path)
        put(tree, path, links[path])
    if links:
        _write(record, links)
    else:
        os.unlink(record)
    return changed + obsolete + rivals


def put(tree: str, path: str, target: str) -> None:
    """Creates a link at `path` in the tree; an existing file is set aside."""
    if os.path.lexists(path):
        _set_aside(tree, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)


def _set_aside(tree: str, path: str) -> None:
    """Moves a file to the tree's .provision-saved, or to a numbered one where its name is taken."""
    name = path[len(tree) :]
    kept = free_name(f"{tree}/", lambda directory: os.path.lexists(directory + name)) + name
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    shutil.move(path, kept)


def _write(record: str, links: dict[str, str]) -> None:
    """Writes a record atomically."""
    new = record + ".new"
    with open(new, "w", encoding="utf-8") as file:
        json.dump(links, file, indent=1, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, record)
