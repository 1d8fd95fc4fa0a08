"""Fetches cuDNN's archive from the first address that has it.

Addresses and proxies may hold a password, so they appear in no command line, no message and no
environment that another program gets.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile

from ...host import download
from ...host.download import LONGEST
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import layout
from .archive import OtherFileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")

DOWNLOADS = "/var/tmp"  # noqa: S108  the disk's, not memory's; mkdtemp makes a directory of its own
# By this prefix a run finds the downloads of killed ones.
DOWNLOAD_PREFIX = "provision-cudnn."
ARCHIVE = "archive"
PASSWORD = re.compile("//[^/ ]*@")
# The default of cudnn_urls, which is replaced by the address of the version at hand.
DEFAULT_URL = (
    "https://developer.download.nvidia.com/compute/redist/cudnn/v8.1.0/"
    "cudnn-11.2-linux-x64-v8.1.0.77.tgz"
)
OLD_URL = (
    "https://developer.download.nvidia.com/compute/redist/cudnn/v{short}/"
    "cudnn-{cuda}-linux-x64-v{version}.tgz"
)
NEW_URL = (
    "https://developer.download.nvidia.com/compute/cudnn/redist/cudnn/linux-x86_64/"
    "cudnn-linux-x86_64-{version}_cuda{cuda}-archive.tar.xz"
)


def addresses(urls: list[str], version: str, cuda: str) -> list[str]:
    """The addresses, the default one replaced by NVIDIA's own for this version.

    Archives and their addresses have another form from 8.3 on.
    """
    form = OLD_URL if layout.is_of_old_form(version) else NEW_URL
    short = ".".join(version.split(".")[:3])
    own = form.format(short=short, version=version, cuda=cuda)
    return [url.replace(DEFAULT_URL, own) for url in urls]


def without_password(text: str) -> str:
    return PASSWORD.sub("//", text)


class NowhereError(RefusalError):
    """No address gave the archive."""


def directory() -> str:
    """Creates a private directory for a download; `forget` removes it."""
    return tempfile.mkdtemp(prefix=DOWNLOAD_PREFIX, dir=DOWNLOADS)


def forget(archive: str) -> None:
    """Removes the directory of a download, if `directory` created it."""
    place = os.path.dirname(archive)
    if os.path.basename(place).startswith(DOWNLOAD_PREFIX) and os.path.dirname(place) == DOWNLOADS:
        shutil.rmtree(place, ignore_errors=True)


def remove_remains() -> list[str]:
    """Removes downloads of killed runs, a gigabyte each; returns their paths."""
    removed = []
    for name in sorted(os.listdir(DOWNLOADS)):
        path = os.path.join(DOWNLOADS, name)
        if not name.startswith(DOWNLOAD_PREFIX):
            continue
        info = os.lstat(path)
        if stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid():
            shutil.rmtree(path)
            removed.append(path)
    return removed


def first(urls: list[str], use: Callable[[str], Result]) -> Result:
    """Returns `use(archive)` for the first address whose file it accepts.

    Raises NowhereError, which names every address and its failure.
    """
    failures = []
    for url in urls:
        archive = os.path.join(directory(), ARCHIVE)
        try:
            fetch(url, archive)
            return use(archive)
        except OtherFileError as error:
            reason = str(error).replace(archive, "what it sent")
            failures.append(f"{without_password(url)}: {without_password(reason)}.")
        finally:
            forget(archive)
    raise NowhereError(
        f"No address in cudnn_urls gave the archive. {' '.join(failures)} Download it by hand and"
        " name it in cudnn_controller_file or cudnn_host_file, or set cudnn_proxy."
    )


def fetch(url: str, path: str) -> None:
    """Downloads `url` to a file; raises OtherFileError on failure."""
    try:
        download.to_file(url, path, download.ARCHIVE, LONGEST)
    except download.DownloadError as error:
        raise OtherFileError(str(error)) from error
