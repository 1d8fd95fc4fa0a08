#!/usr/bin/env python3
"""Checks a cuDNN archive, unpacks it beside its final place, and switches to it atomically.

Ansible's unarchive would write straight into the target, follow what the archive says about
paths, and leave a half-filled directory behind when the disk is full or the file is cut short.
Here nothing under the root is visible until it is complete: a refused archive leaves the host as
it was.

Runs on the host with its own Python (3.7 or newer), standard library only, and is also imported by
tests. Sub-commands print one JSON object; a refusal is one line on stderr and exit code 3.

    look    ROOT VERSION CUDA SHA256             is this version complete, and current?
    check   ARCHIVE SHA256                       is this file the archive that was asked for?
    install ROOT VERSION CUDA SHA256 ARCHIVE     check, unpack, verify, switch
    bring   ROOT VERSION CUDA SHA256             fetch and unpack, leave the current one current
            [--file ARCHIVE | --download ARCHIVE]
    fetch   ARCHIVE                              write what the first of CUDNN_URLS gives
    switch  ROOT VERSION CUDA                    make a complete version the current one
    prune   ROOT VERSION CUDA                    remove the other versions that this role installed
    remove  ROOT                                 remove all of them

What is written (ROOT is /opt/nvidia/cudnn by default):

    ROOT/8.1.0.77-cuda11.2/{include,lib64}       the files, readable by all (lib from 8.3 on)
    ROOT/8.1.0.77-cuda11.2/.provision-manifest.json
    ROOT/current -> 8.1.0.77-cuda11.2
"""

import argparse
import base64
import errno
import hashlib
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import stat
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
import zlib

try:
    from lzma import LZMAError
except ImportError:  # a Python built without it; tarfile refuses the archive then
    LZMAError = EOFError

MANIFEST = ".provision-manifest.json"
MANIFEST_FORMAT = 1
CURRENT = "current"
STAGING_PREFIX = ".staging-"
REFUSED = 3
BLOCK = 1 << 20
DIRECTORY_MODE = 0o755
# As the tasks name theirs: what a run that was killed left is removed by the next.
DOWNLOADS = "/var/tmp"  # noqa: S108  the disk's, not memory's; mkdtemp makes a directory of its own
DOWNLOAD_PREFIX = "provision-cudnn."
SILENCE = 60.0  # seconds without a byte
LONGEST = 14400.0  # seconds for a gigabyte over a slow line
PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
LINKED = "a link on the way to it was made by a user of this host: name the file itself"


class RefusalError(Exception):
    """The archive or the host does not allow the request; the message says what to do."""


def directory_name(version, cuda):
    """The name of a version's directory: "8.1.0.77-cuda11.2"."""
    return "{}-cuda{}".format(version, cuda)


def library_directory(tree):
    """Where an unpacked version has its libraries: lib64 (up to 8.2) or lib (from 8.3 on)."""
    return "lib64" if os.path.isdir(os.path.join(tree, "lib64")) else "lib"


# --- looking -----------------------------------------------------------------------------------


def read_manifest(tree):
    """The manifest of an unpacked version, or None where there is none that can be read."""
    try:
        with open(os.path.join(tree, MANIFEST), encoding="utf-8") as stream:
            manifest = json.load(stream)
    except (OSError, ValueError):
        return None
    if not isinstance(manifest, dict) or manifest.get("format") != MANIFEST_FORMAT:
        return None
    return manifest if isinstance(manifest.get("files"), dict) else None


def differences(tree, version, cuda, sha256):
    """Why an unpacked version cannot be used as it is: a list of sentences, empty when complete.

    Sizes, modes and links are compared with the manifest; contents are not hashed, for they are
    gigabytes and this runs every time.
    """
    if not os.path.lexists(tree):
        return ["{} is not installed".format(directory_name(version, cuda))]
    manifest = read_manifest(tree)
    if manifest is None:
        return ["{} has no readable {}".format(tree, MANIFEST)]
    wanted = {"version": version, "cuda": cuda, "archive_sha256": sha256}
    problems = [
        "{} is {} in the manifest, not {}".format(key, manifest.get(key), value)
        for key, value in sorted(wanted.items())
        if manifest.get(key) != value
    ]
    for relative, entry in sorted(manifest["files"].items()):
        path = os.path.join(tree, relative)
        try:
            found = os.lstat(path)
        except OSError:
            problems.append("{} is missing".format(relative))
            continue
        if "link" in entry:
            if not stat.S_ISLNK(found.st_mode) or os.readlink(path) != entry["link"]:
                problems.append("{} is not a link to {}".format(relative, entry["link"]))
        elif not stat.S_ISREG(found.st_mode):
            problems.append("{} is not a file".format(relative))
        elif found.st_size != entry["size"]:
            problems.append(
                "{} has {} bytes, not {}".format(relative, found.st_size, entry["size"])
            )
        elif stat.S_IMODE(found.st_mode) != int(entry["mode"], 8):
            problems.append(
                "{} has mode {:04o}, not {}".format(
                    relative, stat.S_IMODE(found.st_mode), entry["mode"]
                )
            )
    return problems


