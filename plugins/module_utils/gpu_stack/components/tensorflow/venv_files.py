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
       "pip-selfcheck.json", ".gitignore", tensorflow.MARKER)  # fmt: skip
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
    """What somebody added to it: wheels, and files that neither wheels nor `venv` brought; sorted.

    An edited Python file of a wheel counts too; one that is missing or empty does not. Stricter
    than `venv_use.added`, which only names for the plan what would be kept: what this misses is
    deleted.
    """
    venv = os.path.normpath(venv)
    locked_wheels = locked(venv)
    # pip-*: of a pip that was killed
    added = {name for name in set(listed(venv)) - set(OWN) if not name.startswith("pip-")}
    owned: set[str] = set()
    for site in sites(venv):
        if locked_wheels is not None:
            added |= {name for name, _version in installed(site)} - set(SEEDED) - set(locked_wheels)
        files = files_of_wheels(site)
        owned |= set(files)
        added |= {os.path.relpath(path, venv) for path in files if edited(path, files[path])}
    # Without a RECORD every file would be somebody's.
    return sorted(added | (_unclaimed(venv, owned) if owned else set()))


def _unclaimed(venv: str, owned: Collection[str]) -> set[str]:
    """Files and links of no wheel in the directories that `venv` makes, or wheels."""
    found = set()
    for top in (os.path.join(venv, name) for name in OWN):
        for directory, directories, names in os.walk(top) if not os.path.islink(top) else ():
            links = [name for name in directories if os.path.islink(f"{directory}/{name}")]
            directories[:] = [name for name in directories if not _is_pips(directory, name)]
            paths = (os.path.join(directory, name) for name in [*names, *links])
            found |= {path for path in paths if path not in owned and not _is_made(venv, path)}
    return {os.path.relpath(path, venv) for path in found}


def _is_pips(directory: str, name: str) -> bool:
    """Whether a directory is the notes or leftovers of pip, compiled files, or ensurepip's."""
    return (
        name == "__pycache__" or name.startswith("~")
        or name.endswith((".dist-info", ".egg-info"))
        or (name == "python-wheels" and os.path.basename(directory) == "share")
    )  # fmt: skip


def _is_made(venv: str, path: str) -> bool:
    """Whether a file of no RECORD is one that `venv`, Python or a run of ours made."""
    directory, name = os.path.split(path)
    if directory == os.path.join(venv, "bin") and PROGRAMS.match(name):
        return True
    if os.path.islink(path) and f"{directory}/".endswith("/" + tensorflow.LINKS):
        return True
    return name.endswith((".pyc", ".egg-info", ".egg-link"))


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
