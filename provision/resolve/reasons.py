"""The reasons for a stack's parts, and warnings for its users, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from packaging.version import Version

from provision.models import Reason, Wish
from provision.resolve.own import OWN
from provision.resolve.rules.gpus import runs
from provision.resolve.stack import DRIVER_ORIGINS, ORIGINS


def reasons(solution: Mapping[str, Any], wish: Wish) -> Iterable[Reason]:
    """The reason for each component of a solution (variable of the search -> its value)."""
    yield Reason("nvidia_driver", _of_driver(solution, wish))
    yield Reason("cuda", _of_cuda(solution))
    yield Reason("cudnn", _of_cudnn(solution, wish))
    yield Reason("gpu_env", _of_environment(solution))
    for component, own in OWN.items():
        if solution[own.WORD] is not None:
            yield Reason(component, own.reason(solution[own.WORD], wish))
    yield Reason("tensorflow", _of_tensorflow(solution, wish))


def _of_driver(solution: Mapping[str, Any], wish: Wish) -> str:
    platform, cuda, driver = solution["platform"], solution["cuda"], solution["driver"]
    row = solution["tensorflow"].row
    needed = max(cuda.driver_minimum, row.driver_minimum, key=Version)
    how = "was wished" if wish.driver_branch else f"is {platform.title}'s"
    version = f"branch {driver.branch}"
    if "." in (wish.driver_branch or ""):
        version = f"version {driver.version}"
    from_ = ""
    if driver.origin != "distribution":
        how = "was wished" if wish.driver_branch else "is the newest known"
        from_ = f", from {DRIVER_ORIGINS[driver.origin]} as wished"
    window = ""
    for gpu in solution["gpus"]:
        last = f" to {gpu.driver_last}" if gpu.driver_last else " or newer"
        window += f"; {gpu.name} ({gpu.generation}) is driven by branches {gpu.driver_first}{last}"
    return f"{version} {how}{from_}; CUDA {cuda.release} needs {needed} or newer{window}"


def _of_cuda(solution: Mapping[str, Any]) -> str:
    cuda, row = solution["cuda"], solution["tensorflow"].row
    tested = f"TensorFlow {row.release} was built and tested with CUDA {row.cuda}"
    if cuda.origin == "wheels":
        tested += f", and tensorflow[and-cuda] brings {cuda.version} as wheels"
    elif cuda.release != row.cuda:
        tested += f"; {cuda.release} has the same libraries, and was not tested with it"
    if cuda.prefix:
        tested += f"; it comes from {ORIGINS[cuda.origin]} and lies in {cuda.prefix}"
    return tested


def _of_cudnn(solution: Mapping[str, Any], wish: Wish) -> str:
    cudnn, row = solution["cudnn"], solution["tensorflow"].row
    if cudnn.origin == "own":
        return (
            f"an archive of {cudnn.version} with its hash was wished; "
            f"at least {row.cudnn_minimum} is needed"
        )
    if wish.cudnn is not None:
        return f"cuDNN {cudnn.version} was wished"
    if cudnn.origin == "wheels":
        return f"tensorflow[and-cuda] brings cuDNN {cudnn.version} as a wheel"
    return f"TensorFlow {row.release} was built and tested with cuDNN {row.cudnn_minimum}"


def _of_environment(solution: Mapping[str, Any]) -> str:
    cuda = solution["cuda"]
    if cuda.row is not None:
        directory = cuda.row.xla_cuda_data_dir
        return f"XLA looks for libdevice under {directory} on {solution['platform'].title}"
    if cuda.prefix:
        return f"programs and libraries are found in {cuda.prefix}, and so is XLA's libdevice"
    return "each venv finds its own libraries; nothing is set for others"


def _of_tensorflow(solution: Mapping[str, Any], wish: Wish) -> str:
    platform, tensorflow, python = solution["platform"], solution["tensorflow"], solution["python"]
    if wish.tensorflow is None:
        why = f"no TensorFlow was wished, {tensorflow.version} is what fits best"
    elif wish.tensorflow == tensorflow.version:
        why = f"{tensorflow.version} was wished"
    elif len(Version(wish.tensorflow).release) == 2:
        why = f"{tensorflow.version} is the newest patch of {tensorflow.row.release}"
    else:
        why = f"{tensorflow.version} is the newest of {wish.tensorflow} that fits"
    own = "own and has wheels" if python == platform.pythons[0] else "other one and has wheels"
    whose = "was wished" if wish.python else f"is {platform.title}'s {own}"
    more = f"; with {', '.join(wish.packages)} as wished" if wish.packages else ""
    return f"{why}; Python {python} {whose}{more}"


def warnings(solution: Mapping[str, Any]) -> Iterable[str]:
    """What will not work well with a solution."""
    tensorflow, cuda = solution["tensorflow"], solution["cuda"]
    for gpu in solution["gpus"]:
        if runs(tensorflow.row, gpu.capability) == "translated":
            # CUDA's libraries have machine code for the capabilities of their own release alone.
            no_code = cuda.facts is None or gpu.capability not in cuda.facts.capabilities
            more = f", and NVIDIA's libraries of CUDA {cuda.release} were not made for it"
            yield (
                f"{gpu.name} ({gpu.generation}, compute capability {gpu.capability}): TensorFlow "
                f"{tensorflow.row.release} has no machine code for it, only PTX; the driver "
                f"translates it at the first start, which takes many minutes{more * no_code}"
            )
    if cuda.release != tensorflow.row.cuda:
        yield (
            f"TensorFlow {tensorflow.row.release} was tested with CUDA {tensorflow.row.cuda}, "
            f"not with {cuda.release}; its libraries have the same names"
        )
