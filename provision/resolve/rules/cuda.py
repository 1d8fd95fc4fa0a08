"""Which CUDA a platform has, TensorFlow opens and a GPU runs."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from provision.catalog.rows import PlatformRow
from provision.models import Gpu
from provision.resolve.rules.clash import Fact, is_asked, left_of, releases_of
from provision.resolve.search import Demand, Problem
from provision.resolve.stack import ORIGINS, Cuda, Tensorflow
from provision.resolve.words import span, unique


def _cuda_of_platform(platform: PlatformRow, cuda: Cuda) -> bool:
    return cuda.platform in ("", platform.id)


def _tell_cuda_platform(problem: Problem, clash: Sequence[Demand]) -> str:
    texts = []
    for platform in left_of(problem, clash, "platform"):
        releases: dict[str, list[str]] = {}
        for cuda in problem.candidates["cuda"]:
            if cuda.platform == platform.id:
                releases.setdefault(cuda.origin, []).append(cuda.release)
        origins = {c.origin for c in left_of(problem, clash, "cuda")}
        parts = [
            f"CUDA {span(unique(of_origin))} from {ORIGINS[origin]}"
            for origin, of_origin in releases.items()
            if origin in origins
        ]
        own = "no CUDA of its own"
        if platform.archive_cuda:
            own = f"CUDA {platform.archive_cuda} of its own, which this version does not install"
        texts.append(f"{platform.title} has {' and '.join(parts) or own}")
    return "; ".join(texts)


def serves_tensorflow(tensorflow: Tensorflow, cuda: Cuda) -> bool:
    """Whether CUDA has the libraries that TensorFlow opens by name, and is new enough.

    Wheels serve the patch that names them.
    """
    row = tensorflow.row
    if cuda.origin == "wheels":
        return cuda.tensorflow == tensorflow.version
    if cuda.release == row.cuda:
        return True
    sonames = set(cuda.facts.sonames if cuda.facts else cuda.row.sonames if cuda.row else ())
    needed = {name for name in row.sonames if not name.startswith("libcudnn")}
    return bool(needed) and needed <= sonames and Version(cuda.release) > Version(row.cuda)


def _tell_cuda_tensorflow(problem: Problem, clash: Sequence[Demand]) -> str:
    if is_asked(clash, "tensorflow"):
        row = releases_of(problem, clash)[0]
        wheels = " or its own wheels" if row.cuda_wheels else ""
        return (
            f"TensorFlow {row.release} was built with CUDA {row.cuda} and opens its "
            f"libraries by name{wheels}"
        )
    cudas = unique(c.release for c in left_of(problem, clash, "cuda"))
    fits = [
        r.release
        for r in releases_of(problem, clash)
        if any(
            serves_tensorflow(Tensorflow(max(r.patches, key=Version), r), c)
            for c in left_of(problem, clash, "cuda")
        )
    ]
    return f"CUDA {span(cudas)} serves TensorFlow {span(fits) if fits else 'of no release'}"


def _cuda_for_gpus(cuda: Cuda, gpus: Sequence[Gpu]) -> bool:
    """A release that has dropped a generation has no libraries for it."""
    return all(
        gpu.cuda_last is None or Version(cuda.release) <= Version(gpu.cuda_last) for gpu in gpus
    )


def _tell_cuda_gpus(problem: Problem, _clash: Sequence[Demand]) -> str:
    return "; ".join(
        f"{gpu.name} (compute capability {gpu.capability}) has code in CUDA up to {gpu.cuda_last}"
        for gpu in problem.candidates["gpus"][-1]
        if gpu.cuda_last is not None
    )


PLATFORM = Fact(
    "cuda-platform", ("platform", "cuda"), _cuda_of_platform, _tell_cuda_platform, "CUDA"
)
TENSORFLOW = Fact(
    "cuda-tensorflow", ("tensorflow", "cuda"), serves_tensorflow, _tell_cuda_tensorflow, "CUDA"
)
GPUS = Fact("cuda-gpus", ("cuda", "gpus"), _cuda_for_gpus, _tell_cuda_gpus, "GPU")
