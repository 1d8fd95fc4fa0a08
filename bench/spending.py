"""Where the seconds of a cold run go, and what its resources take at least.

The limits are the same bytes received again, the same archives unpacked again and the same module
compiled again on the host by hand, each alone and with all processors: no way is faster than the
slowest of them, and one after the other they are what a script can't go below.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

# {what the time is spent on: the modules that do it}; the rest is "small steps".
KINDS = {
    "packages": (
        *("exact_packages", "driver_packages", "named_packages", "unfinished_packages"),
        *("package_lists", "repository_trial", "archive_keys", "apt", "cuda_installer"),
    ),
    "driver module": ("driver_module", "driver_signed_module", "driver_loaded"),
    "cuDNN": ("cudnn_archive",),
    "wheels": ("gpu_venv",),
    "looks": ("gpu_state",),
    "downloads": ("get_url", "origin"),
}
SMALL, BETWEEN = "small steps", "Ansible between them"
# A task of any other module that takes longer is no small step: it is told by its own name.
LONG_SECONDS = 5.0


def spent(results: Sequence[Mapping[str, Any]], wall: float) -> dict[str, float]:
    """Seconds by what they were spent on, the longest first; together they are the wall clock.

    `results` are a single host's events of modules until everything was installed.
    """
    of = {module: kind for kind, modules in KINDS.items() for module in modules}
    told: dict[str, float] = {}
    for event in results:
        seconds = float(event["seconds"])
        kind = of.get(str(event["action"]).rpartition(".")[2])
        if kind is None:
            kind = SMALL if seconds < LONG_SECONDS else str(event.get("task", SMALL))
        told[kind] = told.get(kind, 0.0) + seconds
    told[BETWEEN] = max(wall - sum(told.values()), 0.0)
    rows = sorted(told.items(), key=lambda row: -row[1])
    return {kind: round(seconds, 1) for kind, seconds in rows}


# What bench/ways/limits.sh tells, in its order, and between which of its moments.
MOMENTS = ("fetched", "unpacked", "compiled")
LIMITS = ("line", "unpack", "compile")


def limits(moments: Mapping[str, float]) -> dict[str, float]:
    """{limit: its seconds} by the script's moments, which begin with `begun`."""
    last, told = moments.get("begun", 0.0), {}
    for moment, limit in zip(MOMENTS, LIMITS, strict=True):
        if moment not in moments:
            break
        told[limit] = round(moments[moment] - last, 1)
        last = moments[moment]
    return told


def variables(fetch: str, debs: str, tarballs: str, wheels: str, build: str) -> str:
    """What limits.sh is told: commands that fetch and build, and patterns of archives."""
    values = {
        "fetch": fetch, "debs": debs, "tarballs": tarballs, "wheels": wheels, "build": build,
    }  # fmt: skip
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())


def sentence(ours: Sequence[Mapping[str, Any]], least: Mapping[str, float]) -> str:
    """Where our seconds went in the last run that says so, and the limits; "" without either."""
    run = next((one["spent"] for one in reversed(ours) if "spent" in one), None)
    text = ""
    if run:
        told = ", ".join(f"{kind} {seconds:.0f} s" for kind, seconds in run.items() if seconds >= 1)
        text = f"\nWhere ours went until all was installed (the last run): {told}.\n"
    if least:
        text += f"\n{least_words(least)}\n"
    return text


def least_words(least: Mapping[str, float]) -> str:
    """The limits as a sentence; "" without any."""
    words = {
        "line": "to receive the same bytes",
        "unpack": "to unpack the same archives",
        "compile": "to compile the driver's module",
    }
    told = [f"{text} {least[name]:.0f} s" for name, text in words.items() if name in least]
    return f"Each alone, with all processors, it takes {', '.join(told)}." if told else ""
