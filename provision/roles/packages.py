"""The options that every role with exact packages has."""

from __future__ import annotations

from typing import Any

from provision.roles.base import option

_REINSTALL = (
    "Packages to reinstall even if their version is right; the plan sets it if files of a package "
    "are missing or changed."
)
_CONFFILES = (
    "Configuration files of these packages to restore; the old ones are kept as .dpkg-old. Set "
    "only by a deep look."
)
_MODES = (
    "Directories and configuration files of these packages with a wrong mode or owner, each with "
    "its correct mode (`/usr/include 0755`); reinstalling a package fixes neither."
)
_CHECKSUMS = (
    "SHA-256 of each package file, as {{name: 64 hex digits}}. Packages without one are verified "
    "only by apt's signed {}."
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
