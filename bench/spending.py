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
# A task of any other module that takes longer is no small step: it is listed by its own name.
LONG_SECONDS = 5.0


def spent(results: Sequence[Mapping[str, Any]], wall: float) -> dict[str, float]:
    """Seconds by what they were spent on, the longest first; together they are the wall clock.

    `results` are a single host's events of modules until everything was installed.
    """
    of = {module: kind for kind, modules in KINDS.items() for module in modules}
    totals: dict[str, float] = {}
    for event in results:
        seconds = float(event["seconds"])
        kind = of.get(str(event["action"]).rpartition(".")[2])
        if kind is None:
            kind = SMALL if seconds < LONG_SECONDS else str(event.get("task", SMALL))
        totals[kind] = totals.get(kind, 0.0) + seconds
    totals[BETWEEN] = max(wall - sum(totals.values()), 0.0)
    rows = sorted(totals.items(), key=lambda row: -row[1])
    return {kind: round(seconds, 1) for kind, seconds in rows}


# The moments that bench/ways/limits.sh prints, in its order, and the limit that ends at each.
MOMENTS = ("fetched", "unpacked", "compiled")
LIMITS = ("line", "unpack", "compile")


def limits(moments: Mapping[str, float]) -> dict[str, float]:
    """{limit: its seconds} by the script's moments, which begin with `begun`."""
    last, seconds = moments.get("begun", 0.0), {}
    for moment, limit in zip(MOMENTS, LIMITS, strict=True):
        if moment not in moments:
            break
        seconds[limit] = round(moments[moment] - last, 1)
        last = moments[moment]
    return seconds


def variables(fetch: str, debs: str, tarballs: str, wheels: str, build: str) -> str:
    """The variables of limits.sh: commands that fetch and build, and patterns of archives."""
    values = {
        "fetch": fetch, "debs": debs, "tarballs": tarballs, "wheels": wheels, "build": build,
    }  # fmt: skip
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())


def sentence(ours: Sequence[Mapping[str, Any]], least: Mapping[str, float]) -> str:
    """Where our seconds went in the last run that says so, and the limits; "" without either."""
    breakdown = next((run["spent"] for run in reversed(ours) if "spent" in run), None)
    text = ""
    if breakdown:
        parts = ", ".join(
            f"{kind} {seconds:.0f} s" for kind, seconds in breakdown.items() if seconds >= 1
        )
        text = f"\nTime of ours until everything was installed (last run): {parts}.\n"
    if least:
        text += f"\n{least_words(least)}\n"
    return text


def least_words(least: Mapping[str, float]) -> str:
    """The limits as a sentence; "" without any."""
    words = {
        "line": "receiving the same bytes",
        "unpack": "unpacking the same archives",
        "compile": "compiling the driver's module",
    }
    parts = [f"{text} {least[name]:.0f} s" for name, text in words.items() if name in least]
    return f"Each alone, on all processors: {', '.join(parts)}." if parts else ""
