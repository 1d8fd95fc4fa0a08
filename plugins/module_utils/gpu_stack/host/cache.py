"""Reads what the fleet's cache says of itself (role artifact_cache).

A cache has the layout of a bundle and a manifest as a bundle's, so a run takes one as the other.
Unlike a bundle it has its files from the servers that the lock names, which the host may know too.
"""

from __future__ import annotations

import contextlib

from . import bundle, bundle_layout
from .origin import DIRECT

OPTION = "gpu_cache"
FALLBACK = "gpu_cache_fallback"
_BRING = (
    "`ansible-playbook cache.yml -i lab` in this project brings the cache to this lock; a run "
    "with --limit leaves it as it is, unless that names it: --limit gpu07,gpu_cache"
)


class UnfitError(bundle.UnfitError):
    """The cache can't be used. silent: it did not answer at all."""

    option = OPTION
    title = "cache"
    of_this_lock = of_platform = _BRING

    def __init__(self, message: str, hint: str, *, silent: bool = False) -> None:
        super().__init__(message, hint)
        self.silent = silent


def place_of(wish: str) -> str:
    """The cache's address, without a slash at its end; UnfitError."""
    with contextlib.suppress(bundle.UnfitError):
        place = bundle.place_of(wish)
        if place.startswith(("http://", "https://")):
            return place
    raise UnfitError(
        f"{wish!r} is no address of a cache", "expected http://cache01:8088, without a login"
    )


def read(wish: str) -> bundle.Bundle:
    """What the cache at this address has; UnfitError."""
    from . import download  # what the look of a host without a cache has no use for

    place = place_of(wish)
    url = f"{place}/{bundle_layout.MANIFEST}"
    try:
        data = download.to_memory(url, bundle.LIMIT, bundle.LONGEST, bundle.SILENCE)
    except download.DownloadError as error:
        if error.status in (404, 410):
            raise UnfitError(
                f"what answers at {place} is no cache: it has no {bundle_layout.MANIFEST}",
                "`ansible-playbook cache.yml -i lab` brings the hosts of the group gpu_cache",
            ) from error
        raise UnfitError(
            f"the cache {place} does not answer this host: {error}",
            "`systemctl status gpu-artifact-cache` on the cache's host, and the ways between; with "
            f"{FALLBACK}: {DIRECT} hosts go on without it",
            silent=error.status is None or error.status >= 500,
        ) from error
    try:
        return bundle.parse(place, data)
    except bundle.UnfitError as error:
        raise UnfitError(str(error).partition(": ")[2], error.hint) from error