def other_versions(root, version, cuda):
    """Directories below root that this role installed and that are not the wanted version."""
    wanted = directory_name(version, cuda)
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return []
    return [
        name
        for name in names
        if name != wanted
        and not name.startswith(".")
        and not os.path.islink(os.path.join(root, name))
        and read_manifest(os.path.join(root, name)) is not None
    ]


def look(root, version, cuda, sha256):
    """What is there, as plain data; changes nothing."""
    name = directory_name(version, cuda)
    tree = os.path.join(root, name)
    problems = differences(tree, version, cuda, sha256)
    current = os.path.join(root, CURRENT)
    return {
        "complete": not problems,
        "problems": problems,
        "current": os.path.islink(current) and os.readlink(current) == name,
        "library": library_directory(tree) if os.path.isdir(tree) else None,
        "others": other_versions(root, version, cuda),
    }


# --- checking the archive ----------------------------------------------------------------------


def open_archive(archive):
    """The archive opened for reading, once and for all; refused where it is no regular file.

    It may lie where a user can write. A named pipe would be waited for, and a link could lead to
    what only root may read: so a link on the way is followed only where root, or whoever runs
    this, made it.
    """
    todo = [part for part in os.path.abspath(archive).split("/") if part]
    place = os.open("/", PLACE)
    try:
        for _steps in range(1000):
            name = todo.pop(0)
            try:
                handle = os.open(name, PLACE if todo else FILE, dir_fd=place)
            except OSError as error:
                # A link gives ELOOP, and ENOTDIR where a directory is asked for.
                info = os.stat(name, dir_fd=place, follow_symlinks=False)
                if not stat.S_ISLNK(info.st_mode):
                    raise
                if info.st_uid not in (0, os.geteuid()):
                    raise OSError(errno.EPERM, LINKED) from error
                target = os.readlink(name, dir_fd=place)
                todo = [part for part in target.split("/") if part] + todo
                handle = os.open("/" if target.startswith("/") else ".", PLACE, dir_fd=place)
                todo = todo or ["."]
            else:
                if not todo:
                    break
            os.close(place)
            place = handle
        else:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        stream = os.fdopen(handle, "rb")
    except OSError as error:
        raise RefusalError("cannot read {}: {}".format(archive, error.strerror)) from error
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        stream.close()
        raise RefusalError("cannot read {}: it is not a regular file".format(archive))
    return stream


def is_private(archive, stream):
    """Whether nobody else can write to this open file: it is ours, in a directory closed to all."""
    info, around = os.fstat(stream.fileno()), os.stat(os.path.dirname(os.path.abspath(archive)))
    mine = info.st_uid == os.geteuid() and around.st_uid == os.geteuid()
    return mine and not around.st_mode & 0o077 and not info.st_mode & 0o022


def check(archive, sha256):
    """Refuse a file that is not byte for byte the wished archive, and say what it is."""
    with open_archive(archive) as stream:
        check_stream(archive, stream, sha256)


