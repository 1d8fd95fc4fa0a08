"""Wish x platform -> stack: one consistent choice, with a reason for each part of it.

Pure: the same catalog and the same wish give the same stack, and a wish that cannot be had says
what is nearest. Versions are compared by `packaging`, never as strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from provision.catalog import (
    Catalog,
    CudaRow,
    CudnnRow,
    DriverRow,
    PlatformRow,
    TensorflowRow,
)
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet
from provision.values import Reason, Wish


@dataclass(frozen=True)
class Cudnn:
    """The archive that was chosen; `urls` is empty for an archive of the user's own."""

    version: str
    cuda: str
    sha256: str
    soname: str
    minimum: str


@dataclass(frozen=True)
class Stack:
    """One consistent choice for one platform. Exact packages and wheels come with the lock."""

    platform: PlatformRow
    driver: DriverRow
    cuda: CudaRow
    cudnn: Cudnn
    python: str
    tensorflow: str
    constraints: tuple[str, ...]
    reasons: tuple[Reason, ...]

    @property
    def id(self) -> str:
        """The name of the stack in lock, tree and receipt; says everything but the packages."""
        return (
            f"{self.platform.id}-tensorflow{self.tensorflow}-cuda{self.cuda.version}"
            f"-cudnn{self.cudnn.version}-driver{self.driver.version}"
        )


@dataclass(frozen=True)
class Choice:
    """A row of the lock to be: hosts of this platform with this wish get this stack."""

    platform: PlatformRow
    wish: Wish
    stack: Stack


def resolve_fleet(catalog: Catalog, fleet: Fleet) -> list[Choice]:
    """One choice per different wish and platform that can have it.

    Hosts are not asked what they are, so every platform of the catalog that can satisfy a wish gets
    a row. UnsatisfiableError when none can.
    """
    choices = []
    for wish, hosts in fleet.wishes():
        refusals: list[UnsatisfiableError] = []
        fitting = []
        for platform in catalog.platforms:
            try:
                fitting.append(Choice(platform, wish, resolve(catalog, platform, wish)))
            except UnsatisfiableError as error:
                refusals.append(error)
        if not fitting:
            first = refusals[0]
            raise UnsatisfiableError(
                first.message,
                where=f"gpu_stack of {_names(hosts)}",
                got=first.got,
                expected=first.expected,
                hint=first.hint,
            )
        choices.extend(fitting)
    return choices


def resolve(catalog: Catalog, platform: PlatformRow, wish: Wish) -> Stack:
    """The stack for one platform and wish; UnsatisfiableError with the closest alternatives."""
    tensorflow, row, why_tensorflow = _tensorflow(catalog, wish)
    python, why_python = _python(platform, row, wish)
    cuda, why_cuda = _cuda(catalog, platform, row, wish)
    driver, why_driver = _driver(catalog, platform, row, cuda, wish)
    cudnn, why_cudnn = _cudnn(catalog, platform, row, cuda, wish)
    return Stack(
        platform=platform,
        driver=driver,
        cuda=cuda,
        cudnn=cudnn,
        python=python,
        tensorflow=tensorflow,
        constraints=tuple(row.constraints),
        reasons=(
            Reason("nvidia_driver", why_driver),
            Reason("cuda", why_cuda),
            Reason("cudnn", why_cudnn),
            Reason(
                "gpu_env",
                f"XLA looks for libdevice under {cuda.xla_cuda_data_dir} on {platform.title}",
            ),
            Reason("tensorflow", f"{why_tensorflow}; {why_python}"),
        ),
    )


