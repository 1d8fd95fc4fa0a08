#!/usr/bin/env python3
"""Virtual environments as wholes: looks at one, puts a new one in its place, takes them away.

A new environment is built in a directory beside, where nobody runs it, and takes the place of the
old one in one step when it is whole: what fails or is killed before that leaves the old one as it
was. An environment into which somebody has put more than the locked wheels is moved aside, for
nobody else may have a copy. No process is ever ended; one that uses an environment is a refusal.

Runs on the host with its own Python (3.7 or newer), standard library only, and prints JSON:
    look ROOT NAME INTERPRETER       {"parents", "untrusted", "using", "left", "works"}
    clean ROOT                       {"changed"}: what a run that was killed has left is gone
    finish ROOT NAME MARK            {"changed", "kept"}: the built one takes its place, marked
    mark ROOT NAME MARK              {"changed"}: wheels were replaced in it, and all is on the disk
    remove ROOT [STAYING...]         {"changed", "removed", "kept"}: all that have the mark
A refusal is a sentence on standard error and exit code 1.
"""

import base64
import csv
import ctypes
import errno
import hashlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys

MARKER = ".provision.json"
CURRENT = "current"
BUILDING = ".building-"  # a new one, until it is whole
READY = ".ready-"  # a new one that is whole, or the old one after the step
REMOVING = ".removing-"
# What a venv has by itself, and what wheels put beside it.
OWN = {"bin", "include", "lib", "lib64", "share", "etc", "man", "pyvenv.cfg", "requirements.txt",
       "pip-selfcheck.json", MARKER}  # fmt: skip
SEEDED = {"pip", "setuptools", "pkg-resources", "wheel"}
PROGRAMS = re.compile(
    r"((python|pip|wheel)[0-9.]*|easy_install[-0-9.]*|activate(\.[a-z]+)?|Activate\.ps1)$"
)
KEPT = re.compile(r"\.save(\.[0-9]+)?$")
# Debian's policy (9.1.2) gives staff what root gives: /usr/local is writable for it.
ROOT, GROUPS = 0, (0, 50)
FLUSH = 900  # seconds for a slow disk to write what is not there yet


class RefusedError(Exception):
    """What a person reads."""


# what is in an environment


def normalise(name):
    """PEP 503: one spelling per project."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(venv):
    """{name: version} of the wheels that the role installed; None where nothing tells."""
    data = content(os.path.join(venv, "requirements.txt"))
    if data is None:
        return None
    pins = re.findall(r"(?m)^([A-Za-z0-9._-]+)==([^\s;\\]+)", data.decode("utf-8", "replace"))
    return {normalise(name): version for name, version in pins}


def content(path):
    """A file's bytes; None of what is none: a fifo that somebody made would never end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            return stream.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except OSError:
        return None


def sites(venv):
    """Its directories site-packages."""
    library = os.path.join(venv, "lib")
    found = [os.path.join(library, name, "site-packages") for name in listed(library)]
    return [path for path in found if os.path.isdir(path) and not os.path.islink(path)]


