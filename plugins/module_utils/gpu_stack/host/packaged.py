"""Modules of this package that a role writes to the host as files."""

from __future__ import annotations

import pkgutil


def text(package: str, name: str) -> str:
    """The text of a module's file in a package, from the archive that Ansible has sent."""
    content = pkgutil.get_data(package, name)
    assert content is not None  # noqa: S101 Ansible's loader has it
    return content.decode("utf-8")
