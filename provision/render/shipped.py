"""Files that go into the tree as they are: roles, the callback, the checks.

The roles' generated files are not copied but rendered, so that a tree never holds a stale spec.
"""

from __future__ import annotations

from collections.abc import Mapping

from provision.render import spec
from provision.roles import ROLES


def render(shipped: Mapping[str, bytes]) -> dict[str, bytes]:
    """`shipped`: path in the tree -> bytes, as `provision.shipped.read` gives them."""
    files = dict(shipped)
    for role in ROLES:
        files |= spec.render(role)
        page = f"roles/{role.name}/README.md"
        if page in files:
            files[page] = spec.readme(role, files[page].decode()).encode()
    return files
