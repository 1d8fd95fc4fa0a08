"""Runs on a host: what is in its directories, and what has changed there since.

manifest.py write FILE       writes down every path
manifest.py compare FILE     prints a JSON list of "PATH: what changed"
"""

import hashlib
import json
import os
import stat
import sys

ROOTS = ["/etc", "/usr", "/opt", "/root", "/home", "/lib", "/var/lib/dpkg", "/var/lib/provision"]
SMALL = 65536
# Of a directory neither time nor size: an entry that came or went is a path of its own.
PARTS = ["type", "mode", "owner", "link", "size", "time", "inode", "sha256"]


def entry(path):
    info = os.lstat(path)
    mode = info.st_mode
    found = ["other", stat.S_IMODE(mode), f"{info.st_uid}:{info.st_gid}"]
    if stat.S_ISDIR(mode):
        return ["directory", *found[1:]]
    if stat.S_ISLNK(mode):
        return ["link", 0, found[2], os.readlink(path)]
    if not stat.S_ISREG(mode):
        return found
    digest = ""
    if info.st_size <= SMALL:
        with open(path, "rb") as stream:
            digest = hashlib.sha256(stream.read()).hexdigest()
    return ["file", *found[1:], "", info.st_size, info.st_mtime_ns, info.st_ino, digest]


def walk():
    found = {}
    for root in ROOTS:
        if os.path.islink(root):
            continue
        for directory, names, files in os.walk(root):
            for name in names + files:
                path = os.path.join(directory, name)
                try:
                    found[path] = entry(path)
                except OSError:
                    continue
    return found


def compare(before, now):
    for path in sorted(set(before) | set(now)):
        old, new = before.get(path), now.get(path)
        if old == new:
            continue
        if old is None or new is None:
            yield "{}: {}".format(path, "new" if old is None else "gone")
        else:
            what = [PARTS[i] for i in range(min(len(old), len(new))) if old[i] != new[i]]
            yield "{}: other {}".format(path, ", ".join(what))


if sys.argv[1] == "write":
    with open(sys.argv[2], "w") as stream:
        json.dump(walk(), stream)
    sys.stdout.write("[]")
else:
    with open(sys.argv[2]) as stream:
        sys.stdout.write(json.dumps(list(compare(json.load(stream), walk()))))
