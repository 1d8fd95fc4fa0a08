"""Whether root alone can change a place, or put something else there."""

from __future__ import annotations

import os
import stat


def ways(*paths: str) -> list[str]:
    """The root, each folder that leads to one of these absolute paths, and the path; each once."""
    places = ["/"]
    for path in paths:
        parts = [part for part in path.split("/") if part]
        places += ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
    return list(dict.fromkeys(places))


def others_change(info: os.stat_result) -> bool:
    """Whether others than root can change what has this status; a link's mode says nothing.

    In a recorded tree the files belong to whoever looks.
    """
    mine = info.st_uid in (0, os.geteuid())
    return not mine or (not stat.S_ISLNK(info.st_mode) and bool(info.st_mode & 0o022))
