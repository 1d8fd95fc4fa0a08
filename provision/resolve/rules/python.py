"""Which Python has wheels of TensorFlow, and which a platform has."""

from __future__ import annotations

from collections.abc import Sequence

from provision.catalog.rows import PlatformRow
from provision.resolve.rules.clash import Fact, is_asked, left_of, releases_of
from provision.resolve.search import Demand, Problem
from provision.resolve.stack import Cuda, Tensorflow
from provision.resolve.words import span


def _python_of_tensorflow(tensorflow: Tensorflow, python: str) -> bool:
    return python in tensorflow.row.pythons


def _tell_python_wheels(problem: Problem, clash: Sequence[Demand]) -> str:
    if is_asked(clash, "tensorflow"):
        row = releases_of(problem, clash)[0]
        return f"TensorFlow {row.release} has wheels for Python {span(row.pythons)}"
    pythons = left_of(problem, clash, "python")
    rows = [r for r in releases_of(problem, clash) if set(r.pythons) & set(pythons)]
    releases = span([r.release for r in rows]) if rows else "none"
    return f"of TensorFlow, {releases} has wheels for Python {span(pythons)}"


def _python_of_platform(platform: PlatformRow, python: str) -> bool:
    return python in platform.pythons


def _tell_python_platform(problem: Problem, clash: Sequence[Demand]) -> str:
    platforms = left_of(problem, clash, "platform")
    return "; ".join(f"{p.title} has Python {span(p.pythons)}" for p in platforms)


def _python_of_cuda(tensorflow: Tensorflow, cuda: Cuda, python: str) -> bool:
    pythons = tensorflow.row.cuda_wheels_pythons
    return cuda.origin != "wheels" or not pythons or python in pythons


def _tell_python_cuda(problem: Problem, clash: Sequence[Demand]) -> str:
    row = releases_of(problem, clash)[0]
    pythons = span(row.cuda_wheels_pythons or row.pythons)
    return f"the wheels of tensorflow[and-cuda] {row.release} are there for Python {pythons}"


WHEELS = Fact(
    "python-wheels", ("tensorflow", "python"), _python_of_tensorflow, _tell_python_wheels, "Python"
)
PLATFORM = Fact(
    "python-platform", ("platform", "python"), _python_of_platform, _tell_python_platform, "Python"
)
CUDA = Fact(
    "python-cuda", ("tensorflow", "cuda", "python"), _python_of_cuda, _tell_python_cuda, "Python"
)
