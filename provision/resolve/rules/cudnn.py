"""Which cuDNN TensorFlow takes, a CUDA serves and an architecture has."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from provision.catalog.rows import PlatformRow
from provision.resolve.rules.clash import Fact, is_asked, left_of, releases_of
from provision.resolve.search import Demand, Problem
from provision.resolve.stack import Cuda, Cudnn, Tensorflow
from provision.resolve.words import span, unique


def _cudnn_of_tensorflow(tensorflow: Tensorflow, cudnn: Cudnn) -> bool:
    """The same major version as TensorFlow was built with, and no older."""
    if cudnn.origin == "wheels" and cudnn.tensorflow != tensorflow.version:
        return False
    minimum, version = Version(tensorflow.row.cudnn_minimum), Version(cudnn.version)
    return version.major == minimum.major and version >= minimum


def _tell_cudnn_tensorflow(problem: Problem, clash: Sequence[Demand]) -> str:
    rows = releases_of(problem, clash)
    if is_asked(clash, "tensorflow"):
        row = rows[0]
        major = Version(row.cudnn_minimum).major
        return (
            f"TensorFlow {row.release} takes cuDNN {row.cudnn_minimum} or newer of major version "
            f"{major}: another one has another name (libcudnn.so.{major})"
        )
    versions = unique(c.version for c in left_of(problem, clash, "cudnn"))
    return f"cuDNN {span(versions)} serves only some releases of TensorFlow"


def _cudnn_of_cuda(cuda: Cuda, cudnn: Cudnn) -> bool:
    if (cudnn.origin == "wheels") != (cuda.origin == "wheels"):
        return False
    return cudnn.origin == "wheels" or not cudnn.cuda or serves(cudnn.cuda, cuda.release)


def _tell_cudnn_cuda(problem: Problem, clash: Sequence[Demand]) -> str:
    parts = []
    cudnns = left_of(problem, clash, "cudnn")
    for version, cuda, origin in unique((c.version, c.cuda, c.origin) for c in cudnns):
        where = "comes as wheels" if origin == "wheels" else "is an archive"
        parts.append(f"cuDNN {version} {where} for CUDA {cuda}")
    return "; ".join(parts[:4])


def serves(built_for: str, release: str) -> bool:
    """Whether a cuDNN for "11.2", or since 8.3 for "11" or "11.x", serves a CUDA release."""
    return built_for == release or built_for.removesuffix(".x") == release.split(".", maxsplit=1)[0]


def _cudnn_of_platform(platform: PlatformRow, cudnn: Cudnn) -> bool:
    return cudnn.architecture in ("", platform.architecture)


def _tell_cudnn_platform(problem: Problem, clash: Sequence[Demand]) -> str:
    architectures = unique(p.architecture for p in left_of(problem, clash, "platform"))
    return f"the host is {' or '.join(architectures)}, and not every cuDNN is there for it"


TENSORFLOW = Fact(
    "cudnn-tensorflow",
    ("tensorflow", "cudnn"),
    _cudnn_of_tensorflow,
    _tell_cudnn_tensorflow,
    "cuDNN",
)
CUDA = Fact("cudnn-cuda", ("cuda", "cudnn"), _cudnn_of_cuda, _tell_cudnn_cuda, "cuDNN")
PLATFORM = Fact(
    "cudnn-platform", ("platform", "cudnn"), _cudnn_of_platform, _tell_cudnn_platform, "cuDNN"
)
