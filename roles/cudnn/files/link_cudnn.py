"""cuDNN's headers and libraries under their names in CUDA's tree, as tutorials copy them there.

Links to the version's own directory and no copies: another version changes them and leaves nothing
behind, and 1.5 GB lie on the disk once. What stands in a link's place and is not this script's is
kept as NAME.provision-saved. TREE/.provision-cudnn names the links, and is written before them, so
that a run that was cut off leaves none that nobody knows.

Runs on the host, from standard input: `python3 - look|apply DIRECTORY [TREE]`, where DIRECTORY is
the version's; without TREE there shall be no links anywhere. Prints {"paths": those that are or
were not as wished}.
"""

import glob
import json
import os
import sys

ROOT = ""
TREES = "/usr/local/cuda-*"
RECORD = ".provision-cudnn"
SAVED = ".provision-saved"


def wanted(directory, tree):
    """{path in the tree: its target}."""
    found = {}
    for place, names in (("include", "cudnn*.h"), ("lib64", "libcudnn*"), ("lib", "libcudnn*")):
        for path in sorted(glob.glob(ROOT + directory + "/" + place + "/" + names)):
            into = "include" if place == "include" else "lib64"
            name = os.path.basename(path)
            target = "{0}/{1}/{2}".format(directory, place, name)
            found["{0}/{1}/{2}".format(tree, into, name)] = target
    return found


def recorded(record):
    """{path: target} that a record names; {} where it can't be read."""
    try:
        with open(ROOT + record) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def leads(path):
    """Where a link leads; None where there is none."""
    try:
        return os.readlink(ROOT + path)
    except OSError:
        return None


def write(record, links):
    """A record, whole or not at all."""
    new = ROOT + record + ".new"
    with open(new, "w") as file:
        json.dump(links, file, indent=1, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, ROOT + record)


def put(path, target):
    """A link at `path`; what is there is kept beside, unless it was a link of ours."""
    if os.path.lexists(ROOT + path):
        name, number = path + SAVED, 1
        while os.path.lexists(ROOT + name):
            number += 1
            name = "{0}{1}.{2}".format(path, SAVED, number)
        os.rename(ROOT + path, ROOT + name)
    os.makedirs(os.path.dirname(ROOT + path), exist_ok=True)
    os.symlink(target, ROOT + path)


def settle(tree, links, doing):
    """Make a tree's links those of `links`; the paths that are not, or were not, as wished."""
    record = tree + "/" + RECORD
    before = recorded(record)
    changed = [path for path in sorted(links) if leads(path) != links[path]]
    gone = [path for path in sorted(before) if path not in links and leads(path) == before[path]]
    if before != links:
        changed.append(record)
    if not doing or not changed + gone:
        return changed + gone
    if links:
        write(record, dict(before, **links))
    for path in gone:
        os.unlink(ROOT + path)
    for path in changed:
        if path == record:
            continue
        if path in before and leads(path) == before[path]:
            os.unlink(ROOT + path)
        put(path, links[path])
    if links:
        write(record, links)
    else:
        os.unlink(ROOT + record)
    return changed + gone


def main(argv):
    """The program."""
    doing, directory = argv[0] == "apply", argv[1]
    tree = argv[2] if len(argv) > 2 else None
    changed = []
    for record in sorted(glob.glob(ROOT + TREES + "/" + RECORD)):
        other = os.path.dirname(record)[len(ROOT) :]
        if other != tree:
            changed += settle(other, {}, doing)
    if tree is not None:
        changed += settle(tree, wanted(directory, tree), doing)
    sys.stdout.write(json.dumps({"paths": changed}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
