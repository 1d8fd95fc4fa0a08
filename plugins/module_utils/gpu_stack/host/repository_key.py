"""Takes the key of a package repository out of what holds it, by its fingerprint.

What comes over the network, or lies in an installer, may be any key. So gpg reads it in a directory
of its own, and of what came only the keys with the expected fingerprints are handed out. gpg also
finds a key by the fingerprint of a subkey, and anybody can make a key that has somebody else's as
its subkey: of what gpg hands out, every primary key must be an expected one.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import tempfile

from ..type_checking import TYPE_CHECKING
from . import apt, download, origin
from .context import run_program
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any

PREFIX = "provision-key."
PATIENCE = 60.0  # seconds for one call of gpg
SILENCE = 10.0  # seconds without a byte, of a file of a few kilobytes
LONGEST = 300.0
LARGEST = 1 << 20  # bytes
# Names under which a local repository holds its keys.
NAMES = ("*.pub", "*keyring.gpg", "*.asc")
BLOCK = "BEGIN PGP PUBLIC KEY BLOCK"
PRIMARY = re.compile(r"^pub:.*\n(?:(?!sub:).*\n)*?fpr:+([0-9A-F]{40}):", re.M)
FINGERPRINT = re.compile(r"^fpr:+([0-9A-F]{40}):", re.M)


class Words:
    """What a refusal names. place: the repository; owner: whose it is.

    given: how a person can give the key's text, or "". renewed: what to do where the owner has
    changed the key. untouched: what was left as it was; "" means all.
    """

    def __init__(self, place: str, owner: str, given: str, renewed: str, untouched: str) -> None:
        self.place = apt.bare(place)
        self.owner = owner
        self.given = f", or {given}" if given else ""
        self.renewed = renewed
        self.untouched = f"{untouched} was not touched." if untouched else "Nothing was changed."

    @property
    def clause(self) -> str:
        """The last sentence, where it ends another one."""
        return self.untouched.replace("Nothing", "nothing")


class Holder:
    """What holds the key: the first that is set of a text, a directory and an address."""

    def __init__(self, text: str, directory: str, url: str, ca_bundle: str) -> None:
        self.text = text
        self.directory = directory
        self.url = url
        self.ca_bundle = ca_bundle


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; in check mode no key. RefusalError."""
    if check_mode:
        return {"changed": False, "key": ""}
    words = Words(*(params[name] for name in ("place", "owner", "given", "renewed", "untouched")))
    holder = Holder(*(params[name] for name in ("text", "directory", "url", "ca_bundle")))
    return {"changed": False, "key": take(holder, params["fingerprints"], words)}


def take(holder: Holder, fingerprints: list[str], words: Words) -> str:
    """The armored text of the keys with these fingerprints; RefusalError without any."""
    if run_program(["gpg", "--version"], PATIENCE).rc != 0:
        raise RefusalError(
            f"gpg is not installed, so the fingerprint of {words.owner}'s key cannot be compared."
            f" Install gpg (apt install gpg){words.given}. {words.untouched}"
        )
    home = tempfile.mkdtemp(prefix=PREFIX)
    try:
        gpg = ["gpg", "--homedir", home, "--batch"]
        # Fails on a file that is no key at all; there is nothing to export then.
        run_program([*gpg, "--quiet", "--import", *_files(holder, home, words)], PATIENCE)
        # Without a name gpg would export all.
        export = [*gpg, "--quiet", "--armor", "--export", *fingerprints]
        key = run_program(export, PATIENCE).out if fingerprints else ""
        listed = run_program([*gpg, "--with-colons", "--list-keys"], PATIENCE).out
        primaries = _primaries(key, gpg, home)
    finally:
        # gpg's own processes take their sockets away meanwhile.
        shutil.rmtree(home, ignore_errors=True)
    if BLOCK not in key:
        there = ", ".join(FINGERPRINT.findall(listed)) or "no key"
        raise RefusalError(
            f"The key of {words.place} is not the one it has to be: expected"
            f" {' or '.join(fingerprints)}, found {there}. Where {words.owner} has changed its key,"
            f" {words.renewed}; {words.clause}"
        )
    strangers = primaries - {name.upper() for name in fingerprints}
    if strangers or not primaries:
        others = ", ".join(sorted(strangers)) or "none"
        raise RefusalError(
            f"The key of {words.place} is not the one it has to be: expected"
            f" {' or '.join(fingerprints)}, found {others}, a key that has it only as a subkey."
            f" Somebody between this host and {words.owner} may have made it: find out who serves"
            f" it; {words.clause}"
        )
    return key.strip()


def _primaries(key: str, gpg: list[str], home: str) -> set[str]:
    """The fingerprints of the primary keys in an armored text."""
    path = os.path.join(home, "exported.asc")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(key)
    shown = run_program([*gpg, "--with-colons", "--show-keys", path], PATIENCE).out
    return set(PRIMARY.findall(shown))


def _files(holder: Holder, home: str, words: Words) -> list[str]:
    """Paths of the files in which the key may be."""
    path = os.path.join(home, "downloaded.pub")
    if holder.text:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(holder.text.strip() + "\n")
        return [path]
    if holder.directory:
        return _keys_in(holder.directory)
    if origin.current().place:
        raise RefusalError(
            f"The key of {words.place} is not in the lock, and the bundle that this run takes"
            f" everything from has no more than is locked. {words.untouched}"
        )
    try:
        with download.surroundings("", holder.ca_bundle):
            download.to_file(holder.url, path, LARGEST, LONGEST, SILENCE)
    except download.DownloadError as error:
        reason = apt.bare(str(error))
        raise RefusalError(
            f"The key of {words.place} could not be fetched from {apt.bare(holder.url)}: {reason}."
            f" {words.untouched}"
        ) from error
    return [path]


def _keys_in(directory: str) -> list[str]:
    """The files of a directory that are keys by their names."""
    if not os.path.isdir(directory):
        return []
    return sorted(
        entry.path
        for entry in os.scandir(directory)
        if entry.is_file(follow_symlinks=False)
        and any(fnmatch.fnmatch(entry.name, name) for name in NAMES)
    )
