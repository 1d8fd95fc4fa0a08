"""Brings the repository of CUDA's local installer to a host, or removes it: the module's steps.

The package is unpacked beside the system and its repository moved to its place: nothing of it is
run, dpkg knows no package that would bring the repository's own list of apt back, and removing it
again is removing a directory. A repository that is there and not ours is used as it is: apt takes
only what the key signs.
"""

from __future__ import annotations

import collections
import glob
import hashlib
import json
import os
import time
from urllib.parse import urlsplit

from ...host import apt, background, directory_entries, download, origin, roots_alone
from ...host.context import run_program
from ...host.kept_names import free_name
from ...host.process_name import called
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

JOB = "/run/provision/cuda"
# In /proc/PID/comm of the process behind other tasks: scripts/fault_watch.py looks for it.
PROCESS = "provision-cuda"
TRIES = 4
PAUSE = 5.0
# Statuses of HTTP that another try does not change.
FINAL = (403, 404)
HELPER = ("/usr/lib/apt/apt-helper", "--quiet")
TIMEOUTS = ("--option", "Acquire::http::Timeout=60", "--option", "Acquire::https::Timeout=60")
UNPACKING = 3600.0  # seconds; 2 GB
BEGIN = b"!<arch>"
UNTOUCHED = "CUDA was not touched."
MARK = ".provision"
BLOCK = 1 << 20


