"""The files of an environment: whether it is complete, and what people added to it.

An environment that is replaced or removed is deleted, unless somebody added files to it, which may
be the only copy: then it is kept beside. The wheels' RECORDs list which files are theirs.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import stat

from ...type_checking import TYPE_CHECKING
from .. import tensorflow
from . import wheel_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


# Entries of a plain venv, and those that wheels put beside them.
OWN = ("bin", "include", "lib", "lib64", "share", "etc", "man", "pyvenv.cfg", "requirements.txt",
       "pip-selfcheck.json", tensorflow.MARKER)  # fmt: skip
SEEDED = ("pip", "setuptools", "pkg-resources", "wheel")
PROGRAMS = re.compile(
    r"((python|pip|wheel)[0-9.]*|easy_install[-0-9.]*|activate(\.[a-z]+)?|Activate\.ps1)$"
)


def content(path: str) -> bytes | None:
    """A regular file's bytes, else None: reading a fifo would never end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            return stream.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except OSError:
        return None


def listed(path: str) -> list[str]:
    """Sorted names in a directory; none where it is not one."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def pins(text: str) -> dict[str, str]:
    """{normalised name: version} of requirements."""
    lines = re.findall(r"(?m)^([A-Za-z0-9._-]+)==([^\s;\\]+)", text)
    return {wheel_files.normalise(name): version for name, version in lines}


def locked(venv: str) -> dict[str, str] | None:
    """{normalised name: version} of the wheels in its requirements; None without requirements."""
    data = content(os.path.join(venv, "requirements.txt"))
    return None if data is None else pins(data.decode("utf-8", "replace"))


def sites(venv: str) -> list[str]:
    """Its directories site-packages."""
    library = os.path.join(venv, "lib")
    paths = [os.path.join(library, name, "site-packages") for name in listed(library)]
    return [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]


def records(site: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yields (path of the RECORD, its rows) of every wheel."""
    for name in listed(site):
        path = os.path.join(site, name, "RECORD")
        data = content(path) if name.endswith(".dist-info") else None
        if data is not None:
            lines = data.decode("utf-8", "replace").splitlines()
            yield path, [row for row in csv.reader(lines) if len(row) == 3]


def installed(site: str) -> list[tuple[str, str]]:
    """[(normalised name, version)] of all wheels in it, from the names of their dist-info."""
    wheels = []
    for name in listed(site):
        stem, dot, kind = name.rpartition(".")
        if dot and kind in ("dist-info", "egg-info", "egg-link"):
            project, dash, version = stem.partition("-")
            wheels.append((wheel_files.normalise(project), version if dash else ""))
    return wheels


def files_of_wheels(
    site: str, names: Collection[str] | None = None
) -> dict[str, list[tuple[str, str]]]:
    """{path: [(hash, size)]} of the files of all wheels, or of those of these names.

    Two wheels may have one file: Debian's pkg_resources and a setuptools of the lock.
    """
    files: dict[str, list[tuple[str, str]]] = {}
    for record, rows in records(site):
        project = os.path.basename(os.path.dirname(record)).partition("-")[0]
        if names is None or wheel_files.normalise(project) in names:
            for path, hashed, size in rows:
                path = os.path.normpath(os.path.join(site, path))
                files.setdefault(path, []).append((hashed, size))
    return files


def foreign(venv: str) -> list[str]:
    """What somebody added to it: wheels, modules, programs, entries of its directory; sorted.

    An edited Python file of a wheel counts too; one that is missing or empty does not. Stricter
    than `venv_use.added`, which only names for the plan what would be kept: what this misses is
    deleted.
    """
    locked_wheels = locked(venv)
    # pip-*: of a pip that was killed
    added = {name for name in set(listed(venv)) - set(OWN) if not name.startswith("pip-")}
    owned: set[str] = set()
    for site in sites(venv):
        if locked_wheels is not None:
            added |= {name for name, _version in installed(site)} - set(SEEDED) - set(locked_wheels)
        files = files_of_wheels(site)
        owned |= set(files)
        added |= {os.path.relpath(path, site) for path in files if edited(path, files[path])}
        added |= _unclaimed(site, files)
    programs = os.path.join(venv, "bin")
    for name in listed(programs) if owned else ():
        path = os.path.join(programs, name)
        if path not in owned and not PROGRAMS.match(name) and name != "__pycache__":
            added.add("bin/" + name)
    return sorted(added)


def _unclaimed(site: str, files: Collection[str]) -> set[str]:
    """Modules and files directly in it that are of no wheel."""
    if not files:
        return set()
    tops = {path[len(site) + 1 :].split("/")[0] for path in files if path.startswith(site + "/")}
    return {
        name for name in listed(site)
        if not name.endswith((".dist-info", ".egg-info", ".egg-link"))
        and name != "__pycache__" and name[0] != "~" and name not in tops
    }  # fmt: skip


def edited(path: str, claims: list[tuple[str, str]]) -> bool:
    """Whether this is a Python file whose content is none of its wheels'."""
    hashes = [hashed for hashed, _size in claims]
    if not path.endswith(".py") or not all(hashed.startswith("sha256=") for hashed in hashes):
        return False
    data = content(path) or b""
    return data != b"" and "sha256=" + digest(data) not in hashes


def rewritten(path: str, claims: list[tuple[str, str]]) -> bool:
    """Whether this is a wheel's program that differs only by the Python in its first line.

    pip 20.3 writes that line, and not the new hash into RECORD (pypa/pip#10744).
    """
    line, _newline, rest = (content(path) or b"").partition(b"\n")
    names = (b"#!python\n", b"#!pythonw\n", b"#!python\r\n")
    hashes = ["sha256=" + digest(name + rest) for name in names]
    return line.startswith(b"#!/") and any(hashed in hashes for hashed, _size in claims)


def digest(data: bytes) -> str:
    """The SHA-256 as RECORD writes it, without `sha256=`."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def missing(pinned: dict[str, str], versions: dict[str, list[str]]) -> list[str]:
    """["numpy 1.26.4"] of the pins that are not installed in that version alone.

    `versions`: {normalised name: [versions]} of what is installed.
    """
    normalise = wheel_files.normalise
    return [
        f"{name} {pinned[name]}" for name in sorted(pinned)
        if [normalise(version) for version in versions.get(name, [])] != [normalise(pinned[name])]
    ]  # fmt: skip


def problems(venv: str) -> list[str]:
    """Files that are missing or cut short, and pins that are not installed."""
    pinned = locked(venv) or {}
    broken = []
    versions: dict[str, list[str]] = {}
    for site in sites(venv):
        for name, version in installed(site):
            versions.setdefault(name, []).append(version)
        files = files_of_wheels(site, pinned)
        for path in sorted(files):
            sizes = [int(size) for _hash, size in files[path] if size.isdigit()]
            if path.endswith(".pyc") or not sizes:
                continue
            if not os.path.isfile(path) or not (
                os.path.getsize(path) in sizes or rewritten(path, files[path])
            ):
                broken.append(os.path.relpath(path, site))
    return broken + missing(pinned, versions) if pinned else ["requirements.txt"]
