"""Which driver a platform has, CUDA and TensorFlow need, and a GPU works with."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from provision.catalog.rows import DriverRow, PlatformRow
from provision.models import Gpu
from provision.resolve.rules.clash import Fact, left_of, releases_of
from provision.resolve.search import Demand, Problem
from provision.resolve.stack import DRIVER_ORIGINS, Cuda, Tensorflow
from provision.resolve.words import and_list, newest_first, span, unique


def _driver_of_platform(platform: PlatformRow, driver: DriverRow) -> bool:
    return driver.platform == platform.id


def _tell_driver_platform(problem: Problem, clash: Sequence[Demand]) -> str:
    texts = []
    exact = any("." in demand.text for demand in clash if demand.name == "driver_branch")
    for platform in left_of(problem, clash, "platform"):
        drivers = [d for d in problem.candidates["driver"] if d.platform == platform.id]
        parts = []
        for origin in unique(d.origin for d in drivers):
            versions = {d.version if exact else d.branch for d in drivers if d.origin == origin}
            parts.append(f"{and_list(newest_first(versions))} from {DRIVER_ORIGINS[origin]}")
        if {d.origin for d in drivers} <= {"distribution"}:
            parts = [and_list(newest_first({d.version if exact else d.branch for d in drivers}))]
        texts.append(
            f"{platform.title} has driver {'; '.join(filter(None, parts)) or 'of no branch'}"
        )
    return "; ".join(texts)


def _driver_of_cuda(cuda: Cuda, driver: DriverRow) -> bool:
    return Version(driver.version) >= Version(cuda.driver_minimum)


def _tell_driver_cuda(problem: Problem, clash: Sequence[Demand]) -> str:
    by_minimum: dict[str, list[str]] = {}
    for cuda in left_of(problem, clash, "cuda"):
        by_minimum.setdefault(cuda.driver_minimum, []).append(cuda.release)
    return "; ".join(
        f"CUDA {span(unique(releases))} needs driver {minimum} or newer"
        for minimum, releases in sorted(by_minimum.items(), key=lambda item: Version(item[0]))
    )


def _driver_source_of_cuda(cuda: Cuda, driver: DriverRow) -> bool:
    """The platform's own CUDA depends on the platform's own libcuda1."""
    return cuda.origin != "distribution" or driver.origin == "distribution"


def _tell_driver_source(_problem: Problem, _clash: Sequence[Demand]) -> str:
    return "the platform's own CUDA depends on the platform's own driver"


def _driver_of_tensorflow(tensorflow: Tensorflow, driver: DriverRow) -> bool:
    return Version(driver.version) >= Version(tensorflow.row.driver_minimum)


def _tell_driver_tensorflow(problem: Problem, clash: Sequence[Demand]) -> str:
    row = releases_of(problem, clash)[0]
    return f"TensorFlow {row.release} needs driver {row.driver_minimum} or newer"


def drives(gpus: Sequence[Gpu], driver: DriverRow) -> bool:
    """Whether this driver's branch drives all of the GPUs."""
    branch = Version(driver.branch)
    return all(
        Version(gpu.driver_first) <= branch
        and (gpu.driver_last is None or branch <= Version(gpu.driver_last))
        for gpu in gpus
    )


def _tell_driver_gpus(problem: Problem, clash: Sequence[Demand]) -> str:
    texts = []
    drivers = [
        driver
        for driver in problem.candidates["driver"]
        for platform in left_of(problem, clash, "platform")
        if driver.platform == platform.id
    ]
    for gpu in problem.candidates["gpus"][-1]:
        if all(drives([gpu], driver) for driver in drivers):
            continue  # not an obstacle
        window = f"{gpu.driver_first} or newer"
        if gpu.driver_last is not None:
            window = f"up to {gpu.driver_last}, the last that knows it"
        texts.append(f"{gpu.name} ({gpu.generation}) is driven by branches {window}")
    return "; ".join(unique(texts))


PLATFORM = Fact(
    "driver-platform", ("platform", "driver"), _driver_of_platform, _tell_driver_platform, "driver"
)
CUDA = Fact("driver-cuda", ("cuda", "driver"), _driver_of_cuda, _tell_driver_cuda, "driver")
SOURCE = Fact(
    "driver-source", ("cuda", "driver"), _driver_source_of_cuda, _tell_driver_source, "driver"
)
TENSORFLOW = Fact(
    "driver-tensorflow",
    ("tensorflow", "driver"),
    _driver_of_tensorflow,
    _tell_driver_tensorflow,
    "driver",
)
GPUS = Fact("driver-gpus", ("gpus", "driver"), drives, _tell_driver_gpus, "GPU")
