"""What stands in the way of NVIDIA's repository in apt's sources, and its putting aside.

Years of tutorials have left lists without a key, with the key of before 2022, or with another
Signed-By; one of these beside a right entry makes apt refuse all work. Nothing is deleted: a file
that holds nothing else is renamed to NAME.provision-saved, of any other a copy is kept under that
name before the entries leave it.

Runs on the host, from standard input: `python3 - look URL` or `python3 - save URL`, where URL is
the repository of this run ("" without one). Prints {"stale": [path], "signed_by": key of another
source of this project's that names the same repository, or null}. Standard library, Python 3.7.
"""

import fnmatch
import json
import os
import re
import shutil
import sys

ROOT = "/"
NVIDIA = re.compile(
    r"^(https?://developer\.download\.nvidia\.(com|cn)/compute/(cuda|machine-learning)/repos/"
    r"|file:/+var/cuda-repo-)"
)
NAMES = ("cuda*.list", "nvidia-ml*.list")
PIN = "/etc/apt/preferences.d/cuda-repository-pin-600"
SAVED = ".provision-saved"


def blocks(text, deb822):
    """[(lines, URIs, Signed-By)] that make up the text; no URIs where a block names no source."""
    found = []
    if not deb822:
        for line in text.splitlines(True):
            match = re.match(r"\s*deb(?:-src)?\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+\S+", line)
            key = re.search(r"signed-by=(\S+)", match.group(1) or "") if match else None
            found.append((line, [match.group(2)] if match else [], key and key.group(1)))
        return found
    for part in re.split(r"(\n[ \t]*\n+)", text):
        # A comment line may stand between a field and its continuation.
        plain = "".join(line for line in part.splitlines(True) if not line.startswith("#"))
        off = re.search(r"(?im)^enabled:[ \t]*(no|false|0|off)\b", plain)
        uris = re.search(r"(?im)^uris:((?:.*\n?)(?:[ \t].*\n?)*)", plain)
        key = re.search(r"(?im)^signed-by:[ \t]*(\S+)", plain)
        found.append(
            (part, uris.group(1).split() if uris and not off else [], key and key.group(1))
        )
    return found


def ours(path):
    """True of a file that one of this project's roles writes."""
    return os.path.basename(path).startswith("provision-")


def bare(address):
    """An address without the user and the password in it."""
    return re.sub(r"//[^/ ]*@", "//", address)


def names_nvidia(uri, url):
    """True of NVIDIA's repositories of CUDA, and of this run's; `url` is without a password."""
    uri = bare(uri)
    return bool(NVIDIA.match(uri)) or (bool(url) and uri.rstrip("/") == url.rstrip("/"))


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


def stale(url):
    """[(path, text of what stays, or None where the whole file goes)]."""
    found = []
    for path, text in sources():
        if ours(path):
            continue
        parts = blocks(text, path.endswith(".sources"))
        entries = [part for part in parts if part[1]]
        named = any(fnmatch.fnmatch(os.path.basename(path), name) for name in NAMES)
        bad = [p for p in entries if named or any(names_nvidia(uri, url) for uri in p[1])]
        if bad:
            rest = "".join(part[0] for part in parts if part not in bad)
            found.append((path, None if len(bad) == len(entries) else rest))
    if os.path.lexists(ROOT + PIN):
        found.append((PIN, None))
    return found


def signed_by(url):
    """The key that another of this project's sources names for the repository; None without."""
    for path, text in sources():
        if not ours(path) or os.path.basename(path) == "provision-cuda.sources":
            continue
        for _part, uris, key in blocks(text, path.endswith(".sources")):
            if url and key and any(bare(uri).rstrip("/") == url.rstrip("/") for uri in uris):
                return key
    return None


def free_name(path):
    """PATH.provision-saved, numbered where there are some."""
    name, number = path + SAVED, 1
    while os.path.lexists(ROOT + name):
        number += 1
        name = "{0}{1}.{2}".format(path, SAVED, number)
    return name


def save(path, rest):
    """Put a file, or what is NVIDIA's in it, aside."""
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
    action, url = argv
    found = stale(url)
    if action == "save":
        for path, rest in found:
            save(path, rest)
    answer = {"stale": [path for path, _rest in found], "signed_by": signed_by(url)}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
