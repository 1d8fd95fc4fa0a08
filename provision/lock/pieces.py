"""What the parts of a lock are written with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provision.upstream.packages import Package, Repository


def repository_data(repository: Repository) -> dict[str, Any]:
    """A repository as the lock has it."""
    return {
        "url": repository.url,
        "suite": repository.suite,
        "key": repository.key,
        "fingerprints": list(repository.fingerprints),
    }


def versions(packages: Mapping[str, Package]) -> dict[str, str]:
    """{name: version} of packages."""
    return {name: package.version for name, package in packages.items()}
