"""The demands of a wish and a host on the search's variables, with words for a refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from packaging.version import Version

from provision.catalog.rows import PlatformRow
from provision.models import Gpu, Wish, plain
from provision.resolve.own import OWN
from provision.resolve.search import Demand
from provision.resolve.words import is_of, parse_version, unique


def demands(wish: Wish, platform: PlatformRow | None, gpus: Sequence[Gpu]) -> list[Demand]:
    """All demands, the host's first: of several smallest clashes the first is reported."""
    parts = (
        _of_host(platform, gpus),
        _of_tensorflow(wish),
        _of_cuda(wish),
        _of_driver(wish),
        _of_tools(wish),
    )
    return [demand for part in parts for demand in part]


def _of_host(platform: PlatformRow | None, gpus: Sequence[Gpu]) -> Iterator[Demand]:
    if platform is not None:
        yield Demand("platform", "platform", lambda p: p.id == platform.id, platform.title)
    if gpus:
        names = ", ".join(unique(f"{gpu.name} ({gpu.generation})" for gpu in gpus))
        yield Demand("gpus", "gpus", lambda g: g == tuple(gpus), names)


def _of_tensorflow(wish: Wish) -> Iterator[Demand]:
    if wish.tensorflow is not None:
        release = parse_version(wish.tensorflow, "tensorflow")
        yield Demand(
            "tensorflow", "tensorflow",
            lambda t: is_of(release, t.version), f'tensorflow: "{wish.tensorflow}"',
        )  # fmt: skip
    if wish.python is not None:
        python = parse_version(wish.python, "python")
        yield Demand("python", "python", lambda p: Version(p) == python, f'python: "{wish.python}"')


def _of_cuda(wish: Wish) -> Iterator[Demand]:
    if wish.cuda is not None:
        cuda = parse_version(wish.cuda, "cuda")
        yield Demand("cuda", "cuda", lambda c: is_of(cuda, c.version), f'cuda: "{wish.cuda}"')
    if wish.cuda_source is not None:
        yield Demand(
            "cuda_source", "cuda",
            lambda c: c.origin == wish.cuda_source, f"cuda_source: {wish.cuda_source}",
        )  # fmt: skip
    if wish.cudnn is not None:
        version = parse_version(wish.cudnn.version, "cudnn")
        own = wish.cudnn.sha256 is not None
        yield Demand(
            "cudnn", "cudnn",
            lambda c: Version(c.version) == version and (c.origin == "own") == own
            and (wish.cudnn is None or wish.cudnn.cuda in (None, c.cuda)),
            f"cudnn: {json.dumps(plain(wish.literal.get('cudnn', wish.cudnn.version)))}",
        )  # fmt: skip


def _of_driver(wish: Wish) -> Iterator[Demand]:
    if wish.driver_branch is not None:
        branch = wish.driver_branch
        yield Demand(
            "driver_branch", "driver",
            lambda d: branch in (d.branch, d.version)
            and wish.driver_sha256 in (None, d.sha256),
            f'driver_branch: "{branch}"',
        )  # fmt: skip
    if wish.driver_source is not None:
        yield Demand(
            "driver_source", "driver",
            lambda d: d.origin == wish.driver_source, f"driver_source: {wish.driver_source}",
        )  # fmt: skip


def _of_tools(wish: Wish) -> Iterator[Demand]:
    if wish.gcc is not None:
        yield Demand("gcc", "gcc", lambda g: g == wish.gcc, f'gcc: "{wish.gcc}"')
    for own in OWN.values():
        yield from own.demands(wish)
