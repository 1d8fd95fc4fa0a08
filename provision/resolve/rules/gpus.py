"""Which hosts have a GPU, and whether TensorFlow's code runs on it."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from provision.catalog.rows import DriverRow, PlatformRow, TensorflowRow
from provision.models import Gpu
from provision.resolve.rules.clash import Fact, is_asked, left_of, releases_of
from provision.resolve.search import Demand, Problem
from provision.resolve.stack import Tensorflow
from provision.resolve.words import and_list, unique


def _gpus_of_platform(platform: PlatformRow, gpus: Sequence[Gpu]) -> bool:
    """A GPU on one board with a CPU is in hosts of that CPU's architecture only."""
    return all(gpu.architecture in ("", platform.architecture) for gpu in gpus)


def _tell_gpus_platform(problem: Problem, clash: Sequence[Demand]) -> str:
    boards = [gpu for gpu in problem.candidates["gpus"][-1] if gpu.architecture]
    architectures = unique(p.architecture for p in left_of(problem, clash, "platform"))
    texts = unique(f"{gpu.name} is in hosts of {gpu.architecture}" for gpu in boards)
    return f"{'; '.join(texts)}; the platforms known here are {and_list(architectures)}"


def _code_for_gpus(tensorflow: Tensorflow, gpus: Sequence[Gpu]) -> bool:
    """Machine code of the same major version, or PTX that the driver can translate."""
    return all(runs(tensorflow.row, gpu.capability) != "" for gpu in gpus)


def _tell_code_gpus(problem: Problem, clash: Sequence[Demand]) -> str:
    row = releases_of(problem, clash)[0]
    lacking = [g for g in problem.candidates["gpus"][-1] if not runs(row, g.capability)]
    names = ", ".join(unique(f"{g.name} has {g.capability}" for g in lacking))
    ptx = f", and PTX of {and_list(row.ptx)}" if row.ptx else ""
    if row.ptx and any(Version(g.capability) > Version(row.ptx_newest) for g in lacking):
        ptx += f" that is not known to work on GPUs newer than {row.ptx_newest}"
    return (
        f"TensorFlow {row.release} carries code for compute capability "
        f"{and_list(row.capabilities)}{ptx}; {names}"
    )


def runs(row: TensorflowRow, compute_capability: str) -> str:
    """How TensorFlow's code runs on a GPU: "binary", "translated", or "" for not at all.

    Machine code runs on its own and later minor versions of a compute capability; PTX of an older
    one is translated by the driver at the first start
    (https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#binary-compatibility). On GPUs
    newer than `ptx_newest` that has failed, or was never reported to work.
    """
    capability = Version(compute_capability)
    for code in map(Version, row.capabilities):
        if code.major == capability.major and code.minor <= capability.minor:
            return "binary"
    if capability > Version(row.ptx_newest):
        return ""
    return "translated" if any(Version(ptx) <= capability for ptx in row.ptx) else ""


def _driver_translates(tensorflow: Tensorflow, gpus: Sequence[Gpu], driver: DriverRow) -> bool:
    """A driver translates no PTX of a newer CUDA than its own, minor versions included.

    cudaErrorUnsupportedPtxVersion (222):
    https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    """
    # A branch of which no CUDA is known is left to the driver itself.
    if not driver.supports_cuda or Version(driver.supports_cuda) >= Version(tensorflow.row.cuda):
        return True
    return not any(runs(tensorflow.row, gpu.capability) == "translated" for gpu in gpus)


def _tell_driver_translates(problem: Problem, clash: Sequence[Demand]) -> str:
    row = releases_of(problem, clash)[0]
    gpus = [g for g in problem.candidates["gpus"][-1] if runs(row, g.capability) == "translated"]
    older = unique(
        f"{driver.branch} is of CUDA {driver.supports_cuda}"
        for driver in left_of(problem, clash, "driver")
        if driver.supports_cuda and Version(driver.supports_cuda) < Version(row.cuda)
    )
    found = f"; driver {and_list(older)}" if is_asked(clash, "driver") else ""
    return (
        f"TensorFlow {row.release} has only PTX of CUDA {row.cuda} for "
        f"{and_list(unique(g.name for g in gpus))}, which drivers of that CUDA or newer translate"
        f"{found}"
    )


PLATFORM = Fact(
    "gpus-platform", ("platform", "gpus"), _gpus_of_platform, _tell_gpus_platform, "GPU"
)
CODE = Fact("code-gpus", ("tensorflow", "gpus"), _code_for_gpus, _tell_code_gpus, "GPU")
PTX = Fact(
    "ptx-driver",
    ("tensorflow", "gpus", "driver"),
    _driver_translates,
    _tell_driver_translates,
    "driver",
)