def _tensorflow(catalog: Catalog, wish: Wish) -> tuple[str, TensorflowRow, str]:
    rows = sorted(catalog.tensorflow, key=lambda r: Version(r.release))
    if wish.tensorflow is None:
        row = rows[-1]
        newest = max(row.patches, key=Version)
        return newest, row, f"no TensorFlow was wished, {newest} is the newest in the catalog"
    wanted = _version(wish.tensorflow, "tensorflow")
    for row in rows:
        if wanted == Version(row.release) and len(wanted.release) == 2:
            newest = max(row.patches, key=Version)
            return newest, row, f"{newest} is the newest patch of {row.release}"
        for patch in row.patches:
            if wanted == Version(patch) and len(wanted.release) == 3:
                return patch, row, f"{patch} was wished"
    near = _nearest(wanted, [p for r in rows for p in (r.release, *r.patches)])
    raise UnsatisfiableError(
        f"no TensorFlow {wish.tensorflow} in the catalog",
        got=f'tensorflow: "{wish.tensorflow}"',
        expected=" or ".join(f'"{v}"' for v in near),
        hint="`provision explain` lists what there is",
    )


def _python(platform: PlatformRow, row: TensorflowRow, wish: Wish) -> tuple[str, str]:
    common = [p for p in platform.pythons if p in row.pythons]
    if wish.python is not None:
        wanted = _version(wish.python, "python")
        for python in common:
            if Version(python) == wanted:
                return python, f"Python {python} was wished"
    elif common:
        newest = max(common, key=Version)
        return newest, f"Python {newest} is {platform.title}'s own and has wheels"
    raise UnsatisfiableError(
        f"no Python {wish.python or ''} for TensorFlow {row.release} on {platform.title}".replace(
            "  ", " "
        ),
        got=f"{platform.title} has Python {', '.join(platform.pythons)}; TensorFlow {row.release} "
        f"has wheels for {', '.join(row.pythons)}",
        expected=" or ".join(f'"{p}"' for p in common) or "a platform with one of those Pythons",
    )


def _cuda(
    catalog: Catalog, platform: PlatformRow, row: TensorflowRow, wish: Wish
) -> tuple[CudaRow, str]:
    here = [c for c in catalog.cuda if c.platform == platform.id]
    fitting = [c for c in here if c.release == row.cuda]
    if wish.cuda is not None:
        wanted = _version(wish.cuda, "cuda")
        fitting = [c for c in fitting if wanted in (Version(c.release), Version(c.version))]
    if fitting:
        best = max(fitting, key=lambda c: Version(c.version))
        return best, f"TensorFlow {row.release} was built and tested with CUDA {row.cuda}"
    raise UnsatisfiableError(
        f"no CUDA {wish.cuda or row.cuda} for TensorFlow {row.release} on {platform.title}",
        got=f'cuda: "{wish.cuda}"' if wish.cuda else "",
        expected=" or ".join(
            f'"{v}"' for c in here if c.release == row.cuda for v in (c.release, c.version)
        )
        or f"a platform whose archives have CUDA {row.cuda}",
        hint=f"TensorFlow {row.release} was built with CUDA {row.cuda} and opens its sonames",
    )


def _driver(
    catalog: Catalog, platform: PlatformRow, row: TensorflowRow, cuda: CudaRow, wish: Wish
) -> tuple[DriverRow, str]:
    here = [d for d in catalog.drivers if d.platform == platform.id]
    needed = max(cuda.driver_minimum, row.driver_minimum, key=Version)
    minimum = Version(needed)
    fitting = [d for d in here if Version(d.version) >= minimum]
    if wish.driver_branch is not None:
        fitting = [d for d in fitting if d.branch == wish.driver_branch]
    if fitting:
        best = max(fitting, key=lambda d: Version(d.version))
        how = "was wished" if wish.driver_branch else f"is {platform.title}'s"
        return best, f"branch {best.branch} {how}; CUDA {cuda.release} needs {needed} or newer"
    raise UnsatisfiableError(
        f"no driver of branch {wish.driver_branch} on {platform.title} for CUDA {cuda.release}"
        if wish.driver_branch
        else f"no driver for CUDA {cuda.release} on {platform.title}",
        got=f'driver_branch: "{wish.driver_branch}"' if wish.driver_branch else "",
        expected=" or ".join(f'"{d.branch}"' for d in here if Version(d.version) >= minimum)
        or f"a driver of {needed} or newer",
    )