def check_stream(archive, stream, sha256, copy=None):
    """As `check`, of an open file, which is also written to `copy` while it is read."""
    digest, size, start = hashlib.sha256(), 0, b""
    try:
        for block in iter(lambda: stream.read(BLOCK), b""):
            start = start or block[:512]
            digest.update(block)
            size += len(block)
            if copy is not None:
                copy.write(block)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise RefusalError("cannot read {}: {}".format(archive, error.strerror)) from error
    if digest.hexdigest() == sha256.lower():
        return
    if not start:
        raise RefusalError("{} is empty".format(archive))
    if re.match(rb"\s*(<!doctype html|<html|<\?xml|<head)", start, re.IGNORECASE):
        raise RefusalError(
            "{} is a web page ({} bytes), not an archive: most likely the site's login or error"
            " page. Download the archive in a browser and name the file, or use another URL".format(
                archive, size
            )
        )
    message = "{} has SHA-256 {}, expected {}".format(archive, digest.hexdigest(), sha256.lower())
    if not start.startswith((b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh")):
        raise RefusalError("{}; it is not a compressed archive at all".format(message))
    if is_truncated(stream if copy is None else copy):
        raise RefusalError(
            "{}; it is cut short after {} bytes: download it again".format(message, size)
        )
    raise RefusalError("{}; it is another archive, or was changed on its way".format(message))


def is_truncated(archive):
    """Whether the compressed stream of an open file ends before its own end marker."""
    archive.seek(0)
    try:
        with tarfile.open(fileobj=archive, mode="r:*") as stream:
            for _member in stream:
                pass
    except (EOFError, tarfile.ReadError, zlib.error, LZMAError, OSError) as error:
        return "end" in str(error).lower() or isinstance(error, EOFError)
    return False


def safe_parts(member):
    """The parts of a member's path; refused where it is absolute or climbs out."""
    name = member.name
    if name.startswith("/"):
        raise RefusalError("the archive holds the absolute path {!r}".format(name))
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise RefusalError(
            "the archive holds the path {!r}, which leaves its directory".format(name)
        )
    return parts


def safe_link(relative, target, what):
    """Refuse a link that is absolute or leaves the archive's top directory."""
    if target.startswith("/"):
        raise RefusalError(
            "the archive holds {} {!r} to the absolute path {!r}".format(what, relative, target)
        )
    reached = os.path.normpath(os.path.join(os.path.dirname(relative), target))
    if reached == ".." or reached.startswith("../"):
        raise RefusalError(
            "the archive holds {} {!r} to {!r}, which leaves its directory".format(
                what, relative, target
            )
        )


# --- unpacking ---------------------------------------------------------------------------------


def unpack(archive, staging):
    """Unpack an open archive without its top directory into staging; returns the manifest's files.

    Every member is checked before anything of it is written; links come last, so that nothing can
    be written through them. Modes are made readable by all, whatever the archive or the umask says.
    """
    files = {}
    links = {}
    hardlinks = {}
    top = None
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:*") as stream:
        for member in stream:
            parts = safe_parts(member)
            if not parts:
                continue
            if top is None:
                top = parts[0]
            if parts[0] != top:
                raise RefusalError(
                    "the archive has more than one top directory ({!r} and {!r}): not an archive of"
                    " NVIDIA's layout".format(top, parts[0])
                )
            relative = "/".join(parts[1:])
            if member.isdir():
                make_directories(staging, relative)
            elif not relative:
                raise RefusalError(
                    "the archive holds the file {!r} outside a directory".format(member.name)
                )
            elif relative in files or relative in links or relative in hardlinks:
                raise RefusalError("the archive holds {!r} twice".format(member.name))
            elif member.isreg():
                files[relative] = write_file(
                    stream.extractfile(member), staging, relative, member.mode
                )
            elif member.issym():
                safe_link(relative, member.linkname, "the symbolic link")
                links[relative] = member.linkname
            elif member.islnk():
                target = [part for part in member.linkname.split("/") if part not in ("", ".")]
                if member.linkname.startswith("/") or ".." in target or target[:1] != [top]:
                    raise RefusalError(
                        "the archive holds the hard link {!r} to {!r}, which leaves its"
                        " directory".format(member.name, member.linkname)
                    )
                hardlinks[relative] = "/".join(target[1:])
            else:
                raise RefusalError(
                    "the archive holds {!r}, a device or another special file".format(member.name)
                )
    # A hard link becomes a file of its own: one file fewer that a repair could miss.
    for relative, target in sorted(hardlinks.items()):
        if target not in files:
            raise RefusalError(
                "the archive holds the hard link {!r} to nothing it holds".format(relative)
            )
        with open(os.path.join(staging, target), "rb") as source:
            files[relative] = write_file(source, staging, relative, int(files[target]["mode"], 8))
    for relative, target in sorted(links.items()):
        make_directories(staging, os.path.dirname(relative))
        path = os.path.join(staging, relative)
        if os.path.lexists(path):
            raise RefusalError(
                "the archive holds {!r} both as a link and as a directory".format(relative)
            )
        os.symlink(target, path)
        files[relative] = {"link": target}
    return files


def make_directories(staging, relative):
    """Make a directory and its parents below staging, readable by all."""
    path = staging
    for part in [part for part in relative.split("/") if part]:
        path = os.path.join(path, part)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise RefusalError(
                    "the archive uses the file {!r} as a directory".format(relative)
                ) from None
            continue
        os.chmod(path, DIRECTORY_MODE)


def write_file(source, staging, relative, mode):
    """Copy one file into staging, flushed to the disk; returns its entry in the manifest."""
    make_directories(staging, os.path.dirname(relative))
    path = os.path.join(staging, relative)
    mode = 0o755 if mode & 0o111 else 0o644
    digest = hashlib.sha256()
    size = 0
    with open(path, "xb") as target:
        for block in iter(lambda: source.read(BLOCK), b""):
            digest.update(block)
            size += len(block)
            target.write(block)
        target.flush()
        os.fsync(target.fileno())
    os.chmod(path, mode)
    return {"size": size, "sha256": digest.hexdigest(), "mode": "{:04o}".format(mode)}


def header_version(tree):
    """The version that cudnn_version.h of an unpacked tree defines, as "8.1.0"."""
    path = os.path.join(tree, "include", "cudnn_version.h")
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError:
        raise RefusalError(
            "the archive holds no include/cudnn_version.h: it is not cuDNN 8"
        ) from None
    numbers = []
    for word in ("MAJOR", "MINOR", "PATCHLEVEL"):
        match = re.search(r"^#define\s+CUDNN_{}\s+(\d+)".format(word), text, re.MULTILINE)
        if match is None:
            raise RefusalError("include/cudnn_version.h defines no CUDNN_{}".format(word))
        numbers.append(match.group(1))
    return ".".join(numbers)


def verify_tree(tree, version):
    """Refuse an unpacked tree that is not the wanted version or holds no library."""
    found = header_version(tree)
    if version.split(".")[:3] != found.split("."):
        raise RefusalError("the archive holds cuDNN {}, not {}".format(found, version))
    soname = "libcudnn.so.{}".format(version.split(".")[0])
    if not os.path.exists(os.path.join(tree, library_directory(tree), soname)):
        raise RefusalError("the archive holds no {}/{}".format(library_directory(tree), soname))


def write_manifest(tree, version, cuda, sha256, files):
    """Write the manifest last: a directory without one is incomplete."""
    manifest = {
        "format": MANIFEST_FORMAT,
        "version": version,
        "cuda": cuda,
        "archive_sha256": sha256.lower(),
        "files": files,
    }
    path = os.path.join(tree, MANIFEST)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(manifest, stream, indent=1, sort_keys=True)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(path, 0o644)


def sync_directory(path):
    """Make renames inside a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_root(root):
    """Make the root and its parents, readable by all; returns the new ones, deepest first."""
    made = []
    path = os.path.abspath(root)
    while not os.path.lexists(path):
        made.append(path)
        path = os.path.dirname(path)
    for directory in reversed(made):
        os.mkdir(directory)
        os.chmod(directory, DIRECTORY_MODE)
    return made


def remove_stagings(root):
    """Remove what an earlier run that was killed left behind."""
    for name in os.listdir(root):
        if name.startswith(STAGING_PREFIX):
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)


def backup_name(path):
    """A name that is free, for something in the way that this role did not make."""
    stem = "{}.backup-{}".format(path, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    for number in itertools.count():
        candidate = "{}.{}".format(stem, number) if number else stem
        if not os.path.lexists(candidate):
            return candidate
    raise AssertionError("itertools.count never ends")


def install(root, version, cuda, sha256, archive, again=False):
    """Unpack a checked archive to its versioned directory and make it the current one.

    A version that is already complete is not touched unless again is set; a damaged one is replaced
    as a whole, so that programs that have the old libraries open keep them.
    """
    result = put(root, version, cuda, sha256, archive, again)
    switched = switch(root, version, cuda)
    result["changed"] = result["changed"] or switched["changed"]
    result["backup"] += switched["backup"]
    result["library"] = library_directory(os.path.join(root, directory_name(version, cuda)))
    return result


def put(root, version, cuda, sha256, archive, again=False):
    """Unpack a checked archive to its versioned directory, and leave the current one current."""
    result = {"changed": False, "backup": []}
    tree = os.path.join(root, directory_name(version, cuda))
    if again or differences(tree, version, cuda, sha256.lower()):
        with open_archive(archive) as stream:
            result["backup"] += _put(root, tree, (version, cuda, sha256), archive, stream)
        result["changed"] = True
    return result


def _put(root, tree, wanted, archive, stream):
    """Check and unpack an open archive beside `tree`, and put it there; returns what was kept.

    What is hashed is what is unpacked: a file that its owner could still write to is copied first.
    """
    version, cuda, sha256 = wanted
    copied = not is_private(archive, stream)
    if not copied:
        check_stream(archive, stream, sha256)
    made = make_root(root)
    staging = None
    try:
        remove_stagings(root)
        staging = tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=root)
        # The copy has no name: nobody finds it, and it is gone with this process.
        with tempfile.TemporaryFile(dir=staging) as copy:
            if copied:
                check_stream(archive, stream, sha256, copy)
            os.chmod(staging, DIRECTORY_MODE)
            files = unpack(copy if copied else stream, staging)
        verify_tree(staging, version)
        write_manifest(staging, version, cuda, sha256, files)
        sync_directory(staging)
        kept = put_in_place(staging, tree)
        sync_directory(root)
    except BaseException as error:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        for directory in made:
            try:
                os.rmdir(directory)
            except OSError:
                break
        raise explained(error, root) from error
    return kept


def bring(root, version, cuda, sha256, file=None, download=None):
    """Put a version in its place, from a file or the first address that has it; switch to none.

    A download has a directory of its own, which goes with it. The addresses are a JSON list in
    CUDNN_URLS, for they may hold passwords. This is for a start behind other work: what refuses
    here is met again by the tasks that wait for it, and told there.
    """
    if download is not None:
        try:
            return put(root, version, cuda, sha256, download)
        finally:
            shutil.rmtree(os.path.dirname(download), ignore_errors=True)
    if file is not None:
        return put(root, version, cuda, sha256, file)
    refusal = RefusalError("CUDNN_URLS names no address")
    for url in json.loads(os.environ.get("CUDNN_URLS", "[]")):
        directory = tempfile.mkdtemp(prefix=DOWNLOAD_PREFIX, dir=DOWNLOADS)
        try:
            archive = os.path.join(directory, "archive")
            fetch(url, archive)
            return put(root, version, cuda, sha256, archive)
        except RefusalError as error:
            refusal = error
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    raise refusal


def fetch_first(archive):
    """Write what the first address of CUDNN_URLS gives to a file that is not there yet."""
    if os.path.lexists(archive):
        os.unlink(archive)
    for url in json.loads(os.environ.get("CUDNN_URLS", "[]"))[:1]:
        fetch(url, archive)


def fetch(url, path):
    """Write what an address gives to a file; proxies and CA bundle are those of the environment."""
    parts = urllib.parse.urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    # Of any scheme: the addresses are the inventory's own.
    request = urllib.request.Request(parts._replace(netloc=host).geturl())  # noqa: S310
    if login:
        words = urllib.parse.unquote(login).encode("utf-8")
        # For this address alone, not for one that it leads to.
        request.add_unredirected_header(
            "Authorization", "Basic " + base64.b64encode(words).decode("ascii")
        )
    until = time.monotonic() + LONGEST
    try:
        # One with inside the other: both in one want brackets, and Python 3.10.
        with urllib.request.urlopen(request, timeout=SILENCE) as stream:  # noqa: S310, SIM117
            with open(path, "xb") as target:
                # read1: of a server that drips, read() would wait for a whole block.
                for block in iter(lambda: stream.read1(BLOCK), b""):
                    target.write(block)
                    if time.monotonic() > until:
                        raise OSError("not whole after {:g} s".format(LONGEST))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise RefusalError("{}: {}".format(parts._replace(netloc=host).geturl(), error)) from error


def explained(error, root):
    """The error as a refusal where its cause lies in the disk or the archive."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RefusalError(
            "no space left on the filesystem of {}; nothing was changed".format(root)
        )
    if isinstance(error, (EOFError, tarfile.TarError, zlib.error, LZMAError)):
        return RefusalError("the archive cannot be unpacked: {}".format(error))
    return error


def put_in_place(staging, tree):
    """Rename staging to its final name; what was there is removed if ours, else kept aside."""
    if not os.path.lexists(tree):
        os.rename(staging, tree)
        return []
    if read_manifest(tree) is None:
        kept = backup_name(tree)
        os.rename(tree, kept)
        os.rename(staging, tree)
        return [kept]
    aside = tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=os.path.dirname(tree))
    os.rename(tree, os.path.join(aside, "old"))
    os.rename(staging, tree)
    shutil.rmtree(aside, ignore_errors=True)
    return []