def listed(path):
    """Sorted names in a directory; none where it is not one."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


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
            found.append((normalise(project), version if dash else ""))
    return found


def claimed(site, names=None):
    """{path: [(hash, size)]} of the files of all wheels, or of those of these names.

    Two wheels may bring one file: Debian's pkg_resources and a setuptools of the lock.
    """
    found = {}
    for record, rows in records(site):
        project = os.path.basename(os.path.dirname(record)).partition("-")[0]
        if names is None or normalise(project) in names:
            for path, hashed, size in rows:
                found.setdefault(os.path.normpath(os.path.join(site, path)), []).append(
                    (hashed, size)
                )
    return found


def strange(venv):
    """What somebody else has put into it: wheels, modules, programs, entries of its directory.

    A Python file of a wheel that was edited counts as well; one that is gone or empty does not.
    """
    known = locked(venv)
    found = set(listed(venv)) - OWN
    found = {name for name in found if not name.startswith("pip-")}  # of a pip that was killed
    owned = set()
    for site in sites(venv):
        if known is not None:
            found |= {name for name, _version in installed(site)} - SEEDED - set(known)
        files = claimed(site)
        owned |= set(files)
        found |= {os.path.relpath(path, site) for path in files if edited(path, files[path])}
        tops = {
            path[len(site) + 1 :].split("/")[0] for path in files if path.startswith(site + "/")
        }
        for name in listed(site) if files else ():
            record = name.endswith((".dist-info", ".egg-info", ".egg-link"))
            if not record and name != "__pycache__" and name[0] != "~" and name not in tops:
                found.add(name)
    programs = os.path.join(venv, "bin")
    for name in listed(programs) if owned else ():
        path = os.path.join(programs, name)
        if path not in owned and not PROGRAMS.match(name) and name != "__pycache__":
            found.add("bin/" + name)
    return sorted(found)


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


def lacking(venv):
    """What keeps a built environment from being whole; nothing of an error is guessed."""
    found = []
    wanted = locked(venv) or {}
    seen = {}
    for site in sites(venv):
        for name, version in installed(site):
            seen.setdefault(name, []).append(normalise(version))
        files = claimed(site, wanted)
        for path in sorted(files):
            sizes = [int(size) for _hash, size in files[path] if size.isdigit()]
            if path.endswith(".pyc") or not sizes:
                continue
            if not os.path.isfile(path) or not (
                os.path.getsize(path) in sizes or rewritten(path, files[path])
            ):
                found.append(os.path.relpath(path, site))
    for name in sorted(wanted):
        if seen.get(name) != [normalise(wanted[name])]:
            found.append("{0} {1}".format(name, wanted[name]))
    return found if wanted else ["requirements.txt"]


# who may write it, and who uses it


def writers(info):
    """ "owned by user 1000", "writable for all", "writable for group 1001"; None for root alone."""
    if info.st_uid != ROOT:
        return "owned by user {0}".format(info.st_uid)
    if stat.S_ISLNK(info.st_mode):
        return None
    if info.st_mode & stat.S_IWOTH:
        return "writable for all"
    if info.st_mode & stat.S_IWGRP and info.st_gid not in GROUPS:
        return "writable for group {0}".format(info.st_gid)
    return None


def parents(path, end=False):
    """ "/data is owned by user 1000" of a directory or link on the way to `path`; None without.

    The end of the way counts where a link leads to it: what a link names must be root's as well.
    In a directory like /tmp nobody moves what is root's. `end`: it counts in any case.
    """
    todo, done, links = [part for part in path.split("/") if part], "", 0
    while todo:
        part = todo.pop(0)
        if part in (".", ".."):
            done = os.path.dirname(done) if part == ".." else done
            continue
        place = done + "/" + part
        try:
            info = os.lstat(place)
        except OSError:
            return None  # root makes it, and what is below it
        last = not (todo or links or end)
        sticky = (
            stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX and info.st_uid in (0, ROOT)
        )
        fault = None if (last and not stat.S_ISLNK(info.st_mode)) or sticky else writers(info)
        if fault is not None:
            return "{0} is {1}".format(place, fault)
        if stat.S_ISLNK(info.st_mode):
            links += 1
            if links > 40:
                return "{0} leads in a circle".format(path)
            target = os.readlink(place)
            done = "" if target.startswith("/") else done
            todo = [word for word in target.split("/") if word] + todo
        else:
            done = place
    return None


def untrusted(venv, interpreter):
    """[[path, why]] of what others than root may write and people's Python reads, or runs.

    What is in the wheels' own directories is left to the deep look of the whole stack.
    """
    found = []
    ways = ["", "bin", "lib", "pyvenv.cfg"]
    ways += ["bin/" + name for name in listed(os.path.join(venv, "bin"))]
    for site in sites(venv):
        short = os.path.relpath(site, venv)
        ways += [os.path.dirname(short), short] + [short + "/" + name for name in listed(site)]
        for name in listed(site):
            if name.endswith(".pth"):
                found += [["{0}/{1}".format(short, name), why] for why in led(venv, site, name)]
    for way in ways:
        path = os.path.join(venv, way).rstrip("/")
        if os.path.lexists(path):
            fault = writers(os.lstat(path))
            found += [[way or ".", fault]] if fault is not None else []
    wanted = os.path.realpath(interpreter)
    for name in ("python", "python3", os.path.basename(interpreter)):
        real = os.path.realpath(os.path.join(venv, "bin", name))
        if os.path.exists(real) and real != wanted:
            found.append(["bin/" + name, "leads to " + real])
    return found


def led(venv, site, name):
    """Why directories outside that a .pth file adds to the import path are not root's alone."""
    data = content(os.path.join(site, name)) or b""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(("#", "import ", "import\t"))]
    places = [os.path.join(site, line) for line in lines]
    inside = os.path.realpath(venv) + "/"
    places = [place for place in places if not os.path.realpath(place).startswith(inside)]
    found = [parents(place, end=True) for place in places if os.path.exists(place)]
    return ["it leads to others: " + why for why in found if why is not None]


