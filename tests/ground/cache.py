"""Built things by what they are made of: a change of a source or of a recipe is another entry."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from provision.locallab.machine import locked
from tests.ground import debian

UNUSED = 24 * 3600  # after that an entry of an older recipe goes


def kept(
    name: str,
    recipes: Iterable[str | Path],
    inputs: Iterable[object],
    fill: Callable[[Path], None],
) -> Path:
    """The directory that `fill` makes of these inputs by these recipes; made once, whole or not."""
    digest = hashlib.sha256()
    for recipe in recipes:
        # Not the bytes: a comment must not cost minutes.
        digest.update(ast.dump(ast.parse(Path(recipe).read_text("utf-8"))).encode())
    for value in inputs:
        digest.update(repr(value).encode())
    top = debian.directory()
    place = top / f"{name}-{digest.hexdigest()[:12]}"
    with locked(top / f"{name}.lock"):
        if not place.exists():
            _remove_unused(top, name)
            work = top / f"{name}.part"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            fill(work)
            work.rename(place)
        os.utime(place)
    return place


def _remove_unused(top: Path, name: str) -> None:
    for old in top.glob(f"{name}-" + "[0-9a-f]" * 12):
        if time.time() - old.stat().st_mtime > UNUSED:
            shutil.rmtree(old, ignore_errors=True)
