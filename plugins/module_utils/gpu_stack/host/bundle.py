"""Reads what a bundle says of itself, from a folder of the host or a web server.

Nothing in it is believed but what it has and of which lock it is: packages are judged by their
distribution's signature, the rest by the lock's hashes. A folder must be root's all the same: who
could change it while root reads would choose what apt and pip parse.
"""

from __future__ import annotations

import collections
import json
import os
import re
import stat

from ..type_checking import TYPE_CHECKING
from . import bundle_layout, roots_alone

if TYPE_CHECKING:
    from typing import Any, Mapping

    from .context import Context

OPTION = "gpu_bundle"
# Bytes; a bundle of a whole lock has about a hundred for each of some thousand files.
LIMIT = 16 * 1024 * 1024
# Seconds without a byte, and in all: whoever looks waits for it.
SILENCE = 10.0
LONGEST = 60.0
_FOLDER = re.compile(r"/[A-Za-z0-9._+@/-]*")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~+@/-]*)?")
_ANOTHER = (
    "`provision bundle` in this project makes one; without gpu_bundle each thing comes from its "
    "own place"
)

# files: {path: size}; by_hash: {SHA-256: path} of what is neither package nor wheel.
Bundle = collections.namedtuple("Bundle", "place lock platforms files by_hash")


class UnfitError(Exception):
    """The bundle can't be used; `hint` says what to do."""

    option = OPTION
    title = "bundle"
    # Whether nothing answered at all.
    silent = False
    # What to do where it is of another lock, or without the host's platform.
    of_this_lock = _ANOTHER
    of_platform = "`provision bundle DIR`, without --platform or with --platform {0}"

    def __init__(self, message: str, hint: str = _ANOTHER) -> None:
        super().__init__(f"{self.option}: {message}")
        self.hint = hint


def place_of(wish: str) -> str:
    """The address of what the option names, without a slash at its end; UnfitError."""
    wish = wish.strip()
    if "@" in wish.partition("://")[2].partition("/")[0]:
        message = "an address with a user in it, and a bundle is served without a login"
        raise UnfitError(message, "serve it to the hosts' network alone, and name it without one")
    if _ADDRESS.fullmatch(wish):
        return wish.rstrip("/")
    if _FOLDER.fullmatch(wish) and ".." not in wish.split("/") and wish.strip("/"):
        return "file://" + wish.rstrip("/")
    raise UnfitError(
        f"{wish!r} is no place of a bundle",
        "name a folder on the host by its absolute path, of letters, digits and ._+@- alone, as "
        "/media/stick/lab; or a web server's address, as http://192.0.2.1:8000/lab",
    )


def of_host(context: Context) -> Bundle | None:
    """The bundle that the host's options name, read once; None without one. UnfitError."""
    wish = context.options.get(OPTION)
    if wish and context.bundle is None:
        try:
            context.bundle = read(context, wish)
        except UnfitError as error:
            context.bundle = error
    if isinstance(context.bundle, UnfitError):
        raise context.bundle
    bundle: Bundle | None = context.bundle
    return bundle


def has_package(bundle: Bundle, name: str) -> bool:
    """Whether a bundle has a package of this name, in whatever version."""
    return any(path.rpartition("/")[2].startswith(name + "_") for path in bundle.files)


def read(context: Context, wish: str) -> Bundle:
    """The bundle at the place that the option names; UnfitError."""
    place = place_of(wish)
    if place.startswith("file://"):
        folder = place[len("file://") :]
        _check_folder(context, folder)
        bundle = parse(place, _from_folder(context, folder))
        _check_files(context, folder, bundle)
        return bundle
    return parse(place, _from_server(place))


def _check_folder(context: Context, folder: str) -> None:
    """UnfitError unless the folder is there, root's alone all the way, and readable for all."""
    if not context.isdir(folder):
        raise UnfitError(
            f"there is no folder {folder} on this host",
            "mount the disk, or copy the bundle there; for a folder of another machine name its "
            "web server",
        )
    for path in roots_alone.ways(*filter(None, (folder, context.resolve(folder)))):
        # A link's own mode lets everybody through.
        if not _roots(context, path, folder).st_mode & 0o001:
            raise UnfitError(
                f"not everybody may enter {path}, and apt reads as a user of its own, _apt",
                f"chmod o+x {path}; of a stick: mount -o umask=022",
            )
    _check_inside(context, folder)


def _roots(context: Context, path: str, folder: str) -> os.stat_result:
    """What `path` is, of a folder or below it; UnfitError unless it is root's alone."""
    info = context.lstat(path)
    if info is None:
        raise UnfitError(f"{path} can't be read")
    if roots_alone.others_change(info):
        raise UnfitError(
            f"others than root can change {path}, and so what root installs from {folder}",
            "mount it as root's (mount -o ro,uid=0,umask=022 for a stick), or copy the bundle to a "
            "folder of root's, as /srv (chown -R root:root, chmod -R go-w)",
        )
    return info


def _check_inside(context: Context, folder: str) -> None:
    """UnfitError unless all that hosts read in the folder is root's alone, and nothing is a link.

    apt and pip install from where a file lies: one that changes after its hash was compared would
    be installed as it is then.
    """
    todo = [f"{folder}/{name}" for name in bundle_layout.READ]
    while todo:
        path = todo.pop()
        if context.lstat(path) is None:
            continue  # what lacks is named by the manifest
        info = _roots(context, path, folder)
        if stat.S_ISLNK(info.st_mode):
            raise UnfitError(
                f"{path} is a link, which no bundle has: it may lead to what others can change",
                "copy the bundle as it was made",
            )
        todo += [f"{path}/{name}" for name in context.listdir(path)]  # none of a file


