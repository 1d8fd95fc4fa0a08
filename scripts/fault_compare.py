"""Compares a host's files with what their packages and wheels say; faults.py pipes it there.

It prints a JSON object, {path: what is wrong}: files of the stack's packages by dpkg's MD5 sums,
an environment's by the SHA-256 of each wheel's RECORD, the driver's modules by modinfo, the images
in /boot by unpacking them. Only files that were written since the machine's first boot are read: a
power cut damages no other. Root's python3 runs it; Python 3.7, standard library only.
"""

import base64
import csv
import glob
import gzip
import hashlib
import json
import os
import subprocess

# The tree that is compared.
ROOT = ""
# Written at the end of the first boot (provision/locallab/vm/disk.py).
FIRST_BOOT = "/var/lib/lab-host"
PACKAGES = ("nvidia", "libnvidia", "libcu", "cuda", "glx-", "update-glx", "libnv")


def digest(path, name):
    """The digest of a file's content, as bytes; None where it can't be read."""
    made = hashlib.new(name)
    try:
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                made.update(block)
    except OSError:
        return None
    return made.digest()


def first_boot():
    """When the machine was first up, in seconds since the epoch; 0 where it does not say."""
    try:
        return os.stat(ROOT + FIRST_BOOT).st_mtime
    except OSError:
        return 0


def judged(path, name, expected, since):
    """What is wrong with a file by its digest; None of one not written `since` then."""
    try:
        if os.lstat(path).st_ctime < since:
            return None
    except OSError:
        return "missing"
    got = digest(path, name)
    if got == expected:
        return None
    if got is None:
        return "can't be read"
    return "other content" if os.path.getsize(path) else "empty"


def packages(since):
    """{path: fault} of the stack's installed packages."""
    wrong = {}
    for sums in glob.glob(ROOT + "/var/lib/dpkg/info/*.md5sums"):
        if not os.path.basename(sums).startswith(PACKAGES):
            continue
        with open(sums, encoding="utf-8") as stream:
            for line in stream:
                expected, name = line.rstrip("\n").split("  ", 1)
                path = ROOT + "/" + name
                fault = judged(path, "md5", bytes.fromhex(expected), since)
                if fault == "missing" and is_diverted("/" + name):
                    fault = None
                wrong[path] = fault
    return wrong


def is_diverted(path):
    done = subprocess.run(
        ["dpkg-divert", "--truename", path], stdout=subprocess.PIPE, timeout=60, check=False
    )
    return done.stdout.decode().strip() != path


def wheels(since):
    """{path: fault} of the environment in use; a file of two wheels is one of either's."""
    claims = {}
    for record in glob.glob(ROOT + "/opt/tensorflow/current/lib/python3*/site-packages/*/RECORD"):
        top = os.path.dirname(os.path.dirname(record))
        with open(record, encoding="utf-8", newline="") as stream:
            for row in csv.reader(stream):
                # pip compiles anew what a wheel brings compiled.
                if len(row) == 3 and row[1].startswith("sha256=") and not row[0].endswith(".pyc"):
                    value = row[1][len("sha256=") :]
                    expected = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
                    path = os.path.normpath(os.path.join(top, row[0]))
                    claims.setdefault(path, []).append(expected)
    wrong = {}
    for path, digests in claims.items():
        faults = [judged(path, "sha256", expected, since) for expected in digests]
        wrong[path] = None if None in faults else faults[0]
    return wrong


def images():
    """{path: fault} of the initramfs images."""
    wrong = {}
    for path in glob.glob(ROOT + "/boot/initrd.img-*"):
        if path.endswith((".new", ".dpkg-bak")):
            continue
        try:
            with gzip.open(path) as stream:
                while stream.read(1 << 20):
                    pass
        except (OSError, EOFError) as error:
            wrong[path] = str(error)
    return wrong


def modules():
    """{path: fault} of the driver's modules."""
    wrong = {}
    for path in glob.glob(ROOT + "/lib/modules/*/updates/dkms/nvidia*.ko"):
        done = subprocess.run(
            ["/sbin/modinfo", path], stdout=subprocess.PIPE, check=False, timeout=60
        )
        if done.returncode or b"vermagic" not in done.stdout:
            wrong[path] = "no module"
    return wrong


def main():
    since = first_boot()
    faults = {**packages(since), **wheels(since), **images(), **modules()}
    print(json.dumps({path: fault for path, fault in sorted(faults.items()) if fault}))


if __name__ == "__main__":
    main()
