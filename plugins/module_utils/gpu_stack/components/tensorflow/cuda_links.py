"""Links by which TensorFlow finds the CUDA libraries that are among its wheels.

TensorFlow's own libraries do not name the place of every wheel of CUDA's: 2.21 lacks cusolver's,
and has no GPU for that (tensorflow#63362). All name this one, and libraries that are opened over a
link there find each other, for it lies as deep as their own.
"""

import fnmatch
import os

from .. import tensorflow
from . import venv_place


def bring(site, dry=False):
    """Links all libraries of NVIDIA's wheels in `site`; names of the links that were not there."""
    found = []
    for link, target in sorted(_wanted(site)):
        path = os.path.join(site, link)
        if os.path.islink(path) and os.readlink(path) == target:
            continue
        found.append(link)
        if not dry:
            venv_place.put_link(path, target)
    return found


def _wanted(site):
    """(link, target) of each library, from the directory of the links."""
    for directory, directories, names in os.walk(site + "/nvidia"):
        for name in directories + names:
            path = os.path.relpath(os.path.join(directory, name), site)
            own = path.startswith("nvidia/cuda_runtime/")
            if fnmatch.fnmatchcase(path, "nvidia/*/lib/*.so*") and not own:
                yield tensorflow.LINKS + name, "../../" + path[len("nvidia/") :]
