"""Directories of this program's own below a root that others may use too."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .context import Context


def marked(context: Context, root: str, mark: str) -> list[list[Any]]:
    """[[path, "present"]] of those that hold our mark, and of `current` where it leads to one."""
    paths = [
        "{0}/{1}".format(root, name)
        for name in context.listdir(root)
        if name != "current" and context.exists("{0}/{1}/{2}".format(root, name, mark))
    ]
    target = context.readlink(root + "/current")
    if target is not None and "/" not in target.rstrip("/"):
        place = "{0}/{1}".format(root, target)
        if place in paths or not context.exists(place):
            paths.append(root + "/current")
    return [[path, "present"] for path in paths]
