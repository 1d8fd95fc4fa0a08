"""cuDNN's headers and libraries under their names in CUDA's tree, as tutorials copy them there.

Links to the version's own directory and no copies: another version changes them and leaves nothing
behind, and 1.5 GB lie on the disk once. What stands in a link's place and is not ours is kept as
NAME.provision-saved. TREE/.provision-cudnn names the links, and is written before them, so that a
run that was cut off leaves none that nobody knows.
"""

import json
import os

from ...host.kept_names import free_name
from . import layout


def settle(context, tree, links, doing):
    """Makes the links of all CUDA trees those of `links` in `tree`; the paths that were not so.

    links: {path: target}. tree: None where there shall be none in any tree. Without `doing`
    nothing is changed.
    """
    changed = []
    for record in context.glob(f"{layout.TREES}/{layout.TREE_RECORD}"):
        other = os.path.dirname(record)
        if other != tree:
            changed += _settle(context, other, {}, doing)
    if tree is not None:
        changed += _settle(context, tree, links, doing)
    return changed


def _settle(context, tree, links, doing):
    record = f"{tree}/{layout.TREE_RECORD}"
    before = layout.recorded(context, record)
    changed = [path for path in sorted(links) if context.readlink(path) != links[path]]
    gone = [
        path
        for path in sorted(before)
        if path not in links and context.readlink(path) == before[path]
    ]
    if before != links:
        changed.append(record)
    if not doing or not changed + gone:
        return changed + gone
    if links:
        _write(record, dict(before, **links))
    for path in gone:
        os.unlink(path)
    for path in changed:
        if path == record:
            continue
        if path in before and context.readlink(path) == before[path]:
            os.unlink(path)
        put(path, links[path])
    if links:
        _write(record, links)
    else:
        os.unlink(record)
    return changed + gone


def put(path, target):
    """A link at `path`; what is there is kept beside."""
    if os.path.lexists(path):
        os.rename(path, free_name(path))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)


def _write(record, links):
    """A record, whole or not at all."""
    new = record + ".new"
    with open(new, "w", encoding="utf-8") as file:
        json.dump(links, file, indent=1, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, record)
