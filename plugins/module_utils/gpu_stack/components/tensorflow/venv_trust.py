"""Who may write what everybody's Python imports from TensorFlow's environments.

A job imports from site-packages with its owner's rights, and a run has root execute pip there. So a
file, directory or link on the import path that somebody else may write is damage: nobody knows what
stands in it, and the environment is made anew. The module asks the same before it executes
anything, for the role works without gpu_state too.
"""

import os
import stat

from ...change import change

BUILDING, READY, REMOVING = ".building-", ".ready-", ".removing-"
# Debian's policy (9.1.2) gives staff what root gives: /usr/local is writable for it.
STAFF = 50
# More of them than this are one item: a person reads the plan.
MANY = 5


class Owner(object):
    """Root of the host, or of the tree that stands for one."""

    def __init__(self, context):
        here = context.stat("/")
        self.uid = here.st_uid if here is not None else 0
        self.groups = (here.st_gid if here is not None else 0, STAFF)

    def fault(self, info):
        """ "owned by user 1000" and the like; None where root alone may write."""
        if info.st_uid != self.uid:
            return "owned by user {0}".format(info.st_uid)
        if stat.S_ISLNK(info.st_mode):
            return None
        if info.st_mode & stat.S_IWOTH:
            return "writable for all"
        if info.st_mode & stat.S_IWGRP and info.st_gid not in self.groups:
            return "writable for group {0}".format(info.st_gid)
        return None


def parents(context, path, end=False):
    """ "/data is owned by user 1000" of a directory or link on the way to `path`; None without.

    The end of the way counts where a link leads to it, or with `end`. In a directory like /tmp
    nobody moves what is root's.
    """
    owner = Owner(context)
    todo, done, links = [part for part in path.split("/") if part], "", 0
    while todo:
        part = todo.pop(0)
        if part in (".", ".."):
            done = os.path.dirname(done) if part == ".." else done
            continue
        place = done + "/" + part
        info = context.lstat(place)
        if info is None:
            return None  # root makes it, and what is below it
        link = stat.S_ISLNK(info.st_mode)
        last = not (todo or links or end or link)
        fault = None if last or _sticky(info, owner) else owner.fault(info)
        if fault is not None:
            return "{0} is {1}".format(place, fault)
        if not link:
            done = place
            continue
        links += 1
        if links > 40:
            return "{0} leads in a circle".format(path)
        target = context.readlink(place) or ""
        done = "" if target.startswith("/") else done
        todo = [word for word in target.split("/") if word] + todo
    return None


def _sticky(info, owner):
    return stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX and info.st_uid == owner.uid


def look_root(context, root):
    """{parents, owner, link, left}: why the ways to all environments are not root's alone."""
    owner = Owner(context)
    here, current = context.stat(root), context.lstat(root + "/current")
    return {
        "parents": parents(context, root),
        "owner": owner.fault(here) if here is not None else None,
        "link": owner.fault(current) if current is not None else None,
        "left": left_in(context, root),
    }


def left_in(context, root):
    """Names of what runs that were killed have left below `root`."""
    return [name for name in context.listdir(root) if name.startswith((BUILDING, READY, REMOVING))]


def look(context, venv, python):
    """[[path, why]] of what others than root may write in one environment, and Python reads.

    The ordinary look asks what lies directly in bin and site-packages, a deep one all below lib.
    """
    owner = Owner(context)
    ways = [venv, venv + "/bin", venv + "/lib", venv + "/pyvenv.cfg"]
    ways += ["{0}/bin/{1}".format(venv, name) for name in context.listdir(venv + "/bin")]
    paths = []
    for site in context.glob(venv + "/lib/*/site-packages"):
        paths += ["{0}/{1}".format(site, name) for name in context.listdir(site)]
        ways += [site.rsplit("/", 1)[0], site]
    ways += paths
    if context.deep:
        for path in paths:
            ways.extend(_below(context, path))
    found = []
    for way in ways:
        info = context.lstat(way)
        fault = owner.fault(info) if info is not None else None
        if fault is not None:
            found.append([way[len(venv) + 1 :] or ".", fault])
    for path in paths:
        if path.endswith(".pth"):
            why = _led(context, venv, path)
            found += [[path[len(venv) + 1 :], why]] if why else []
    return found + _elsewhere(context, venv, python)


def _below(context, path):
    info = context.lstat(path)
    if info is None or not stat.S_ISDIR(info.st_mode):
        return
    for name in context.listdir(path):
        place = "{0}/{1}".format(path, name)
        yield place
        for way in _below(context, place):
            yield way


def _led(context, venv, path):
    """Why a directory that a .pth file adds to the import path is not root's alone.

    What lies in the environment itself is asked for anyway.
    """
    info = context.lstat(path)
    if info is None or not stat.S_ISREG(info.st_mode):
        return None
    for line in (context.read(path) or "").splitlines():
        line = line.strip()
        if not line or line.startswith(("#", "import ", "import\t")):
            continue
        place = os.path.join(os.path.dirname(path), line)
        real = context.resolve(place)
        if real is None or real.startswith((context.resolve(venv) or venv) + "/"):
            continue
        why = parents(context, place, end=True)
        if why is not None:
            return "leads to others: " + why
    return None


def _elsewhere(context, venv, python):
    """Names of the interpreter that lead to another one; what leads nowhere is told elsewhere."""
    system = "/usr/bin/python" + (python or "")
    wanted = (context.resolve(system) or system) if python else None
    found = []
    for name in ("python", "python3", "python" + (python or "")):
        real = context.resolve("{0}/bin/{1}".format(venv, name))
        if wanted is not None and real is not None and real != wanted:
            found.append(["bin/" + name, "leads to " + real])
    return found


def root_changes(component, root, found):
    """What of the directory of all environments is not root's alone, and what lies about in it."""
    changes = []
    if found.get("parents") is not None:
        reason = "who may write there can put another in its place; a run leaves that to a person"
        changes.append(change(component, root, found["parents"], "root's alone", reason))
    if found.get("owner") is not None:
        reason = "who may write there can put another in the place of what users run"
        changes.append(change(component, root, found["owner"], "root's alone", reason))
    if found.get("link") is not None:
        reason = "it names what users run"
        changes.append(change(component, root + "/current", found["link"], "root's alone", reason))
    for name in found.get("left") or []:
        reason = "a run that was cut off has left it"
        changes.append(change(component, name, "present", "absent", reason))
    return changes


def changes(component, flaws):
    """One change per path that others may write, or one for many; the environment is made anew."""
    anew = {"tensorflow_reinstall": True}
    reason = "everybody imports or runs it; it is made anew"
    if len(flaws) > MANY:
        faults = sorted({fault for _path, fault in flaws})
        old = "{0} entries: {1}".format(len(flaws), ", ".join(faults[:3]))
        reason = "for example {0}: {1}".format(flaws[0][0], reason)
        return [change(component, "import path", old, "root's alone", reason, repair=anew)]
    return [
        change(component, path, fault, "root's alone", reason, repair=anew) for path, fault in flaws
    ]
