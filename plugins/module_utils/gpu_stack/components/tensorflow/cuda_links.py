"""Links by which TensorFlow finds the CUDA libraries that are among its wheels.

The RUNPATH of TensorFlow's libraries does not have the directory of every CUDA wheel: 2.21 lacks
cusolver's, and so has no GPU (tensorflow#63362). All have this one, and libraries that are opened
over a link there find each other, for it lies as deep as their own.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator

from .. import tensorflow
from . import venv_place


def bring(site: str, dry: bool = False) -> list[str]:
    """Links all libraries of NVIDIA's wheels in `site`; names of the links that were missing."""
    missing = []
    for link, target in sorted(_links(site)):
        path = os.path.join(site, link)
        if os.path.islink(path) and os.readlink(path) == target:
            continue
        missing.append(link)
        if not dry:
            venv_place.put_link(path, target)
    return missing


def _links(site: str) -> Iterator[tuple[str, str]]:
    """Yields (link, target) of each library; the target as seen from the link's directory."""
    for directory, directories, names in os.walk(site + "/nvidia"):
        for name in directories + names:
            path = os.path.relpath(os.path.join(directory, name), site)
            own = path.startswith("nvidia/cuda_runtime/")
            if fnmatch.fnmatchcase(path, "nvidia/*/lib/*.so*") and not own:
                yield tensorflow.LINKS + name, "../../" + path[len("nvidia/") :]
