"""What a version of cuDNN looks like on the disk: its names, its manifest and its links.

    ROOT/8.1.0.77-cuda11.2/{include,lib64}       the files, readable by all (lib from 8.3 on)
    ROOT/8.1.0.77-cuda11.2/.provision-manifest.json
    ROOT/current -> 8.1.0.77-cuda11.2

The look and the module that unpacks use the same functions, so that the one repairs exactly what
the other reports.
"""

from __future__ import annotations

import collections
import re
import stat

from ...host import mapping, package_files
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...host.context import Context

MANIFEST = ".provision-manifest.json"
MANIFEST_FORMAT = 1
CURRENT = "current"
# CUDA's own trees, and what names the links in one of them.
TREES = "/usr/local/cuda-*"
TREE_RECORD = ".provision-cudnn"


class Version(collections.namedtuple("Version", "root version cuda sha256")):
    """The version to install: its root directory, and its archive's hash."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return directory_name(self.version, self.cuda)

    @property
    def tree(self) -> str:
        """The version's own directory."""
        return f"{self.root}/{self.name}"


def directory_name(version: str, cuda: str) -> str:
    """The name of a version's directory: "8.1.0.77-cuda11.2"."""
    return f"{version}-cuda{cuda}"


def library_directory(names: Iterable[str]) -> str:
    """`lib64` (up to 8.2) or `lib` (from 8.3 on), whichever the archive's files are in."""
    return "lib64" if any(name.startswith("lib64/") for name in names) else "lib"


def expected_library_directory(version: str) -> str:
    """`lib64` or `lib` for a version whose archive has not been read yet."""
    return "lib64" if is_of_old_form(version) else "lib"


def is_of_old_form(version: str) -> bool:
    """Whether NVIDIA packed this version as it did until 8.2: with lib64, as .tgz."""
    return [int(number) for number in re.findall(r"\d+", version)[:2]] < [8, 3]


def header_numbers(text: str | None) -> dict[str, str]:
    """{"MAJOR": "8", ...} as far as cudnn_version.h defines them."""
    numbers = {}
    for part in ("MAJOR", "MINOR", "PATCHLEVEL"):
        match = re.search(rf"^#define\s+CUDNN_{part}\s+(\d+)", text or "", re.M)
        if match is not None:
            numbers[part] = match.group(1)
    return numbers


def header_version(text: str | None) -> str | None:
    """`8.1.0` from cudnn_version.h; None where it defines no whole version."""
    numbers = header_numbers(text)
    return ".".join(numbers.values()) if len(numbers) == 3 else None


def manifest(context: Context, tree: str) -> dict[str, Any] | None:
    """The manifest of an unpacked version, or None where there is none that can be read."""
    content = mapping.of(context.read(f"{tree}/{MANIFEST}"))
    if content is None or content.get("format") != MANIFEST_FORMAT:
        return None
    return content if isinstance(content.get("files"), dict) else None


def others(context: Context, root: str, name: str) -> list[str]:
    """Names of the directories below the root that hold other versions of this role's."""
    return [
        other
        for other in context.listdir(root)
        if other != name
        and not other.startswith(".")
        and context.readlink(f"{root}/{other}") is None
        and manifest(context, f"{root}/{other}") is not None
    ]


def entry(
    context: Context, path: str, owner: int | None = None, since: float = float("inf")
) -> dict[str, Any] | None:
    """Properties of `path` in the manifest's form; None where it is missing.

    owner: the key "owner" is set if another user owns it. since: files newer than that are hashed;
    a deep look hashes all.
    """
    info = context.lstat(path)
    if info is None:
        return None
    if stat.S_ISLNK(info.st_mode):
        return {"link": context.readlink(path)}
    if not stat.S_ISREG(info.st_mode):
        return {"other": "a directory" if stat.S_ISDIR(info.st_mode) else "not a file"}
    properties = {"size": info.st_size, "mode": f"{stat.S_IMODE(info.st_mode):04o}"}
    if owner is not None and info.st_uid != owner:
        properties["owner"] = info.st_uid
    if context.deep or info.st_mtime > since:
        properties["sha256"] = package_files.digest(context, path, "sha256")
    return properties


def fault(expected: dict[str, Any], actual: dict[str, Any] | None) -> str | None:
    """The key in which a file differs from its manifest, "missing" or "kind"; None without any.

    Hash and owner are compared only where `actual` has them.
    """
    if actual is None:
        return "missing"
    if "link" in expected:
        return None if actual.get("link") == expected["link"] else "kind"
    if "link" in actual or "other" in actual:
        return "kind"
    if actual["size"] != expected["size"]:
        return "size"
    if "sha256" in actual and actual["sha256"] != expected.get("sha256"):
        return "sha256"
    if int(actual["mode"], 8) != int(expected["mode"], 8):
        return "mode"
    return "owner" if "owner" in actual else None


def tree_of(layout: str | None, tree: str | None, cuda: str) -> str | None:
    """CUDA's tree if cuDNN's files are to be linked into it; None otherwise."""
    if layout != "cuda":
        return None
    return tree or f"/usr/local/cuda-{cuda}"


def tree_links(context: Context, directory: str, names: Iterable[str], tree: str) -> dict[str, str]:
    """{path in CUDA's tree: its target}: the version's files under the names tutorials copy them.

    names: the files of the version's `directory`. The paths are in the tree's real directory.
    """
    links = {}
    tree = context.resolve(tree) or tree
    for name in names:
        place, _slash, base = name.rpartition("/")
        if place == "include" and base.startswith("cudnn"):
            links[f"{tree}/include/{base}"] = f"{directory}/{name}"
        elif place in ("lib64", "lib") and base.startswith("libcudnn"):
            links[f"{tree}/lib64/{base}"] = f"{directory}/{name}"
    return links


def linked_trees(context: Context) -> list[str]:
    """The real directories of CUDA's trees that have a record of links, sorted."""
    # One tree has several names: NVIDIA's packages make cuda-11 a link to cuda-11.2.
    records = context.glob(f"{TREES}/{TREE_RECORD}")
    trees = {context.resolve(record[: -len(TREE_RECORD) - 1]) for record in records}
    return sorted(tree for tree in trees if tree is not None)


def recorded(context: Context, tree: str) -> dict[str, str]:
    """{path: target} that a tree's record names; {} where it can't be read."""
    links = mapping.of(context.read(f"{tree}/{TREE_RECORD}")) or {}
    # The record may name the tree by a link that leads, or led, to it.
    return {"/".join([tree, *path.split("/")[-2:]]): links[path] for path in links}


def rivals(context: Context, tree: str, links: dict[str, str]) -> list[str]:
    """Paths in a tree's lib64 that ldconfig would take for the libraries of `links`, sorted.

    It goes by the soname in the file, whatever the file's name is, and points our link to the one
    whose name is the highest.
    """
    ours = {context.resolve(target) for target in links.values()}
    sonames = {_major(path) for path in links if path.startswith(f"{tree}/lib64/")}
    found = []
    for name in context.listdir(f"{tree}/lib64") if sonames else []:
        path = f"{tree}/lib64/{name}"
        if path in links or not re.match(r"libcudnn.*\.so", name):
            continue
        if _major(name) is not None and _major(name) not in sonames:
            continue
        real = context.resolve(path)
        if real is not None and real not in ours and not context.isdir(real):
            found.append(path)
    return found


def _major(path: str) -> str | None:
    """The 8 of libcudnn.so.8.1.0; None of libcudnn.so."""
    match = re.search(r"\.so\.(\d+)", path.rpartition("/")[2])
    return None if match is None else match.group(1)
