"""The tree's collection and checks: shipped files unchanged, generated files rendered.

Generated files are never copied, so that a tree has no stale spec.
"""

from __future__ import annotations

from collections.abc import Mapping

from provision.collection import IN_TREE
from provision.render import spec
from provision.roles import ALL, ROLES, SITE

# The options' defaults: where the collection's plugins read them, and where the checks do.
OPTIONS = "plugins/plugin_utils/options.json"
CHECKS_OPTIONS = "verify/options.json"


def generated() -> dict[str, bytes]:
    """Path in the collection -> bytes of the generated files outside the roles."""
    return {OPTIONS: spec.looked_at((*ROLES, SITE))}


def render(shipped: Mapping[str, bytes]) -> dict[str, bytes]:
    """Path -> bytes of the tree's files, from those of `provision.collection.read`."""
    files = dict(shipped)
    rendered = generated()
    for role in ALL:
        rendered |= spec.render(role)
        page = f"roles/{role.name}/README.md"
        if IN_TREE + page in files:
            text = files[IN_TREE + page].decode()
            rendered[page] = spec.readme(role, text).encode()
    files[CHECKS_OPTIONS] = rendered[OPTIONS]
    return files | {IN_TREE + path: data for path, data in rendered.items()}
