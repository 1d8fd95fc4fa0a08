#!/usr/bin/env python3
"""Removes the virtual environments that the role made, known by their mark; nothing else.

An environment into which somebody has put more than the locked wheels is moved aside, for nobody
else may have a copy. Runs on the host with its own Python (3.7 or newer), standard library only:
remove_venvs.py ROOT. Prints {"changed": bool, "removed": [paths], "kept": [paths]}.
"""

import json
import os
import re
import shutil
import sys

MARKER = ".provision.json"
CURRENT = "current"
REMOVING = ".removing-"
# What a venv has by itself, and what wheels put beside it.
OWN = {"bin", "include", "lib", "lib64", "share", "etc", "man", "pyvenv.cfg", "requirements.txt",
       "pip-selfcheck.json", MARKER}  # fmt: skip
SEEDED = {"pip", "setuptools", "pkg-resources", "wheel"}


def normalise(name):
    """PEP 503: one spelling per project."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(venv):
    """Names of the wheels that the role installed; None where nothing tells."""
    try:
        with open(os.path.join(venv, "requirements.txt"), encoding="utf-8") as stream:
            pins = re.findall(r"(?m)^([A-Za-z0-9._-]+)==", stream.read())
    except OSError:
        return None
    return {normalise(name) for name in pins}


def installed(venv):
    """Names of all wheels in it."""
    found = set()
    library = os.path.join(venv, "lib")
    for python in os.listdir(library) if os.path.isdir(library) else ():
        site = os.path.join(library, python, "site-packages")
        for name in os.listdir(site) if os.path.isdir(site) else ():
            if name.endswith((".dist-info", ".egg-info", ".egg-link")):
                found.add(normalise(name.rsplit(".", 1)[0].split("-", 1)[0]))
    return found


def strange(venv):
    """What somebody else has put into it: wheels, and entries of its directory."""
    known = locked(venv)
    more = installed(venv) - SEEDED - known if known is not None else set()
    return sorted(more) + sorted(set(os.listdir(venv)) - OWN)


def aside(path):
    """A free name beside `path`."""
    number = 0
    while True:
        name = path + ".save" + (".{}".format(number) if number else "")
        if not os.path.lexists(name):
            return name
        number += 1


def remove(root):
    """All environments below `root` that have the mark, and the link to one of them."""
    result = {"changed": False, "removed": [], "kept": []}
    if not os.path.isdir(root):
        return result
    current = os.path.join(root, CURRENT)
    if os.path.islink(current):
        place = os.path.join(root, os.readlink(current))
        ours = "/" not in os.readlink(current) and (
            not os.path.exists(place) or os.path.exists(os.path.join(place, MARKER))
        )
        if ours:
            os.unlink(current)
            result["changed"] = True
    for name in sorted(os.listdir(root)):
        venv = os.path.join(root, name)
        if name.startswith(REMOVING):  # a run that was killed had begun with it
            shutil.rmtree(venv)
            result["changed"] = True
            continue
        if os.path.islink(venv) or not os.path.exists(os.path.join(venv, MARKER)):
            continue
        if strange(venv):
            kept = aside(venv)
            os.rename(venv, kept)
            os.unlink(os.path.join(kept, MARKER))
            result["kept"].append(kept)
        else:
            # Nobody finds half an environment under its name.
            gone = os.path.join(root, REMOVING + name)
            os.rename(venv, gone)
            shutil.rmtree(gone)
            result["removed"].append(venv)
        result["changed"] = True
    if not os.listdir(root):
        os.rmdir(root)
    return result


if __name__ == "__main__":
    sys.stdout.write(json.dumps(remove(sys.argv[1]), sort_keys=True) + "\n")