def switch(root, version, cuda):
    """Point ROOT/current at a version, atomically; a foreign "current" is kept under a new name."""
    name = directory_name(version, cuda)
    current = os.path.join(root, CURRENT)
    if os.path.islink(current) and os.readlink(current) == name:
        return {"changed": False, "backup": []}
    backup = []
    if os.path.lexists(current):
        ours = (
            os.path.islink(current)
            and "/" not in os.readlink(current)
            and (not os.path.exists(current) or read_manifest(current) is not None)
        )
        if not ours:
            backup.append(backup_name(current))
            os.rename(current, backup[0])
    temporary = "{}.new".format(current)
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(name, temporary)
    os.rename(temporary, current)
    sync_directory(root)
    return {"changed": True, "backup": backup}


def prune(root, version, cuda):
    """Remove the other versions that this role installed; never one it did not."""
    removed = other_versions(root, version, cuda)
    for name in removed:
        shutil.rmtree(os.path.join(root, name))
    return {"changed": bool(removed), "removed": removed}


def remove(root):
    """Remove all versions that this role installed, file by file as their manifests name them.

    A file that was changed since is kept as .save, and so is every file that is not in a manifest.
    """
    result = {"changed": False, "removed": [], "kept": []}
    if not os.path.isdir(root):
        return result
    current = os.path.join(root, CURRENT)
    # A link of somebody's own leads elsewhere.
    near = os.path.islink(current) and "/" not in os.readlink(current)
    if near and (not os.path.exists(current) or read_manifest(current) is not None):
        os.unlink(current)
        result["changed"] = True
    remove_stagings(root)
    for name in sorted(os.listdir(root)):
        tree = os.path.join(root, name)
        manifest = read_manifest(tree)
        if os.path.islink(tree) or manifest is None:
            continue
        # Written last when it was installed, and so removed last: a run that is killed goes on.
        since = os.stat(os.path.join(tree, MANIFEST)).st_mtime
        for relative, entry in sorted(manifest["files"].items()):
            path = os.path.join(tree, relative)
            if not os.path.lexists(path):
                continue
            if as_unpacked(path, entry, since):
                os.unlink(path)
            else:
                kept = path + ".save"
                if os.path.lexists(kept):
                    kept = backup_name(path)
                os.rename(path, kept)
                result["kept"].append(kept)
        os.unlink(os.path.join(tree, MANIFEST))
        remove_empty(tree)
        result["removed"].append(tree)
        result["changed"] = True
    if not os.listdir(root):
        os.rmdir(root)
    return result


