"""What a version of cuDNN looks like on the disk: its names, its manifest and its links.

    ROOT/8.1.0.77-cuda11.2/{include,lib64}       the files, readable by all (lib from 8.3 on)
    ROOT/8.1.0.77-cuda11.2/.provision-manifest.json
    ROOT/current -> 8.1.0.77-cuda11.2

The look and the module that unpacks ask the same functions, so what one finds the other cures.
"""

import collections
import json
import re
import stat

from ...host import package_files

MANIFEST = ".provision-manifest.json"
MANIFEST_FORMAT = 1
CURRENT = "current"
# CUDA's own trees, and what names the links in one of them.
TREES = "/usr/local/cuda-*"
TREE_RECORD = ".provision-cudnn"


class Wish(collections.namedtuple("Wish", "root version cuda sha256")):
    """The version that shall be there: below which directory, and from which archive."""

    __slots__ = ()

    @property
    def name(self):
        return directory_name(self.version, self.cuda)

    @property
    def tree(self):
        """The version's own directory."""
        return f"{self.root}/{self.name}"


def directory_name(version, cuda):
    """The name of a version's directory: "8.1.0.77-cuda11.2"."""
    return f"{version}-cuda{cuda}"


def library_directory(names):
    """`lib64` (up to 8.2) or `lib` (from 8.3 on), whichever of an archive's files lie in."""
    return "lib64" if any(name.startswith("lib64/") for name in names) else "lib"


def expected_library_directory(version):
    """The same of a version whose archive is not there yet."""
    return "lib64" if is_of_old_form(version) else "lib"


def is_of_old_form(version):
    """Whether NVIDIA packed this version as it did until 8.2: with lib64, as .tgz."""
    return [int(number) for number in re.findall(r"\d+", version)[:2]] < [8, 3]


def header_numbers(text):
    """{"MAJOR": "8", ...} as far as cudnn_version.h defines them."""
    found = {}
    for part in ("MAJOR", "MINOR", "PATCHLEVEL"):
        match = re.search(rf"^#define\s+CUDNN_{part}\s+(\d+)", text or "", re.M)
        if match is not None:
            found[part] = match.group(1)
    return found


def header_version(text):
    """`8.1.0` from cudnn_version.h; None when it does not say."""
    numbers = header_numbers(text)
    return ".".join(numbers.values()) if len(numbers) == 3 else None


def manifest(context, tree):
    """The manifest of an unpacked version, or None where there is none that can be read."""
    found = _json(context, f"{tree}/{MANIFEST}")
    if not isinstance(found, dict) or found.get("format") != MANIFEST_FORMAT:
        return None
    return found if isinstance(found.get("files"), dict) else None


def entry(context, path, owner=None, since=float("inf")):
    """What is at `path`, as a manifest has it; None where nothing is.

    owner: who else owns it is said. since: the hash of a file that is newer is taken, and of every
    file where the look is deep.
    """
    info = context.lstat(path)
    if info is None:
        return None
    if stat.S_ISLNK(info.st_mode):
        return {"link": context.readlink(path)}
    if not stat.S_ISREG(info.st_mode):
        return {"other": "a directory" if stat.S_ISDIR(info.st_mode) else "not a file"}
    seen = {"size": info.st_size, "mode": f"{stat.S_IMODE(info.st_mode):04o}"}
    if owner is not None and info.st_uid != owner:
        seen["owner"] = info.st_uid
    if context.deep or info.st_mtime > since:
        seen["sha256"] = package_files.digest(context, path, "sha256")
    return seen


def fault(wish, seen):
    """What of a file is not as its manifest says: the key that differs, "missing" or "kind".

    None where all is. The hash and the owner are compared where `seen` has them.
    """
    if seen is None:
        return "missing"
    if "link" in wish:
        return None if seen.get("link") == wish["link"] else "kind"
    if "link" in seen or "other" in seen:
        return "kind"
    if seen["size"] != wish["size"]:
        return "size"
    if "sha256" in seen and seen["sha256"] != wish.get("sha256"):
        return "sha256"
    if int(seen["mode"], 8) != int(wish["mode"], 8):
        return "mode"
    return "owner" if "owner" in seen else None


def tree_of(layout, tree, cuda):
    """CUDA's tree, where cuDNN's files shall be linked into it; None otherwise."""
    if layout != "cuda":
        return None
    return tree or f"/usr/local/cuda-{cuda}"


def tree_links(directory, names, tree):
    """{path in CUDA's tree: its target}: the version's files under the names tutorials copy them.

    names: the files of the version's `directory`.
    """
    links = {}
    for name in names:
        place, _slash, base = name.rpartition("/")
        if place == "include" and base.startswith("cudnn"):
            links[f"{tree}/include/{base}"] = f"{directory}/{name}"
        elif place in ("lib64", "lib") and base.startswith("libcudnn"):
            links[f"{tree}/lib64/{base}"] = f"{directory}/{name}"
    return links


def recorded(context, record):
    """{path: target} that a record names; {} where it can't be read."""
    found = _json(context, record)
    return found if isinstance(found, dict) else {}


def _json(context, path):
    try:
        return json.loads(context.read(path) or "")
    except ValueError:
        return None
