"""Notes and warnings on a new lock: what was assumed, and what will not work well.

Without them a lock reads as a promise: a lab on Ubuntu 20.04 learned only from a refusal in the
first run that its lock was for Debian; another locked wheels that its driver can't run.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from packaging.version import Version

from provision.catalog import Catalog
from provision.inventory import Fleet
from provision.lock.model import stacks_of, wheels
from provision.resolve import Choice, Stack, explain
from provision.resolve.words import shortened

# nvidia-cublas-cu12, cupy-cuda12x, jax-cuda12-plugin
_CUDA_IN_NAME = re.compile(r"-cu(?:da)?(1[0-9])x?(?:-|$)")
# Since CUDA 13 its name has no major version.
_RUNTIME = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?")


def assumed(catalog: Catalog, fleet: Fleet) -> list[str]:
    """A line for the hosts of unknown system: the platforms that the lock has for them."""
    hosts_by_titles: dict[str, list[str]] = {}
    for _wish, kinds in fleet.kinds():
        for facts, hosts in kinds:
            if facts.platform is None and not facts.system:
                rows = explain(catalog, fleet, hosts[0])
                titles = dict.fromkeys(row.choice.platform.title for row in rows)
                hosts_by_titles.setdefault(" or ".join(titles), []).extend(hosts)
    return [
        f"the system of {shortened(hosts)} is not known; this lock is for them if it is {titles}. "
        "`provision discover` asks them, or write gpu_platform; then `provision lock` again"
        for titles, hosts in hosts_by_titles.items()
    ]


def warnings(
    catalog: Catalog, chosen: Sequence[Choice], requirements: Mapping[str, str]
) -> list[str]:
    """The warnings of `provision explain` by platform, and wheels that the driver can't run."""
    lines: dict[str, None] = {}
    for choice in chosen:
        title = choice.platform.title
        for stack in stacks_of(choice):
            for text in (*stack.warnings, *_unfit_wheels(catalog, stack, requirements[stack.id])):
                lines[f"{title}: {text}"] = None
    return list(lines)


def _unfit_wheels(catalog: Catalog, stack: Stack, requirements: str) -> Iterable[str]:
    """A warning for the wheels beside TensorFlow whose CUDA is too new for the driver.

    No error: a package like torch works on the CPU then, and some only depend on such wheels.
    """
    if not stack.packages:
        return
    locked = wheels(requirements)
    # The version of CUDA's runtime gives the release; otherwise a name gives the major version.
    releases = [".".join(v.split(".")[:2]) for n, v in locked.items() if _RUNTIME.fullmatch(n)]
    matches = {name: _CUDA_IN_NAME.search(name) for name in locked}
    majors = {name: match[1] for name, match in matches.items() if match}
    minimums: dict[str, str] = {}
    for row in catalog.cuda_releases:
        if row.release in releases or row.release.split(".")[0] in majors.values():
            major = row.release.split(".")[0]
            if major not in minimums or row.release in releases:
                minimums[major] = row.driver_minimum
    for major, minimum in minimums.items():
        if Version(stack.driver.version) >= Version(minimum):
            continue
        unfit = [name for name in majors if majors[name] == major]
        unfit = unfit or [name for name in locked if _RUNTIME.fullmatch(name)]
        yield (
            f"{shortened(unfit)} (by packages: [{', '.join(stack.packages)}]) are for CUDA "
            f"{major}, which needs driver {minimum} or newer, and the driver is "
            f"{stack.driver.version}: what uses them finds no GPU. Wish for a newer driver "
            "(driver_branch), for versions of "
            f"these packages that are made for CUDA {stack.cuda.release}, or do without them"
        )
