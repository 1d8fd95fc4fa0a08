"""The options that every role with exact packages has."""

from __future__ import annotations

from typing import Any

from provision.roles.base import option

_REINSTALL = (
    "Packages to install again though their version is right; the plan fills it where files of a "
    "package are missing or changed."
)
_CONFFILES = (
    "Configuration files of these packages to restore; the old ones are kept as .dpkg-old. Only a "
    "deep look fills it."
)
_MODES = (
    "Directories and configuration files of these packages whose mode or owner is wrong, each with "
    "its mode (`/usr/include 0755`); installing a package again leaves both as they are."
)
_CHECKSUMS = (
    "SHA-256 of each package file, as {{name: 64 hex digits}}. Names without one are covered by "
    "apt's signed {} alone."
)


def reinstall() -> Any:
    """Packages whose files are damaged."""
    return option([], repair=True, description=_REINSTALL)


def conffiles() -> Any:
    """Configuration files of packages that are damaged."""
    return option([], repair=True, description=_CONFFILES)


def modes() -> Any:
    """What of packages has another mode or owner."""
    return option([], repair=True, description=_MODES)


def checksums(index: str) -> Any:
    """Hashes of package files, beside apt's signed `index` or indices."""
    return option({}, identity=True, description=_CHECKSUMS.format(index))
