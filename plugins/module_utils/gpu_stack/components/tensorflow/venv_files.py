"""What is in an environment, file by file: whether it is whole, and what people put into it.

An environment that is made anew or removed is deleted; where it holds something that nobody else
may have a copy of, it is kept beside. The wheels' own records tell which files are theirs.
"""

import base64
import csv
import hashlib
import os
import re
import stat

from .. import tensorflow

# What a venv has by itself, and what wheels put beside it.
OWN = ("bin", "include", "lib", "lib64", "share", "etc", "man", "pyvenv.cfg", "requirements.txt",
       "pip-selfcheck.json", tensorflow.MARKER)  # fmt: skip
SEEDED = ("pip", "setuptools", "pkg-resources", "wheel")
PROGRAMS = re.compile(
    r"((python|pip|wheel)[0-9.]*|easy_install[-0-9.]*|activate(\.[a-z]+)?|Activate\.ps1)$"
)


def content(path):
    """A file's bytes; None of what is none: a fifo that somebody made would never end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            return stream.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except OSError:
        return None


def listed(path):
    """Sorted names in a directory; none where it is not one."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def pins(text):
    """{normalised name: version} that requirements name."""
    found = re.findall(r"(?m)^([A-Za-z0-9._-]+)==([^\s;\\]+)", text)
    return {tensorflow.normalise(name): version for name, version in found}


def locked(venv):
    """{name: version} of the wheels that its requirements name; None where nothing tells."""
    data = content(os.path.join(venv, "requirements.txt"))
    return None if data is None else pins(data.decode("utf-8", "replace"))


def sites(venv):
    """Its directories site-packages."""
    library = os.path.join(venv, "lib")
    found = [os.path.join(library, name, "site-packages") for name in listed(library)]
    return [path for path in found if os.path.isdir(path) and not os.path.islink(path)]


def records(site):
    """(path of the RECORD, rows of it) of every wheel."""
    for name in listed(site):
        path = os.path.join(site, name, "RECORD")
        data = content(path) if name.endswith(".dist-info") else None
        if data is not None:
            lines = data.decode("utf-8", "replace").splitlines()
            yield path, [row for row in csv.reader(lines) if len(row) == 3]


def installed(site):
    """[(normalised name, version)] of all wheels in it, as their own records say."""
    found = []
    for name in listed(site):
        stem, dot, kind = name.rpartition(".")
        if dot and kind in ("dist-info", "egg-info", "egg-link"):
            project, dash, version = stem.partition("-")
            found.append((tensorflow.normalise(project), version if dash else ""))
    return found


def claimed(site, names=None):
    """{path: [(hash, size)]} of the files of all wheels, or of those of these names.

    Two wheels may bring one file: Debian's pkg_resources and a setuptools of the lock.
    """
    found = {}
    for record, rows in records(site):
        project = os.path.basename(os.path.dirname(record)).partition("-")[0]
        if names is None or tensorflow.normalise(project) in names:
            for path, hashed, size in rows:
                found.setdefault(os.path.normpath(os.path.join(site, path)), []).append(
                    (hashed, size)
                )
    return found


def strange(venv):
    """What somebody else has put into it: wheels, modules, programs, entries of its directory.

    A Python file of a wheel that was edited counts as well; one that is gone or empty does not.
    More is asked than where a plan names what would be kept (`venv_use.added`): what this does not
    see is deleted.
    """
    known = locked(venv)
    found = set(listed(venv)) - set(OWN)
    found = {name for name in found if not name.startswith("pip-")}  # of a pip that was killed
    owned = set()
    for site in sites(venv):
        if known is not None:
            found |= {name for name, _version in installed(site)} - set(SEEDED) - set(known)
        files = claimed(site)
        owned |= set(files)
        found |= {os.path.relpath(path, site) for path in files if edited(path, files[path])}
        found |= _unclaimed(site, files)
    programs = os.path.join(venv, "bin")
    for name in listed(programs) if owned else ():
        path = os.path.join(programs, name)
        if path not in owned and not PROGRAMS.match(name) and name != "__pycache__":
            found.add("bin/" + name)
    return sorted(found)


def _unclaimed(site, files):
    """Modules and files directly in it that no wheel brought."""
    if not files:
        return set()
    tops = {path[len(site) + 1 :].split("/")[0] for path in files if path.startswith(site + "/")}
    return {
        name for name in listed(site)
        if not name.endswith((".dist-info", ".egg-info", ".egg-link"))
        and name != "__pycache__" and name[0] != "~" and name not in tops
    }  # fmt: skip


def edited(path, claims):
    """True for a Python file that has other content than the wheels that bring it."""
    hashes = [hashed for hashed, _size in claims]
    if not path.endswith(".py") or not all(one.startswith("sha256=") for one in hashes):
        return False
    data = content(path)
    return bool(data) and "sha256=" + digest(data) not in hashes


def rewritten(path, claims):
    """True for a program that is as its wheel brought it but for the Python in its first line.

    pip 20.3 writes that line, and not the new hash into RECORD (pypa/pip#10744).
    """
    line, _newline, rest = (content(path) or b"").partition(b"\n")
    names = (b"#!python\n", b"#!pythonw\n", b"#!python\r\n")
    hashes = ["sha256=" + digest(name + rest) for name in names]
    return line.startswith(b"#!/") and any(hashed in hashes for hashed, _size in claims)


def digest(data):
    """As RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def missing(wanted, found):
    """["numpy 1.26.4"] of the pins that are not there in that version alone.

    `found`: {normalised name: [versions]}.
    """
    normalise = tensorflow.normalise
    return [
        "{0} {1}".format(name, wanted[name]) for name in sorted(wanted)
        if [normalise(version) for version in found.get(name, [])] != [normalise(wanted[name])]
    ]  # fmt: skip


def lacking(venv):
    """What keeps a built environment from being whole; nothing of an error is guessed."""
    found = []
    wanted = locked(venv) or {}
    seen = {}
    for site in sites(venv):
        for name, version in installed(site):
            seen.setdefault(name, []).append(version)
        files = claimed(site, wanted)
        for path in sorted(files):
            sizes = [int(size) for _hash, size in files[path] if size.isdigit()]
            if path.endswith(".pyc") or not sizes:
                continue
            if not os.path.isfile(path) or not (
                os.path.getsize(path) in sizes or rewritten(path, files[path])
            ):
                found.append(os.path.relpath(path, site))
    return found + missing(wanted, seen) if wanted else ["requirements.txt"]
