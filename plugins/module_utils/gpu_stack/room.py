"""Disk space that a run needs, and has."""

from __future__ import annotations

import os

from .components import tensorflow
from .components.nvidia_driver import driver_method
from .rules import Rule
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .host.context import Context
    from .shapes import Changes, Facts, Options

GIB = 1 << 30

# Space that a component needs: {component: {path: bytes}}.
# The driver is 0.1 GB to fetch and 0.2 GB unpacked, and 0.4 GB with a DKMS build. CUDA's own size
# is CUDA_NEEDS'. cuDNN's archive beside its content; a TensorFlow 2.9 venv 2.5 GB.
NEEDS = {
    # The .run file is 0.4 GB to fetch and 1 GB unpacked, beside what it installs (estimated).
    "runfile": {"/usr": GIB, "/var/tmp": 3 * GIB // 2, "/var/lib/dkms": GIB // 4},  # noqa: S108
    "nvidia_driver": {"/usr": GIB // 2, "/var/cache/apt": GIB // 4, "/var/lib/dkms": GIB // 4},
    "cuda": {"/usr": 5 * GIB, "/var/cache/apt": 7 * GIB // 4},
    "cudnn": {"cudnn_root": 4 * GIB},
    "tensorflow": {"tensorflow_root": 5 * GIB // 2},
}

# Known platforms' CUDA, by profile. By the package indices (2026-11-21), in GB to
# fetch and unpacked: Debian 11 toolkit 1.33 and 3.64, runtime 0.49 and 1.23; 12 toolkit 1.56 and
# 5.19, runtime 0.54 and 1.64; 13 toolkit 1.82 and 4.64, runtime 0.63 and 1.41. Profile runtime also
# fetches ptxas in a package of 0.06 to 0.09 GB.
CUDA_NEEDS = {
    ("debian", "11"): {
        "toolkit": {"/usr": 7 * GIB // 2, "/var/cache/apt": 5 * GIB // 4},
        "runtime": {"/usr": 5 * GIB // 4, "/var/cache/apt": GIB // 2},
    },
    ("debian", "12"): {
        "toolkit": {"/usr": 5 * GIB, "/var/cache/apt": 3 * GIB // 2},
        "runtime": {"/usr": 13 * GIB // 8, "/var/cache/apt": 5 * GIB // 8},
    },
    ("debian", "13"): {
        "toolkit": {"/usr": 9 * GIB // 2, "/var/cache/apt": 7 * GIB // 4},
        "runtime": {"/usr": 3 * GIB // 2, "/var/cache/apt": 3 * GIB // 4},
    },
}

# From NVIDIA's packages, as cuda-toolkit-11-2 and 11-8 are (estimated). The local installer is
# downloaded and unpacked beside, 2.2 GB each up to 11.8 and 3.3 GB later; apt then copies nothing.
CUDA_NVIDIA = {
    "toolkit": {"/usr": 7 * GIB, "/var/cache/apt": 7 * GIB // 2},
    "runtime": {"/usr": 3 * GIB, "/var/cache/apt": 3 * GIB // 2},
}

CUDA_INSTALLER = {"cuda_installer_directory": 7 * GIB // 2, "/var": 7 * GIB // 2}
CUDA_RUNTIME = {"/usr": 13 * GIB // 8, "/var/cache/apt": 3 * GIB // 4}

# With CUDA and cuDNN among the wheels; pip holds them packed and unpacked for a while (estimated).
CUDA_WHEELS = {"tensorflow_root": 19 * GIB // 2}

ROOTS = {
    "cudnn_root": "/opt/nvidia/cudnn",
    "tensorflow_root": "/opt/tensorflow",
    "cuda_installer_directory": "/var/cache/provision",
}


def disk(context: Context) -> dict[str, Any]:
    """{path: {"free": bytes, "device": number}} for every place something is installed to."""
    spaces = {}
    local = context.part("cuda").get("source") == "local"
    for needs in [*NEEDS.values(), CUDA_INSTALLER if local else {}]:
        for place in needs:
            path = context.options.get(place) or ROOTS.get(place) or place
            existing = path
            while existing != "/" and not context.exists(existing):
                existing = os.path.dirname(existing)
            info = context.stat(existing)
            free = context.disk_free(path)
            if info is not None and free is not None:
                spaces[path] = {"free": free, "device": info.st_dev}
    return spaces


def cuda_needs(
    platform: dict[str, Any], profile: str | None, source: str | None = None
) -> dict[str, int]:
    """{path: bytes} of CUDA in one profile; of an unknown platform as of the largest."""
    profile = "runtime" if profile == "runtime" else "toolkit"
    if source == "network":
        return CUDA_NVIDIA[profile]
    if source == "local":
        return dict(CUDA_INSTALLER, **{"/usr": CUDA_NVIDIA[profile]["/usr"]})
    largest = CUDA_RUNTIME if profile == "runtime" else NEEDS["cuda"]
    sizes = CUDA_NEEDS.get((platform["distribution"], platform["release"]))
    return largest if sizes is None else sizes[profile]


def _needs(
    facts: Facts, changes: Changes, options: Options, row: Any
) -> list[tuple[str, dict[str, int]]]:
    """[(component, {place: bytes})] of what is absent and will be installed."""
    needs = []
    venvs = facts["preflight"].get("venvs") or {}
    for component in sorted(dict.fromkeys(entry["component"] for entry in changes)):
        # An installed component that only changes needs little; an absent one needs all of it, and
        # so does an environment that is built beside the one in use.
        absent = facts["state"].get(component, {}).get("version") is None
        part = row.get(component) or {}
        if absent or (component == tensorflow.NAME and _built(part, venvs)):
            needs.append((component, _size(facts, component, options, part)))
        if component != tensorflow.NAME:
            continue
        for part in row.get("beside") or []:
            seen = facts["state"][component]["beside"][tensorflow.directory(part)]
            if not tensorflow.finished(part, seen) or _built(part, venvs):
                name = "{0} {1}".format(component, part["version"])
                needs.append((name, _size(facts, component, options, part)))
    return needs


def _built(part: dict[str, Any], venvs: dict[str, Any]) -> bool:
    """Whether this run builds the environment."""
    venv = venvs.get(tensorflow.directory(part)) if part else None
    return (venv or {}).get("kind") in ("new", "anew")


def _size(facts: Facts, component: str, options: Options, part: dict[str, Any]) -> dict[str, int]:
    if component == "cuda":
        return cuda_needs(facts["platform"], options.get("cuda_profile"), part.get("source"))
    if part.get("cuda_source") == "wheels":
        return CUDA_WHEELS
    if driver_method.source(part) == driver_method.RUNFILE:
        return NEEDS["runfile"]
    return NEEDS.get(component, {})


def disk_full(facts: Facts, changes: Changes, options: Options, row: Any) -> list[tuple[str, str]]:
    spaces = facts["preflight"].get("disk") or {}
    needed: dict[int, dict[str, Any]] = {}
    for name, needs in _needs(facts, changes, options, row):
        for place, size in needs.items():
            path = options.get(place) or ROOTS.get(place) or place
            if path in spaces:
                space = spaces[path]
                entry = needed.setdefault(
                    space["device"], {"size": 0, "free": space["free"], "for": []}
                )
                entry["size"] += size
                entry["for"].append("{0} in {1}".format(name, path))
    return [
        (
            "the disk is too full: {0:.1f} GB are free where {1:.1f} GB are needed ({2})".format(
                entry["free"] / 1e9, entry["size"] / 1e9, ", ".join(entry["for"])
            ),
            "free some space (apt-get clean; old files under /opt), or move a root with "
            "cudnn_root or tensorflow_root",
        )
        for _device, entry in sorted(needed.items())
        if entry["free"] < entry["size"]
    ]


FACTS = {"disk": disk}
RULES = (Rule("disk", None, True, disk_full),)