class Installer(
    collections.namedtuple("Installer", "url sha256 directory repository ca_bundle begun")
):
    """One installer. directory: where it is downloaded to; repository: the place of its own.

    begun: the name of its download behind other tasks.
    """

    __slots__ = ()

    @property
    def file(self) -> str:
        return f"{self.directory}/{os.path.basename(urlsplit(self.url).path)}"

    @property
    def bare(self) -> str:
        """The address without a password."""
        return apt.bare(self.url)

    @property
    def new(self) -> str:
        """Where the package is unpacked."""
        return f"{self.repository}.provision-new"


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; raises RefusalError."""
    try:
        return _settle(params, check_mode)
    except OSError as error:
        raise RefusalError(f"The local installer could not be brought: {error}.") from error


def _settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    names = ("url", "directory", "repository", "ca_bundle")
    url, directory, repository, ca_bundle = (params[name] for name in names)
    sha256 = (params["sha256"] or "").lower()
    url = origin.current().file(sha256, url)
    file = Installer(url, sha256, directory, repository, ca_bundle, "").file
    installer = Installer(url, sha256, directory, repository, ca_bundle, f"{file}.begun")
    if params["state"] == "absent":
        return absent(installer, check_mode)
    refuse_others_place(installer)
    if params["state"] == "trusted":
        return {"changed": False}
    return (begin if params["begin"] else present)(installer, check_mode)


def refuse_others_place(installer: Installer) -> None:
    """RefusalError where others than root can change the installer, or what leads to it.

    They could replace it between its SHA-256 and its unpacking by root.
    """
    # As it is named, and as links lead there.
    ways = roots_alone.ways(installer.file, os.path.realpath(installer.file))
    others = [path for path in ways if _is_others(path)]
    if others:
        raise RefusalError(
            f"cuda_installer_directory is {installer.directory}, and others than root can change"
            f" {' and '.join(others)}: they could replace the installer before root unpacks it."
            " Expected a directory to which root alone can write, with no installer of another"
            f" owner in it, as /var/cache/provision. {UNTOUCHED}"
        )


def _is_others(path: str) -> bool:
    try:
        info = os.lstat(path)
    except OSError:  # root makes it
        return False
    return info.st_uid != 0 or (not os.path.islink(path) and bool(info.st_mode & 0o022))


def there(installer: Installer) -> bool:
    """Whether a repository is in its place: this installer's, or one that is not this role's."""
    mark = _mark(installer)
    return _has_index(installer.repository) and mark in (None, installer.sha256)


def _has_index(directory: str) -> bool:
    names = ("Release", "InRelease")
    return any(_is_file(os.path.join(directory, name)) for name in names)


def _is_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _mark(installer: Installer) -> str | None:
    """The SHA-256 of the installer that the repository is of; None of one that is not ours."""
    try:
        with open(os.path.join(installer.repository, MARK), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return None


def begin(installer: Installer, check_mode: bool = False) -> dict[str, Any]:
    """Starts the download in the background, unless a repository or an installer is there."""
    places = (installer.repository, installer.directory)
    index = any(_has_index(place) for place in places)
    # A password would stand in the list of processes.
    if check_mode or index or _is_file(installer.file) or "@" in installer.url:
        return {"changed": False, "begun": False}
    try:
        _make_directory(installer.directory)
        background.begin(JOB, lambda: _fetch_behind(installer))
    except (background.BusyError, OSError):  # `present` does it
        return {"changed": False, "begun": False}
    return {"changed": False, "begun": True}


def _fetch_behind(installer: Installer) -> int:
    """apt's own downloader: it checks the hash, goes through apt's proxy, and is on every host."""
    bundle = f"Acquire::https::CaInfo={installer.ca_bundle}"
    argv = [
        *HELPER, *TIMEOUTS, *(["--option", bundle] if installer.ca_bundle else []),
        "download-file", installer.url, installer.begun, f"SHA256:{installer.sha256}",
    ]  # fmt: skip
    with called(PROCESS):
        return int(run_program(argv, download.LONGEST, dict(os.environ, LC_ALL="C")).rc)


def present(installer: Installer, check_mode: bool = False) -> dict[str, Any]:
    """Downloads and unpacks the installer, unless a repository is there."""
    if check_mode:
        if there(installer):
            return {"changed": False}
        message = f"Would download {installer.bare} and unpack its repository"
        return {"changed": True, "msg": message}
    changed = _take_up(installer)
    if there(installer):
        return {"changed": changed}
    _make_directory(installer.directory)
    if not os.path.exists(installer.file) or _sha256(installer.file) != installer.sha256:
        _download(installer)
    saved = _unpack(installer)
    return {"changed": True, "saved": saved}


def _take_up(installer: Installer) -> bool:
    """Waits for the background job; True where it brought the installer."""
    try:
        brought = background.result(JOB) == 0
    except background.EndedError:  # `present` does it, or reports what prevents it
        brought = False
    if brought and os.path.exists(installer.begun):
        os.replace(installer.begun, installer.file)
        return True
    for path in (installer.begun, f"{installer.begun}.FAILED"):
        directory_entries.remove(path)
    return False


def _make_directory(path: str) -> None:
    os.makedirs(path, mode=0o755, exist_ok=True)
    os.chmod(path, 0o755)  # noqa: S103  everybody may look
    if os.geteuid() == 0:
        os.chown(path, 0, 0)


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def _download(installer: Installer) -> None:
    """Downloads the installer beside its name, and compares its SHA-256; RefusalError."""
    part = f"{installer.file}.part"
    _fetch(installer, part)
    digest = _sha256(part)
    if digest != installer.sha256:
        with open(part, "rb") as file:
            begins = file.read(len(BEGIN))
        directory_entries.remove(part)
        if begins != BEGIN:
            words = json.dumps(begins.decode("utf-8", "replace").rstrip("\r\n"))
            reason = (
                f"what it sent is no Debian package but begins with {words} (a login or error"
                " page?)"
            )
        else:
            reason = f"its SHA-256 is {digest}, and cuda_installer says {installer.sha256}"
        raise RefusalError(f"{installer.bare}: {reason}. It was removed; {UNTOUCHED}")
    os.chmod(part, 0o644)
    os.replace(part, installer.file)


def _fetch(installer: Installer, part: str) -> None:
    reason = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE)
        directory_entries.remove(part)
        try:
            with download.surroundings("", installer.ca_bundle):
                download.to_file(installer.url, part, download.ARCHIVE)
            return
        except download.DownloadError as error:
            reason = apt.bare(str(error))
            if error.status in FINAL or isinstance(error, download.LimitError):
                break
    directory_entries.remove(part)
    raise RefusalError(
        f"{installer.bare}: could not be fetched: {reason}. Check the address, the network of this"
        f" host and its proxy, or name another address in cuda_installer_url. {UNTOUCHED}"
    )


def _unpack(installer: Installer) -> list[str]:
    """Moves the package's repository to its place; under which names others' was kept."""
    directory_entries.remove(installer.new)  # what an interrupted run left
    if _mark(installer) is not None:
        directory_entries.remove(installer.repository)
    saved = []
    if os.path.lexists(installer.repository):
        saved.append(free_name(installer.repository))
        os.rename(installer.repository, saved[0])
    try:
        argv = ["dpkg-deb", "--extract", installer.file, installer.new]
        answer = run_program(argv, UNPACKING)
        if answer.rc != 0:
            raise RefusalError(
                f"{installer.bare} could not be unpacked: {answer.err.strip()}. {UNTOUCHED}"
            )
        unpacked = _only_repository(installer)
        _write_mark(unpacked, installer.sha256)
        os.rename(unpacked, installer.repository)
        directory_entries.sync(os.path.dirname(installer.repository))
    finally:
        directory_entries.remove(installer.new)
    return saved


def _only_repository(installer: Installer) -> str:
    paths = sorted(glob.glob(f"{glob.escape(installer.new)}/var/cuda-repo-*"))
    directories = [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]
    if len(directories) != 1:
        names = " and ".join(os.path.basename(path) for path in directories)
        raise RefusalError(
            f"{installer.bare} is not a local installer of CUDA: it holds"
            f" {names or 'no /var/cuda-repo-*'}. {UNTOUCHED}"
        )
    return directories[0]


def _write_mark(directory: str, sha256: str) -> None:
    """Marks the repository as this role's, once all of it is on the disk."""
    directory_entries.flush(directory)
    path = os.path.join(directory, MARK)
    directory_entries.remove(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, 0o644)
        file.write(f"{sha256}\n")
        file.flush()
        os.fsync(handle)
    directory_entries.sync(directory)


def absent(installer: Installer, check_mode: bool = False) -> dict[str, Any]:
    """Removes the installer and, where it is this role's, its repository."""
    paths = [installer.file, f"{installer.file}.part", installer.begun, installer.new]
    if _mark(installer) is not None:
        paths.append(installer.repository)
    removed = [path for path in paths if os.path.lexists(path)]
    if not check_mode:
        for path in removed:
            directory_entries.remove(path)
    return {"changed": bool(removed), "removed": removed}
