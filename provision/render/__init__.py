"""Lock -> {path: bytes}: the whole tree but the user's lab/. Pure; one module per artefact."""

from __future__ import annotations

from collections.abc import Mapping

from provision.lock import Lock
from provision.render import ansible_cfg, collection, playbooks, requirements, stacks


def render(lock: Lock, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Every file of the tree by its path, sorted. `files` are shipped as they are."""
    tree: dict[str, bytes] = {}
    for part in (
        playbooks.render(),
        ansible_cfg.render(),
        requirements.render(),
        stacks.render(lock),
        collection.render(files),
    ):
        tree |= part
    return {path: tree[path] for path in sorted(tree)}
