"""The headers of kernels that DKMS builds the driver's module with."""

from __future__ import annotations

import re

from ...host import apt_commands
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CANDIDATE = re.compile(r"^(\S+):\n +Installed: .*\n +Candidate: [^(\s]", re.M)


class Headers:
    """Packages of headers by what they follow.

    kernels: those of the kernels to build for. images: those that follow the installed
    metapackages of images. flavour: that of the running kernel's flavour, where there is none of
    them. platform: where apt has not even that one.
    """

    def __init__(
        self,
        kernels: Sequence[str] = (),
        images: Sequence[str] = (),
        flavour: str = "",
        platform: str = "",
    ) -> None:
        self.kernels = list(kernels)
        self.images = list(images)
        self.flavour = flavour
        self.platform = platform


def installable(policy: str) -> set[str]:
    """Names of the packages that apt has, of the answer of `apt-cache policy`."""
    return set(CANDIDATE.findall(policy))


def offered(headers: Headers) -> list[str]:
    """Those to install of what apt has."""
    names = [headers.flavour, headers.platform, *headers.kernels, *headers.images]
    policy = apt_commands.run(["apt-cache", "policy", *filter(None, names)]).out
    candidates = installable(policy)
    following = [name for name in headers.images or [headers.flavour] if name in candidates]
    return (following or [headers.platform]) + [
        name for name in headers.kernels if name in candidates
    ]