def _from_folder(context: Context, folder: str) -> bytes:
    for name in (bundle_layout.UNFINISHED, bundle_layout.DELTA):
        if context.lstat(f"{folder}/{name}") is not None:
            raise _other(name, folder)
    path = f"{folder}/{bundle_layout.MANIFEST}"
    if context.lstat(path) is None:
        raise _none(folder)
    data = context.read_bytes(path, LIMIT + 1)
    if data is None:
        raise UnfitError(f"{path} can't be read", "check the disk: dmesg")
    return data


def _other(name: str, place: str) -> UnfitError:
    if name == bundle_layout.DELTA:
        return UnfitError(
            f"{place} is a delta, and lacks what the earlier bundle has",
            "`provision bundle --apply DELTA BUNDLE` makes the whole one",
        )
    return UnfitError(
        f"the bundle {place} is unfinished", "the same `provision bundle` again resumes it"
    )


def _none(place: str) -> UnfitError:
    return UnfitError(f"{place} is no bundle, or an unfinished one: it has no manifest.json")


def _from_server(place: str) -> bytes:
    from . import download  # what the look of a host without such a bundle has no use for

    for name in (bundle_layout.UNFINISHED, bundle_layout.DELTA):
        try:
            download.to_memory(f"{place}/{name}", LIMIT, LONGEST, SILENCE)
        except download.DownloadError as error:
            if error.status is None:
                raise _unreached(place, str(error)) from error
        else:
            raise _other(name, place)
    try:
        return download.to_memory(f"{place}/{bundle_layout.MANIFEST}", LIMIT, LONGEST, SILENCE)
    except download.DownloadError as error:
        if error.status in (404, 410):
            raise _none(place) from error
        raise _unreached(place, str(error)) from error


def _unreached(place: str, why: str) -> UnfitError:
    return UnfitError(
        f"{place} can't be read from this host: {why}",
        "start its web server, and compare address, port and the ways between with "
        f"`curl -I {place}/{bundle_layout.MANIFEST}` on this host",
    )


# What reading another document than expected raises; OverflowError: a size of 1e999.
MISSHAPEN = (
    AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def parse(place: str, data: bytes) -> Bundle:
    """The bundle of these bytes; UnfitError where they are cut short, altered or of others."""
    where = f"{place}/{bundle_layout.MANIFEST}"
    if len(data) > LIMIT:
        raise UnfitError(f"{where} has more than {LIMIT} bytes, which no bundle's has")
    try:
        document = json.loads(data.decode("utf-8"))
        if document["format"] != bundle_layout.FORMAT:
            raise UnfitError(f"{where} has the format {document['format']!r} of another provision")
        files = {str(path): int(entry["size"]) for path, entry in document["files"].items()}
        by_hash = {
            str(entry["sha256"]): str(path)
            for path, entry in document["files"].items()
            if path.startswith(bundle_layout.FILES + "/")
        }
        lock, platforms = str(document["lock"]), [str(name) for name in document["platforms"]]
    except MISSHAPEN as error:
        message = f"{where} was cut short or altered, or is not of `provision bundle`"
        hint = "`provision bundle --verify` says what is wrong with it"
        raise UnfitError(message, hint) from error
    if not all(_is_inside(path) for path in files):
        raise UnfitError(f"{where} was altered: it names files outside of the bundle")
    return Bundle(place, lock, platforms, files, by_hash)


def _is_inside(path: str) -> bool:
    """Whether a path of the manifest stays inside of the bundle."""
    return path.isprintable() and not {"", ".", ".."} & set(path.split("/"))


def _check_files(context: Context, folder: str, bundle: Bundle) -> None:
    """UnfitError where files are missing or of another size; their hashes are compared in use."""
    wrong = [path for path, size in bundle.files.items() if _size(context, folder, path) != size]
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise UnfitError(
            f"the bundle {folder} is not whole: {sorted(wrong)[0]}{more} is missing or cut short",
            f"`provision bundle --verify {folder}` names all; copy it again",
        )


def _size(context: Context, folder: str, path: str) -> int | None:
    info = context.lstat(f"{folder}/{path}")
    return info.st_size if info is not None and stat.S_ISREG(info.st_mode) else None


def misfit(
    origin: Mapping[str, Any],
    digest: str | None,
    platform: Mapping[str, Any],
    unfit: type[UnfitError] = UnfitError,
) -> UnfitError | None:
    """Why a bundle or cache, {place, lock, platforms}, does not fit a host with this lock's digest
    and this platform, as an error of the class `unfit`; None where it fits.
    """
    named = f"the {unfit.title} {origin['place'].replace('file://', '')}"
    if origin["lock"] != digest:
        return unfit(
            f"{named} is of another lock: {origin['lock']}, and this project's is {digest}",
            unfit.of_this_lock,
        )
    name = bundle_layout.platform_id(dict(platform))
    if name not in origin["platforms"]:
        return unfit(
            f"{named} has nothing for {name}; it is for {', '.join(origin['platforms'])}",
            unfit.of_platform.format(name),
        )
    return None
