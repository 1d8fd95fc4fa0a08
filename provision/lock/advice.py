"""What a person should know of a lock that was made: what was assumed, and what will not work well.

A lock that is silent about these is read as a promise: a lab on Ubuntu 20.04 learned from a refusal
in the first run that its lock was for Debian, and another had wheels that its driver never runs.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from packaging.version import Version

from provision.catalog import Catalog
from provision.inventory import Fleet
from provision.lock.model import names, stacks_of, wheels
from provision.resolve import Choice, Stack, explain

# nvidia-cublas-cu12, cupy-cuda12x, jax-cuda12-plugin
_CUDA_IN_NAME = re.compile(r"-cu(?:da)?(1[0-9])x?(?:-|$)")
# From CUDA 13 on without the major version in its name.
_RUNTIME = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?")


def assumed(catalog: Catalog, fleet: Fleet) -> list[str]:
    """A line for the hosts whose system is not known: what the lock has for them."""
    found: dict[str, list[str]] = {}
    for _wish, kinds in fleet.kinds():
        for facts, hosts in kinds:
            if facts.platform is None and not facts.system:
                rows = explain(catalog, fleet, hosts[0])
                titles = dict.fromkeys(one.choice.platform.title for one in rows)
                found.setdefault(" or ".join(titles), []).extend(hosts)
    return [
        f"the system of {names(hosts)} is not known; this lock is for them if it is {titles}. "
        "`provision discover` asks them, or write gpu_platform; then `provision lock` again"
        for titles, hosts in found.items()
    ]


def warnings(
    catalog: Catalog, chosen: Sequence[Choice], requirements: Mapping[str, str]
) -> list[str]:
    """What `provision explain` warns of, for each platform, and wheels that no driver here runs."""
    found: dict[str, None] = {}
    for choice in chosen:
        title = choice.platform.title
        for stack in stacks_of(choice):
            for text in (*stack.warnings, *_unfit_wheels(catalog, stack, requirements[stack.id])):
                found[f"{title}: {text}"] = None
    return list(found)


def _unfit_wheels(catalog: Catalog, stack: Stack, requirements: str) -> Iterable[str]:
    """Wheels beside TensorFlow that were made for a CUDA which is too new for the driver.

    A package like torch works on the CPU then; and some only bring such wheels along.
    """
    if not stack.packages:
        return
    there = wheels(requirements)
    # The release stands in the version of CUDA's runtime, else the major version in a name.
    releases = [".".join(v.split(".")[:2]) for n, v in there.items() if _RUNTIME.fullmatch(n)]
    matches = {name: _CUDA_IN_NAME.search(name) for name in there}
    named = {name: match[1] for name, match in matches.items() if match}
    needed: dict[str, str] = {}
    for row in catalog.cuda_releases:
        if row.release in releases or row.release.split(".")[0] in named.values():
            major = row.release.split(".")[0]
            known = needed.get(major)
            if known is None or row.release in releases:
                needed[major] = row.driver_minimum
    for major, minimum in needed.items():
        if Version(stack.driver.version) >= Version(minimum):
            continue
        of = [name for name, one in named.items() if one == major]
        of = of or [name for name in there if _RUNTIME.fullmatch(name)]
        yield (
            f"{names(of)} (by packages: [{', '.join(stack.packages)}]) are for CUDA {major}, which "
            f"needs driver {minimum} or newer, and the driver is {stack.driver.version}: what uses "
            "them finds no GPU. Wish for a newer driver (driver_branch), for versions of these "
            f"packages that are made for CUDA {stack.cuda.release}, or do without them"
        )