def as_unpacked(path, entry, since):
    """True for a file or link that is as its manifest says; hashed where it is newer than that."""
    found = os.lstat(path)
    if "link" in entry:
        return stat.S_ISLNK(found.st_mode) and os.readlink(path) == entry["link"]
    if not stat.S_ISREG(found.st_mode) or found.st_size != entry["size"]:
        return False
    return found.st_mtime <= since or sha256_of(path) == entry["sha256"]


def sha256_of(path):
    """The file's hash as the manifest has it."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def remove_empty(top):
    """Remove the empty directories below `top`, and `top` itself where nothing is left in it."""
    for directory, _directories, _files in os.walk(top, topdown=False):
        if not os.listdir(directory):
            os.rmdir(directory)


# --- the command line --------------------------------------------------------------------------


COMMANDS = {
    "look": look,
    "check": check,
    "install": install,
    "bring": bring,
    "fetch": fetch_first,
    "switch": switch,
    "prune": prune,
    "remove": remove,
}


def main(arguments=None):
    """Run one sub-command; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command")
    commands.required = True
    for command, words in (
        ("look", ("root", "version", "cuda", "sha256")),
        ("check", ("archive", "sha256")),
        ("install", ("root", "version", "cuda", "sha256", "archive")),
        ("bring", ("root", "version", "cuda", "sha256")),
        ("fetch", ("archive",)),
        ("switch", ("root", "version", "cuda")),
        ("prune", ("root", "version", "cuda")),
        ("remove", ("root",)),
    ):
        sub = commands.add_parser(command)
        if command == "install":
            sub.add_argument("--again", action="store_true")
        if command == "bring":
            sub.add_argument("--file")
            sub.add_argument("--download")
        for word in words:
            sub.add_argument(word)
    options = vars(parser.parse_args(arguments))
    command = options.pop("command")
    # Who ends this from outside ends it as an error does: nothing half-done stays.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        result = COMMANDS[command](**options)
    except RefusalError as error:
        sys.stderr.write("{}\n".format(error))
        return REFUSED
    sys.stdout.write(json.dumps(result or {}, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
