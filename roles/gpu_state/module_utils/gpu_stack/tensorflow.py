"""TensorFlow: a venv at its versioned path, with exactly the wheels of the lock.

The marker is written last, so a venv without it is half made. Wheels are read from dist-info, the
record that pip itself keeps; importing TensorFlow takes 10 s and belongs to the proof.
"""

import base64
import csv
import hashlib
import io
import json
import re

from .change import change

NAME = "tensorflow"
MARKER = ".provision.json"
LIBRARY = "tensorflow/python/_pywrap_tensorflow_internal.so"


def root_of(options):
    return (options.get("tensorflow_root") or "/opt/tensorflow").rstrip("/")


def directory(row):
    return "{0}-{1}".format(row["version"], row["requirements_sha256"][:8])


def normalise(name):
    """PEP 503: one spelling per project."""
    return re.sub(r"[-_.]+", "-", name).lower()


def site_packages(context, venv):
    found = context.glob(venv + "/lib/python3.*/site-packages")
    return found[0] if found else None


def wheels(names):
    """{normalised name: [versions]} from the names of dist-info directories."""
    found = {}
    for name in names:
        if not name.endswith(".dist-info"):
            continue
        project, dash, version = name[: -len(".dist-info")].rpartition("-")
        if dash:
            found.setdefault(normalise(project), []).append(version)
    return found


def venv_python(text):
    """`3.9` from pyvenv.cfg."""
    match = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", text or "", re.M)
    return None if match is None else match.group(1)


def _marker(context, path):
    try:
        found = json.loads(context.read(path) or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _altered(context, site, names):
    """Files of the wheels whose hash is not their RECORD's (reads them all)."""
    found = []
    for name in names:
        if not name.endswith(".dist-info"):
            continue
        text = context.read("{0}/{1}/RECORD".format(site, name)) or ""
        for line in csv.reader(io.StringIO(text)):
            if len(line) < 2 or not line[1].startswith("sha256="):
                continue
            file = context.open("{0}/{1}".format(site, line[0]))
            if file is None:
                found.append(line[0])
                continue
            state = hashlib.sha256()
            with file:
                for block in iter(lambda: file.read(1 << 20), b""):  # noqa: B023  used at once
                    state.update(block)
            text_digest = base64.urlsafe_b64encode(state.digest()).decode().rstrip("=")
            if text_digest != line[1][len("sha256=") :]:
                found.append(line[0])
    return sorted(found)


def look(context):
    """{version, current, marker, python, interpreter, wheels, library, altered} of the venv."""
    row = context.part(NAME)
    root = root_of(context.options)
    current = context.readlink(root + "/current")
    venv = "{0}/{1}".format(root, directory(row)) if row else root + "/current"
    site = site_packages(context, venv)
    names = context.listdir(site) if site else []
    installed = wheels(names)
    live = site_packages(context, root + "/current")
    running = wheels(context.listdir(live)).get("tensorflow") if live else None
    library = context.stat("{0}/{1}".format(site, LIBRARY)) if site else None
    return {
        "version": running[0] if running else None,
        "current": current,
        "marker": _marker(context, venv + "/" + MARKER),
        "python": venv_python(context.read(venv + "/pyvenv.cfg")),
        "interpreter": context.resolve(venv + "/bin/python"),
        "wheels": installed,
        "library": None if library is None else library.st_size,
        "altered": _altered(context, site, names) if site and context.deep else [],
    }


def _content_changes(row, found):
    """What is wrong inside a finished venv.

    The role installs wheels that are missing or of another version; whatever else is wrong needs
    the venv made anew, which `tensorflow_reinstall` asks for.
    """
    anew = {"tensorflow_reinstall": True}
    changes = []
    if found["python"] != row["python"] or found["interpreter"] is None:
        old = "missing" if found["interpreter"] is None else found["python"]
        reason = "the wheels are for Python {0}".format(row["python"])
        changes.append(change(NAME, "python", old, row["python"], reason, repair=anew))
    for name in sorted(row["wheels"]):
        versions = found["wheels"].get(normalise(name)) or []
        if versions != [row["wheels"][name]]:
            old = " and ".join(sorted(versions)) or None
            reason = "the lock's requirements say so"
            repair = anew if len(versions) > 1 else None
            changes.append(change(NAME, name, old, row["wheels"][name], reason, repair=repair))
    if not found["library"] and "tensorflow" in found["wheels"]:
        fault = "missing" if found["library"] is None else "empty"
        base = LIBRARY.rsplit("/", 1)[-1]
        reason = "TensorFlow cannot be imported without it"
        to = "tensorflow " + row["version"]
        changes.append(change(NAME, base, fault, to, reason, repair=anew))
    for path in found.get("altered") or []:
        reason = "its hash is not the one in RECORD"
        changes.append(change(NAME, path, "altered", "as its wheel", reason, repair=anew))
    return changes


def differ(row, found, options):
    """What keeps the locked venv from being there, whole and current."""
    root = root_of(options)
    marker = found["marker"]
    to = "{0} on Python {1}".format(row["version"], row["python"])
    wish = (row["version"], row["requirements_sha256"], row["python"])
    if marker is None or wish != (
        marker.get("version"),
        marker.get("requirements_sha256"),
        marker.get("python"),
    ):
        reason = "the venv {0}/{1} is not there or not finished".format(root, directory(row))
        return [change(NAME, "tensorflow", found["version"], to, reason)]
    changes = _content_changes(row, found)
    if found["current"] != directory(row):
        reason = "{0}/current is what users run".format(root)
        changes.append(change(NAME, "current", found["current"], directory(row), reason))
    return changes
