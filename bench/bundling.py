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

import yaml

from bench import cold

Say = Callable[[str], None]

# Where upstream no longer has all of the demo's stack: of Debian 11, whose support has ended, the
# security archive's index names files that are gone.
STAND_IN = {"tensorflow": "2.21"}
STAND_IN_PLATFORM = "debian13"
MOVED_ON = 5
VERIFY = (str(cold.BIN / "provision"), "bundle", "--verify")


class FailedError(SystemExit):
    """A command failed; `status` is its exit code."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


def _timed(command: Sequence[str]) -> dict[str, float]:
    """Seconds of a command, and the processor time of it and its children."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    wall = time.monotonic() - started
    if done.returncode:
        words = f"{' '.join(command[:3])} failed:\n{done.stderr[-2000:]}"
        raise FailedError(words, done.returncode)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": round(wall, 2), "cpu": round(cpu, 2)}


def make(project: Path, target: Path, source: Path) -> dict[str, float]:
    """Makes the bundle of a project's lock, of what the source has: a bundle, or a file."""
    given = ["--from", str(source)]
    program = [str(cold.BIN / "provision"), "bundle", str(target), "--project", str(project)]
    return _timed([*program, "--unsigned", *given])


def stand_in(folder: Path) -> Path:
    """A project of another stack than the demo's, locked: what a bundle can be made of today."""
    project = folder / "stand-in"
    variables = project / "lab" / "group_vars" / "gpu_hosts.yml"
    variables.parent.mkdir(parents=True)
    wish = {"gpu_stack": STAND_IN, "gpu_platform": STAND_IN_PLATFORM, "gpu_models": ["A100"]}
    variables.write_text(yaml.safe_dump(wish), "utf-8")
    hosts = {"gpu_hosts": {"hosts": {"gpu01": {"ansible_host": "192.0.2.1"}}}}
    (project / "lab" / "hosts.yml").write_text(yaml.safe_dump(hosts), "utf-8")
    _timed([str(cold.BIN / "provision"), "lock", "--project", str(project)])
    return project


def copied(source: Path, target: Path) -> dict[str, float]:
    """cp, to the disk as the bundle is."""
    return _timed(["sh", "-c", 'cp -r "$1" "$2" && sync', "cp", str(source), str(target)])


def hashed(folder: Path) -> dict[str, float]:
    """sha256sum of all files, one after the other."""
    script = 'find "$1" -type f -print0 | xargs -0 sha256sum >/dev/null'
    return _timed(["sh", "-c", script, "sha256sum", str(folder)])


def one_round(project: Path, earlier: Path, folder: Path, number: int) -> dict[str, float]:
    """The figures of one round, ours first in every second; each way removes what it wrote."""
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

    `archive`: the demo's cuDNN, which no server has. Where upstream no longer has the demo's stack,
    another stands in for it, and the result says so.
    """
    earlier = folder / "earlier"
    say("a bundle of the demo's stack, from outside")
    substitution: dict[str, Any] = {}
    try:
        fetched = make(project, earlier, archive)
    except FailedError as error:
        if error.status != MOVED_ON:
            raise
        say(f"{error} In its place: TensorFlow {STAND_IN['tensorflow']} on {STAND_IN_PLATFORM}")
        shutil.rmtree(earlier, ignore_errors=True)
        project = stand_in(folder)
        fetched = make(project, earlier, archive)
        substitution["stand_in"] = f"TensorFlow {STAND_IN['tensorflow']} on {STAND_IN_PLATFORM}"
    files = [path.stat().st_size for path in earlier.rglob("*") if path.is_file()]
    runs = []
    for number in range(rounds):
        runs.append(one_round(project, earlier, folder, number))
        say(f"bundle: {runs[-1]}")
    verified = _timed([*VERIFY, str(earlier)])
    shutil.rmtree(earlier)
    return {
        **substitution,
        "files": len(files),
        "bytes": sum(files),
        "fetched": fetched["wall"],
        "verified": verified["wall"],
        "runs": runs,
    }