def using(*venvs):
    """["pid 77 (python)"] of processes that have files of these environments open as code.

    In a container root may not be allowed to ask that of others: there their command line tells.
    """
    places = [os.path.realpath(venv) + "/" for venv in venvs]
    found = []
    for pid in listed("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        maps = content("/proc/{0}/maps".format(pid))
        if maps is None:
            text = "\n".join(started(content("/proc/{0}/cmdline".format(pid)) or b""))
        else:
            text = maps.decode("utf-8", "replace")
        if any(place in text for place in places):
            name = (content("/proc/{0}/comm".format(pid)) or b"").decode("utf-8", "replace")
            found.append("pid {0} ({1})".format(pid, name.strip()))
    return found


def started(line):
    """Where the program of a command line, or the script that it runs, really lies."""
    words = [os.fsdecode(word) for word in line.split(b"\0")[:2]]
    return [os.path.realpath(os.path.dirname(word)) + "/" for word in words if word[:1] == "/"]


def look(root, name, interpreter):
    """What the role asks before it begins."""
    venv = os.path.join(root, name)
    return {
        "parents": parents(root),
        "untrusted": untrusted(venv, interpreter) if os.path.isdir(venv) else [],
        "using": using(venv) if os.path.isdir(venv) else [],
        "left": [one for one in listed(root) if one.startswith((BUILDING, READY, REMOVING))],
        "works": os.path.exists(os.path.join(root, CURRENT, "bin", "python")),
    }


# a new one in the place of the old one


def aside(path):
    """A free name beside `path`."""
    number = 0
    while True:
        name = path + ".save" + (".{0}".format(number) if number else "")
        if not os.path.lexists(name):
            return name
        number += 1


def put_away(path, name):
    """Remove an environment, or keep it beside `name` where it has more in it; where it is kept."""
    if os.path.isdir(path) and not os.path.islink(path) and not strange(path):
        # Nobody finds half an environment under its name.
        gone = os.path.join(os.path.dirname(path), REMOVING + os.path.basename(name))
        if os.path.lexists(gone):
            shutil.rmtree(gone)
        os.rename(path, gone)
        shutil.rmtree(gone)
        return None
    kept = aside(name)
    os.rename(path, kept)
    # Without its mark it is nobody's to remove.
    if os.path.lexists(os.path.join(kept, MARKER)):
        os.unlink(os.path.join(kept, MARKER))
    return kept


def clean(root):
    """Take away what runs that were killed have left."""
    left = [one for one in listed(root) if one.startswith((BUILDING, READY, REMOVING))]
    for one in left:
        path = os.path.join(root, one)
        if one.startswith(READY):
            put_away(path, os.path.join(root, one[len(READY) :]))
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    return {"changed": bool(left)}


def rename_texts(place, old, new):
    """Write `new` for `old` in the texts of `place`, and the records of wheels accordingly.

    `venv` and pip write the environment's path into its programs, and its name into the prompt;
    compiled files take theirs from where they are imported.
    """
    known = {}
    tops = [os.path.join(place, name) for name in ("bin", "share", "etc", "pyvenv.cfg")]
    for top in tops:
        walked = os.walk(top) if os.path.isdir(top) else [(place, [], [os.path.basename(top)])]
        for directory, _directories, names in walked:
            for path in (os.path.join(directory, name) for name in names):
                data = renamed(path, old, new)
                if data is not None:
                    known[path] = ["sha256=" + digest(data), str(len(data))]
    for site in sites(place):
        for path, rows in records(site):
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            changed = False
            for row in rows:
                told = known.get(os.path.normpath(os.path.join(site, row[0])))
                changed = changed or told is not None
                writer.writerow(row if told is None else [row[0], *told])
            if changed:
                replace(path, text.getvalue().encode())


def renamed(path, old, new):
    """The file's new content where it held the old path or its last name; else None."""
    data = None if os.path.islink(path) else content(path)
    if data is None or b"\0" in data:
        return None
    changed = data.replace(os.fsencode(old), os.fsencode(new))
    changed = changed.replace(
        os.fsencode(os.path.basename(old)), os.fsencode(os.path.basename(new))
    )
    if changed == data:
        return None
    replace(path, changed)
    return changed


def replace(path, data):
    """The whole file or the old one, with its mode."""
    new = path + ".provision"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(new, stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644)
    os.replace(new, path)


def flush(path):
    """Everything of the filesystem is on its disk: a mark never says more than the disk holds."""
    try:
        subprocess.run(["sync", "--file-system", path], check=True, timeout=FLUSH)
    except subprocess.TimeoutExpired as error:
        words = "the disk of {0} did not take what was written within {1} s"
        raise RefusedError(words.format(path, FLUSH)) from error


def write_mark(venv, mark):
    """The mark, newer than every file of the environment: what is newer was touched later."""
    flush(venv)
    replace(os.path.join(venv, MARKER), (mark + "\n").encode())
    os.utime(os.path.join(venv, MARKER))
    sync_directory(venv)


def sync_directory(path):
    """The names in it are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one, other):
    """Swap two entries in one step (renameat2); False where kernel or filesystem can't."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:  # glibc before 2.28
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if call(here, os.fsencode(one), here, os.fsencode(other), swap) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), other)


