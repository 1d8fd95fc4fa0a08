"""Files that go into the tree as they are: the collection, the checks.

The collection's generated files are not copied but rendered: a tree never holds a stale spec.
"""

from __future__ import annotations

from collections.abc import Mapping

from provision.collection import IN_TREE
from provision.render import spec
from provision.roles import ROLES, SITE

# The options' defaults, by where the collection's plugins read them; and the checks.
OPTIONS = "plugins/plugin_utils/options.json"
CHECKS_OPTIONS = "verify/options.json"


def generated() -> dict[str, bytes]:
    """What is generated of the collection beside the roles' own files, by the path in it."""
    return {OPTIONS: spec.looked_at((*ROLES, SITE))}


def render(shipped: Mapping[str, bytes]) -> dict[str, bytes]:
    """`shipped`: path in the tree -> bytes, as `provision.collection.read` gives them."""
    files = dict(shipped)
    made = generated()
    for role in ROLES:
        made |= spec.render(role)
        page = f"roles/{role.name}/README.md"
        if IN_TREE + page in files:
            text = files[IN_TREE + page].decode()
            made[page] = spec.readme(role, text).encode()
    files[CHECKS_OPTIONS] = made[OPTIONS]
    return files | {IN_TREE + path: data for path, data in made.items()}