def _cudnn(
    catalog: Catalog, platform: PlatformRow, row: TensorflowRow, cuda: CudaRow, wish: Wish
) -> tuple[Cudnn, str]:
    here = [
        c
        for c in catalog.cudnn
        if c.architecture == platform.architecture and c.cuda == cuda.release
    ]
    minimum = Version(row.cudnn_minimum)
    if wish.cudnn is None:
        for known in here:
            if known.version == row.cudnn:
                return (
                    _known(known, row),
                    f"TensorFlow {row.release} was built and tested with cuDNN {row.cudnn_minimum}",
                )
    else:
        wanted = _version(wish.cudnn.version, "cudnn")
        if wanted.major != minimum.major or wanted < minimum:
            raise UnsatisfiableError(
                f"cuDNN {wish.cudnn.version} does not serve TensorFlow {row.release}",
                got=f'cudnn: "{wish.cudnn.version}"',
                expected=f"the same major version and at least {row.cudnn_minimum}",
                hint="a library of another major version has another soname, so it is never found",
            )
        if wish.cudnn.cuda is not None and not _serves(wish.cudnn.cuda, cuda.release):
            raise UnsatisfiableError(
                f"a cuDNN for CUDA {wish.cudnn.cuda} does not go with CUDA {cuda.release}",
                got=f'cudnn: {{cuda: "{wish.cudnn.cuda}"}}',
                expected=f'"{cuda.release}"',
            )
        if wish.cudnn.sha256 is not None:
            own = Cudnn(
                version=wish.cudnn.version,
                cuda=wish.cudnn.cuda or cuda.release,
                sha256=wish.cudnn.sha256,
                soname=f"libcudnn.so.{wanted.major}",
                minimum=row.cudnn_minimum,
            )
            return own, (
                f"an archive of {wish.cudnn.version} with its hash was wished; "
                f"at least {row.cudnn_minimum} is needed"
            )
        for known in here:
            if Version(known.version) == wanted:
                return _known(known, row), f"cuDNN {known.version} was wished"
    asked = wish.cudnn.version if wish.cudnn else row.cudnn
    raise UnsatisfiableError(
        f"no cuDNN {asked} for CUDA {cuda.release} in the catalog",
        got=f'cudnn: "{asked}"',
        expected=" or ".join(f'"{c.version}"' for c in here)
        or "an archive of your own, with its sha256",
        hint='for another archive: cudnn: {version: "...", cuda: "...", sha256: "<64 hex digits>"}',
    )


def _known(row: CudnnRow, tensorflow: TensorflowRow) -> Cudnn:
    return Cudnn(row.version, row.cuda, row.sha256, row.soname, tensorflow.cudnn_minimum)


def _serves(built_for: str, release: str) -> bool:
    """cuDNN of 11.2 serves 11.2; from 8.3 on an archive may say just "11" or "11.x"."""
    return built_for == release or built_for.removesuffix(".x") == release.split(".", maxsplit=1)[0]


def _version(text: str, key: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise InputError(
            f"{key} is not a version",
            where="gpu_stack",
            got=repr(text),
            expected='"2.9" or "2.9.3"',
        ) from None


def _nearest(wanted: Version, known: Iterable[str]) -> Sequence[str]:
    """At most three known versions, closest first; a release rather than its patches."""

    def distance(text: str) -> tuple[int, int, int, str]:
        v = Version(text)
        return (
            abs(v.major - wanted.major),
            abs(v.minor - wanted.minor),
            0 if len(v.release) == len(wanted.release) else 1,
            text,
        )

    return sorted(dict.fromkeys(known), key=distance)[:3]


def _names(hosts: Sequence[str]) -> str:
    shown = ", ".join(hosts[:3])
    return shown + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
