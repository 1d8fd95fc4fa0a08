"""TensorFlow: a venv at its versioned path, with exactly the wheels of the lock.

The marker is written last, so a venv without it is half made. Wheels are read from dist-info, the
record that pip itself keeps; importing TensorFlow takes 10 s and belongs to the proof.
"""

import base64
import csv
import json
import re
import stat

from ...change import change
from ...host import package_files
from . import activation, venv_trust

NAME = "tensorflow"
# Of the places of CUDA's wheels the one that the RUNPATH of every TensorFlow since 2.14 names; that
# of 2.21 lacks cusolver's (readelf, LD_DEBUG=libs, 2026-11-21). The role links all libraries there.
LINKS = "nvidia/cuda_runtime/lib/"
MARKER = ".provision.json"
# More flaws than this of one wheel are one item: a person reads the plan.
MANY = 5


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


def marker(context, path):
    """What the mark at `path` says; None where there is none."""
    try:
        found = json.loads(context.read(path) or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def record_lines(text, part=""):
    """(path, sha256 or None, size or None) of a RECORD's lines that hold `part`.

    With a part only those lines are parsed: a venv's RECORDs have 17,000.
    """
    if part:
        lines, at = [], text.find(part)
        while at >= 0:
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            end = len(text) if end < 0 else end
            lines.append(text[start:end])
            at = text.find(part, end)
    else:
        lines = text.splitlines()
    for line in csv.reader(lines):
        if len(line) < 3:
            continue
        hashed = line[1][len("sha256=") :] if line[1].startswith("sha256=") else None
        yield line[0], hashed, int(line[2]) if line[2].isdigit() else None


def _sha256(context, path):
    """The file's hash as RECORD writes it; None when it can't be read."""
    digest = package_files.digest(context, path, "sha256")
    if digest is None:
        return None
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")


def _file_fault(context, path, hashed, size, since):
    """What is wrong with one file of a wheel; it is read when it is newer than the venv's mark."""
    info = context.lstat(path)
    if info is None:
        return "missing"
    if not stat.S_ISREG(info.st_mode):
        return "a directory" if stat.S_ISDIR(info.st_mode) else "a link"
    if size is not None and info.st_size != size:
        return "{0} bytes instead of {1}".format(info.st_size, size)
    if hashed is None:
        return "altered" if info.st_mtime > since else None
    if (context.deep or info.st_mtime > since) and _sha256(context, path) != hashed:
        return "altered"
    return None


def _flaws(context, site, names, row, since):
    """[{wheel, path, fault}] of the locked wheels, each compared with its RECORD.

    The ordinary look asks for the shared libraries, which are most of the bytes and what fails
    with the least to say; a deep look asks for every file. pip compiles Python files anew, so that
    the hash which a wheel has for a compiled one is not the installed file's.
    """
    installed = wheels(names)
    directories = {
        normalise(name[: -len(".dist-info")]): name for name in names if name.endswith(".dist-info")
    }
    found = []
    for wheel in sorted(row.get("wheels") or {}):
        version = row["wheels"][wheel]
        if installed.get(normalise(wheel)) != [version]:
            continue  # another version, two, or none: that is a change already
        directory = directories[normalise("{0}-{1}".format(wheel, version))]
        place = "{0}/{1}/RECORD".format(site, directory)
        info = context.lstat(place)
        text = context.read(place)
        if not text:
            found.append({"wheel": wheel, "path": directory + "/RECORD", "fault": "missing"})
            continue
        if info.st_mtime > since:
            found.append({"wheel": wheel, "path": directory + "/RECORD", "fault": "changed"})
            continue
        for path, hashed, size in record_lines(text, "" if context.deep else ".so"):
            if path == directory + "/RECORD":
                continue
            if path.endswith(".pyc"):
                hashed, size = None, None
            elif hashed is None:
                continue
            fault = _file_fault(context, "{0}/{1}".format(site, path), hashed, size, since)
            if fault == "missing" and path.endswith(".pyc"):
                continue  # Python does without, and writes it where it may
            if fault is not None:
                found.append({"wheel": wheel, "path": path, "fault": fault})
    return found


def _links(context, site, row):
    """Libraries of CUDA's wheels that are there, and not where every TensorFlow looks.

    A library that is gone is told by its wheel's RECORD.
    """
    found = []
    for soname in sorted(row.get("sonames") or {}):
        linked = "{0}/{1}{2}".format(site, LINKS, soname)
        paths = [
            path
            for path in context.glob("{0}/nvidia/*/lib/{1}".format(site, soname))
            if not path.endswith(LINKS + soname)
        ]
        if paths and context.resolve(linked) not in [context.resolve(path) for path in paths]:
            found.append(soname)
    return found


def closed(context, paths, bits=0o5):
    """Directories that lack one of these bits: by default those for everybody."""
    found = []
    for path in paths:
        info = context.stat(path)
        if info is not None and info.st_mode & bits != bits:
            found.append(path)
    return found


def look(context):
    """What the venv is: version, current, marker, python, isolated, interpreter, wheels,
    requirements, activation, closed, flaws and untrusted. `isolated` is False where pyvenv.cfg
    lets the system's packages in. `root` is about the directory of all, `old` names venvs that are
    no longer wished for. `beside` has the same of each venv that is wished for beside it, by its
    directory.
    """
    found = _look(context, context.part(NAME), context.part("cuda"))
    beside = (context.row or {}).get("beside") or []
    root = root_of(context.options)
    found["root"] = venv_trust.look_root(context, root)
    found["old"] = _old(
        context, root, [directory(row) for row in [context.part(NAME), *beside] if row]
    )
    if beside:
        found["beside"] = {directory(row): _look(context, row, {}) for row in beside}
    return found


def _old(context, root, staying):
    """Names of finished venvs that are none of these, where such are not kept."""
    if context.options.get("tensorflow_keep_old", True) or not staying:
        return []
    return [
        name
        for name in context.listdir(root)
        if name not in [*staying, "current"]
        and not name.startswith(".")
        and context.readlink("{0}/{1}".format(root, name)) is None
        and context.exists("{0}/{1}/{2}".format(root, name, MARKER))
    ]


def _look(context, row, cuda):
    root = root_of(context.options)
    current = context.readlink(root + "/current")
    venv = "{0}/{1}".format(root, directory(row)) if row else root + "/current"
    site = site_packages(context, venv)
    names = context.listdir(site) if site else []
    live = site_packages(context, root + "/current")
    running = wheels(context.listdir(live)).get("tensorflow") if live else None
    marked = marker(context, venv + "/" + MARKER)
    since = context.stat(venv + "/" + MARKER).st_mtime if marked is not None else 0
    settings = context.read(venv + "/pyvenv.cfg")
    ways = [root, venv, venv + "/bin", venv + "/lib", site or venv]
    return {
        "version": running[0] if running else None,
        "current": current,
        "marker": marked,
        "python": venv_python(settings),
        "isolated": not re.search(
            r"^include-system-site-packages\s*=\s*true", settings or "", re.M | re.I
        ),
        "interpreter": context.resolve(venv + "/bin/python"),
        "wheels": wheels(names),
        "requirements": package_files.digest(context, venv + "/requirements.txt", "sha256"),
        "activation": activation.activation(context, venv, cuda) if row else None,
        "closed": closed(context, ways),
        "links": _links(context, site, row) if site else [],
        "flaws": _flaws(context, site, names, row, since) if site and marked is not None else [],
        "untrusted": venv_trust.look(context, venv, row.get("python")) if marked else [],
    }


def _content_changes(row, found):
    """What is wrong inside a finished venv.

    The role installs wheels that are missing or of another version; whatever else is wrong needs
    the venv made anew, which `tensorflow_reinstall` asks for.
    """
    anew = {"tensorflow_reinstall": True}
    changes = []
    interpreter = (found["interpreter"] or "").rsplit("/", 1)[-1]
    if found["python"] != row["python"] or interpreter != "python" + row["python"]:
        old = found["python"]
        if interpreter != "python" + row["python"]:
            old = found["interpreter"] or "missing"
        reason = "the wheels are for Python {0}".format(row["python"])
        changes.append(change(NAME, "python", old, row["python"], reason, repair=anew))
    if not found.get("isolated", True):
        reason = "the system's packages would be imported too"
        changes.append(change(NAME, "pyvenv.cfg", "open", "isolated", reason, repair=anew))
    if found.get("requirements") != row["requirements_sha256"]:
        reason = "it tells people what is in the venv"
        old = "absent" if found.get("requirements") is None else "other content"
        changes.append(change(NAME, "requirements.txt", old, "as locked", reason))
    for name in sorted(row["wheels"]):
        versions = found["wheels"].get(normalise(name)) or []
        if versions != [row["wheels"][name]]:
            old = " and ".join(sorted(versions)) or None
            reason = "the lock's requirements say so"
            repair = anew if len(versions) > 1 else None
            changes.append(change(NAME, name, old, row["wheels"][name], reason, repair=repair))
    for soname in found.get("links") or []:
        reason = "TensorFlow opens it by name, and does not look in its own wheel"
        to = "link to {0}'s".format(row["sonames"][soname])
        changes.append(change(NAME, LINKS + soname, "missing", to, reason))
    changes.extend(_flaw_changes(row, found.get("flaws") or [], anew))
    told = any(one["item"] == "python" for one in changes)
    untrusted = found.get("untrusted") or []
    untrusted = [one for one in untrusted if not (told and one[0].startswith("bin/python"))]
    return changes + venv_trust.changes(NAME, untrusted)


def _flaw_changes(row, flaws, anew):
    """One change per file, or per wheel where many of its files are wrong."""
    changes = []
    for wheel in sorted({one["wheel"] for one in flaws}):
        ours = [one for one in flaws if one["wheel"] == wheel]
        to = "{0} {1}".format(wheel, row["wheels"][wheel])
        if len(ours) > MANY:
            faults = sorted({one["fault"].split(" instead")[0] for one in ours})
            old = "{0} files: {1}".format(len(ours), ", ".join(faults[:3]))
            reason = "for example {0}".format(ours[0]["path"])
            changes.append(change(NAME, wheel + " files", old, to, reason, repair=anew))
            continue
        for one in ours:
            reason = "it is not what the wheel's RECORD says"
            if one["path"].endswith("/RECORD"):
                reason = "it tells whether the wheel's files are whole"
            changes.append(change(NAME, one["path"], one["fault"], to, reason, repair=anew))
    return changes


def differ(row, found, options):
    """What keeps the locked venv from being there, whole and current."""
    changes = venv_trust.root_changes(NAME, root_of(options), found.get("root") or {})
    changes += _differ(row, found, options, found["version"])
    for name in found.get("old") or []:
        changes.append(change(NAME, name, "present", "absent", "tensorflow_keep_old is false"))
    if finished(row, found) and found["current"] != directory(row):
        reason = "{0}/current is what users run".format(root_of(options))
        changes.append(change(NAME, "current", found["current"], directory(row), reason))
    return changes


def differ_beside(row, found, options):
    """The same of a venv beside it, which is nobody's `current`. Items begin with its version.

    What is to be made anew is told by the venv's name: there are several.
    """
    changes = _differ(row, found, options, None)
    for one in changes:
        one["item"] = "{0} {1}".format(row["version"], one["item"])
        if one["repair"]:
            one["repair"] = {"tensorflow_reinstall_beside": [directory(row)]}
    return changes


def mark(row):
    """What the mark of a finished venv says."""
    wanted = {key: row[key] for key in ("version", "requirements_sha256", "python")}
    return dict(wanted, format=1)


def finished(row, found):
    """True when the mark of this very venv is there: all its wheels were installed once."""
    return found["marker"] == mark(row)


def inside(row, found, options):
    """The changes of one venv, whichever it is."""
    return _differ(row, found, options, None)


def _differ(row, found, options, old):
    if not finished(row, found):
        to = "{0} on Python {1}".format(row["version"], row["python"])
        reason = "the venv {0}/{1} is not there or not finished".format(
            root_of(options), directory(row)
        )
        return [change(NAME, "tensorflow", old, to, reason)]
    changes = _content_changes(row, found)
    if found.get("activation") is not None:
        reason = "it names the environment's own tree of CUDA, or none"
        changes.append(change(NAME, "bin/activate", found["activation"], "as locked", reason))
    for path in found.get("closed") or []:
        reason = "users could not run what is in it"
        changes.append(change(NAME, path, "closed", "readable by all", reason))
    return changes
