"""Where a run fetches from: the addresses that the lock and the options name, or a bundle instead.

Each address that a host asks goes through `current`: a step that named one past it would stop in a
lab without a network, or bring a hundred hosts to ask a server that they were to leave alone. What
is fetched is judged as ever, by the distribution's signatures and the lock's hashes, so whoever
serves it need not be believed.

apt is led there by its environment and not by its files: APT_CONFIG of the play names a
configuration with sources, lists and caches of its own. The host's sources are not asked, and
become what they would be without a bundle.
"""

from __future__ import annotations

import collections
import json
import os
from urllib.parse import quote

from ..type_checking import TYPE_CHECKING
from . import bundle_layout, regular
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any

# On a disk and not in memory: the lists of a distribution take a hundred megabytes, and a host
# that is rebooted in the middle of a run goes on with them.
DIRECTORY = "/var/lib/provision/origin"
# What APT_CONFIG names (plugins/filter/origin.py).
CONFIGURATION = DIRECTORY + "/apt.conf"
NOTE = DIRECTORY + "/origin.json"
_LONGEST = 16 * 1024**2
# What hosts do without the fleet's cache: they go to the lock's own addresses.
DIRECT = "direct"


class Origin(collections.namedtuple("Origin", "place files fallback")):
    """Where things come from. place: a bundle's address without a slash at its end, or "" where
    everything comes from where it is named. files: {SHA-256: path in the bundle}. fallback: of the
    fleet's cache what a host does without it, "stop" or "direct"; "" of a bundle.
    """

    __slots__ = ()

    @property
    def goes_on(self) -> bool:
        """Whether what the place does not give is fetched from where it is named."""
        return bool(self.fallback == DIRECT)

    def has(self, sha256: str) -> bool:
        """Whether the file with this hash is fetched there. A cache has what the lock names, and an
        option may name something else.
        """
        return bool(self.place) and (not self.fallback or sha256 in self.files)

    def archive(self, url: str) -> str:
        """The address of the package archive that is at `url`."""
        return f"{self.place}/{bundle_layout.archive(url)}" if self.place else url

    def file(self, sha256: str, url: str) -> str:
        """The address of the file with this hash, which is at `url`."""
        if not self.has(sha256):
            return url
        return f"{self.place}/{quote(self.files.get(sha256) or bundle_layout.file(sha256, url))}"

    def pip(self, options: dict[str, Any]) -> dict[str, Any]:
        """pip's options, with the index in place of the indices that they name."""
        if not self.place:
            return options
        index = f"{self.place}/{bundle_layout.SIMPLE}"
        led = dict(options, index_url=index, extra_index_urls=[], proxy="", alone=True)
        return dict(led, otherwise=options) if self.goes_on else led


UPSTREAM = Origin("", {}, "")


def current() -> Origin:
    """Where this run fetches from, by its environment. RefusalError where that can't be read."""
    if os.environ.get("APT_CONFIG") != CONFIGURATION:
        return UPSTREAM
    try:
        handle = regular.open_regular(NOTE)
        try:
            note = json.loads(regular.read(handle, _LONGEST))
        finally:
            os.close(handle)
        return Origin(note["place"], note["files"], note["fallback"])
    except (OSError, ValueError, KeyError) as error:
        raise RefusalError(
            f"{NOTE}, by which this run knows where to fetch from, can't be read: {error}. Run"
            " again, which writes it anew."
        ) from error
