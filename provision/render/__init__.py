"""Renders a lock to the files of a tree, all but the user's lab/. Pure; one module per artefact."""

from __future__ import annotations

from collections.abc import Mapping

from provision.lock import Lock
from provision.render import ansible_cfg, collection, playbooks, requirements, stacks


def render(lock: Lock, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Path -> bytes of every file of the tree, sorted. `files` are those of `collection.read`."""
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
