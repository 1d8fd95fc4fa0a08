"""Part (j): a bundle of the demo's stack, against `cp` and `sha256sum` of the same bytes.

All of it is at hand in an earlier bundle, so the line is not in it: what is measured is the disk,
the hashing and our own reading of the indices.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import cold

Say = Callable[[str], None]

VERIFY = (str(cold.BIN / "provision"), "bundle", "--verify")


def _timed(command: Sequence[str]) -> dict[str, float]:
    """Seconds of a command, and the processor time of it and its children."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    wall = time.monotonic() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:3])} failed:\n{done.stderr[-2000:]}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": round(wall, 2), "cpu": round(cpu, 2)}


def make(project: Path, target: Path, source: Path) -> dict[str, float]:
    """Makes the bundle of a project's lock, of what the source has: a bundle, or a file."""
    given = ["--from", str(source)]
    program = [str(cold.BIN / "provision"), "bundle", str(target), "--project", str(project)]
    return _timed([*program, "--unsigned", *given])


def copied(source: Path, target: Path) -> dict[str, float]:
    """cp, to the disk as the bundle is."""
    return _timed(["sh", "-c", 'cp -r "$1" "$2" && sync', "cp", str(source), str(target)])


def hashed(folder: Path) -> dict[str, float]:
    """sha256sum of all files, one after the other."""
    script = 'find "$1" -type f -print0 | xargs -0 sha256sum >/dev/null'
    return _timed(["sh", "-c", script, "sha256sum", str(folder)])


def one_round(project: Path, earlier: Path, folder: Path, number: int) -> dict[str, float]:
    """All three, ours first in every second round. What was written goes before the next writes."""
    figures: dict[str, float] = {}

    def ours() -> None:
        made = make(project, folder / "made", earlier)
        figures.update(ours=made["wall"], cpu=made["cpu"])
        shutil.rmtree(folder / "made")
        os.sync()

    def theirs() -> None:
        figures["cp"] = copied(earlier, folder / "copied")["wall"]
        figures["sha256sum"] = hashed(folder / "copied")["wall"]
        shutil.rmtree(folder / "copied")
        os.sync()

    for way in (ours, theirs) if number % 2 else (theirs, ours):
        way()
    return figures


def measure(project: Path, folder: Path, *, archive: Path, rounds: int, say: Say) -> dict[str, Any]:
    """Fetches the bundle once, which is not counted; then all rounds.

    `archive`: the demo's cuDNN, which no server has.
    """
    earlier = folder / "earlier"
    say("a bundle of the demo's stack, from outside")
    fetched = make(project, earlier, archive)
    files = [path.stat().st_size for path in earlier.rglob("*") if path.is_file()]
    runs = []
    for number in range(rounds):
        runs.append(one_round(project, earlier, folder, number))
        say(f"bundle: {runs[-1]}")
    verified = _timed([*VERIFY, str(earlier)])
    shutil.rmtree(earlier)
    return {
        "files": len(files),
        "bytes": sum(files),
        "fetched": fetched["wall"],
        "verified": verified["wall"],
        "runs": runs,
    }