def step(ready, venv):
    """`ready` takes the place of `venv`, which is at `ready` afterwards."""
    if not os.path.lexists(venv):
        os.rename(ready, venv)
    elif not exchange(ready, venv):
        # In two steps: who is killed between them finds neither, and the next run makes it anew.
        between = ready + ".old"
        try:
            os.rename(venv, between)
        except OSError as error:
            if error.errno != errno.EXDEV:  # a lower layer of an overlay
                raise
            shutil.move(venv, between)
        os.rename(ready, venv)
        os.rename(between, ready)
    sync_directory(os.path.dirname(venv))


def finish(root, name, mark):
    """Put the built environment in its place; where the former one is kept, and what is wrong."""
    built, venv = os.path.join(root, BUILDING + name), os.path.join(root, name)
    ready = os.path.join(root, READY + name)
    problems = lacking(built)
    if problems:
        raise RefusedError("what was built is not whole: {0}".format(", ".join(problems[:5])))
    people = using(venv) if os.path.lexists(venv) else []
    if people:
        raise RefusedError(in_use(venv, people))
    rename_texts(built, built, venv)
    write_mark(built, mark)
    os.rename(built, ready)
    step(ready, venv)
    kept = put_away(ready, venv) if os.path.lexists(ready) else None
    return {"changed": True, "kept": [kept] if kept else []}


def in_use(venv, people):
    """What a person is told."""
    words = "{0} is in use by {1}: nothing of it was touched, and none is ever ended for you."
    return words.format(venv, ", ".join(people[:5]))


# away with them


def ours(root, staying=()):
    """Paths of the environments below `root` that have the mark."""
    paths = [os.path.join(root, name) for name in listed(root) if name not in staying]
    return [
        path for path in paths
        if not os.path.islink(path) and os.path.isfile(os.path.join(path, MARKER))
        and not os.path.basename(path).startswith((BUILDING, READY, REMOVING))
        and not KEPT.search(path)
    ]  # fmt: skip


def remove(root, *staying):
    """All environments below `root` that have the mark, and the link to one of them."""
    result = {"changed": False, "removed": [], "kept": []}
    if not os.path.isdir(root):
        return result
    venvs = ours(root, staying)
    people = using(*venvs) if venvs else []
    if people:
        raise RefusedError(in_use(root, people))
    result["changed"] = clean(root)["changed"]
    current = os.path.join(root, CURRENT)
    if os.path.islink(current) and not staying:
        place = os.path.join(root, os.readlink(current))
        if "/" not in os.readlink(current) and (place in venvs or not os.path.exists(place)):
            os.unlink(current)
            result["changed"] = True
    for venv in venvs:
        kept = put_away(venv, venv)
        result["kept" if kept else "removed"].append(kept or venv)
        result["changed"] = True
    # The link of somebody who keeps them on another disk is theirs.
    if not listed(root) and not os.path.islink(root):
        os.rmdir(root)
    return result


def main(argv):
    """The program."""
    action, root = argv[0], argv[1].rstrip("/")
    try:
        if action == "look":
            found = look(root, *argv[2:])
        elif action == "clean":
            found = clean(root)
        elif action == "finish":
            found = finish(root, *argv[2:])
        elif action == "mark":
            write_mark(os.path.join(root, argv[2]), argv[3])
            found = {"changed": True}
        else:
            found = remove(root, *argv[2:])
    except (RefusedError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write("{0}\n".format(error))
        return 1
    sys.stdout.write(json.dumps(found, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
