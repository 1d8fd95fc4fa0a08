"""Somebody's program that has a library open, as TensorFlow's user has."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROGRAM = (
    "import mmap, sys; stream = open(sys.argv[1], 'rb'); "
    "held = mmap.mmap(stream.fileno(), 0, prot=1); print(1, flush=True); input()"
)


@contextlib.contextmanager
def mapped(library: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with the library in its memory; nobody may have ended it at the block's end."""
    job = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(library)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stdout is not None
    job.stdout.readline()
    try:
        yield job
    finally:
        job.communicate("\n")
    assert job.returncode == 0
