"""Other entries for NVIDIA's repository of the container toolkit or for Docker's, put aside.

Tutorials name it in lists of their own, each with another key file, or one path per distribution;
two entries for one address with different keys make apt refuse all work
(https://github.com/NVIDIA/nvidia-container-toolkit/issues/170). Nothing is deleted: a file that
holds nothing else is renamed to NAME.provision-saved, of any other a copy is kept under that name
before the entries leave it. NVIDIA's older repositories, nvidia-docker and
nvidia-container-runtime, stay: they contradict nobody.

Runs on the host, from standard input: `python3 - look NAME URL` or `python3 - save NAME URL`, where
NAME is nvidia or docker, and URL the repository of this run. Prints {"stale": [path]}. Standard
library, Python 3.7.
"""

import json
import os
import re
import shutil
import sys

ROOT = "/"
KNOWN = {
    "nvidia": re.compile(r"^https?://nvidia\.github\.io/libnvidia-container/"),
    "docker": re.compile(r"^https?://download\.docker\.com/linux/(debian|ubuntu)(/|$)"),
}
SAVED = ".provision-saved"


def blocks(text, deb822):
    """[(lines, URIs)] that make up the text; no URIs where a block names no source."""
    found = []
    if not deb822:
        for line in text.splitlines(True):
            match = re.match(r"\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)\s+\S+", line)
            found.append((line, [match.group(1)] if match else []))
        return found
    for part in re.split(r"(\n[ \t]*\n+)", text):
        # A comment line may stand between a field and its continuation.
        plain = "".join(line for line in part.splitlines(True) if not line.startswith("#"))
        off = re.search(r"(?im)^enabled:[ \t]*(no|false|0|off)\b", plain)
        uris = re.search(r"(?im)^uris:((?:.*\n?)(?:[ \t].*\n?)*)", plain)
        found.append((part, uris.group(1).split() if uris and not off else []))
    return found


def ours(path):
    """True of a file that one of this project's roles writes."""
    return os.path.basename(path).startswith("provision-")


def names_it(uri, name, url):
    """True of the repository of that name in any of its places, and of this run's."""
    uri = re.sub(r"//[^/ ]*@", "//", uri)
    return bool(KNOWN[name].match(uri)) or (bool(url) and uri.rstrip("/") == url.rstrip("/"))


def sources():
    """apt's source files: [(path, text)]."""
    folder = "/etc/apt/sources.list.d"
    listed = sorted(os.listdir(ROOT + folder)) if os.path.isdir(ROOT + folder) else []
    paths = ["/etc/apt/sources.list"]
    paths += [folder + "/" + name for name in listed if name.endswith((".list", ".sources"))]
    found = []
    for path in paths:
        try:
            with open(ROOT + path, encoding="utf-8", errors="surrogateescape") as file:
                found.append((path, file.read()))
        except OSError:
            continue  # a link that leads nowhere, a directory
    return found


def stale(name, url):
    """[(path, text of what stays, or None where the whole file goes)]."""
    found = []
    for path, text in sources():
        if ours(path):
            continue
        parts = blocks(text, path.endswith(".sources"))
        entries = [part for part in parts if part[1]]
        bad = [part for part in entries if any(names_it(uri, name, url) for uri in part[1])]
        if bad:
            rest = "".join(part[0] for part in parts if part not in bad)
            found.append((path, None if len(bad) == len(entries) else rest))
    return found


def free_name(path):
    """PATH.provision-saved, numbered where there are some."""
    name, number = path + SAVED, 1
    while os.path.lexists(ROOT + name):
        number += 1
        name = "{0}{1}.{2}".format(path, SAVED, number)
    return name


def save(path, rest):
    """Put a file, or the entries in it, aside."""
    kept = ROOT + free_name(path)
    if rest is None:
        os.rename(ROOT + path, kept)
        return
    real = os.path.realpath(ROOT + path)
    shutil.copy2(real, kept)
    new = real + ".provision-new"
    with open(new, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(rest)
        file.flush()
        os.fsync(file.fileno())
    shutil.copystat(real, new)
    os.replace(new, real)


def main(argv):
    """The program."""
    action, name, url = argv
    found = stale(name, url)
    if action == "save":
        for path, rest in found:
            save(path, rest)
    sys.stdout.write(json.dumps({"stale": [path for path, _rest in found]}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
