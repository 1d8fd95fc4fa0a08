"""The parts of a stack with exact versions: packages, libraries, files and wheels.

Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provision.errors import UnsatisfiableError
from provision.lock.model import wheels
from provision.lock.own import OWN
from provision.lock.pieces import repository_data, versions
from provision.resolve import Stack
from provision.upstream.closure import (
    Branch,
    Universe,
    close,
    driver_packages,
    minus,
    without_kernels,
)
from provision.upstream.packages import Indices, Package, Repository, upstream


def package_names(stack: Stack, indices: Indices) -> list[str]:
    """The names of the packages of a driver and its CUDA."""
    driver = stack.driver
    branch = Branch(driver.version, frozenset(driver.branch_sources))
    row = stack.cuda.row
    roots = [*driver.userspace, *indices.kernel_of(driver), *driver.desktop]
    driver_set = close(Universe.of(indices.for_driver(driver)), roots, branch)
    if stack.cuda.source is not None:
        universe = Universe.of(_of_patch(stack, indices.repositories[stack.cuda.source.url]))
        more = [*_nvidia_names(stack).runtime, *_nvidia_names(stack).toolkit]
    else:
        universe = Universe.of(indices.packages)
        more = [*row.runtime, *row.toolkit] if row else []
    return sorted({*driver_set, *close(universe, more, branch, driver_set)})


def closed(
    stack: Stack, indices: Indices, requirements: str, prefer: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Package]]:
    """(component -> its part of the lock, name -> package) of a stack."""
    part, driver = _driver(stack, indices, prefer)
    branch = Branch(stack.driver.version, frozenset(stack.driver.branch_sources))
    cuda, toolkit = _cuda(stack, indices, prefer, branch, driver)
    parts: dict[str, Any] = {
        "nvidia_driver": part,
        **cuda,
        "gpu_env": _gpu_env(stack),
    }
    own_packages: dict[str, Package] = {}
    for name, own in OWN.items():
        own_part, packages = own.part(stack, indices, prefer)
        if own_part:
            parts[name] = own_part
            own_packages |= packages
    parts["tensorflow"] = _tensorflow(stack, requirements)
    packages = {**driver, **toolkit, **own_packages}
    return parts, {name: packages[name] for name in sorted(packages)}


def _driver(
    stack: Stack, indices: Indices, prefer: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Package]]:
    """The part `nvidia_driver`, and its packages; an installer has none."""
    row = stack.driver
    universe = Universe.of(indices.for_driver(row), prefer)
    branch = Branch(row.version, frozenset(row.branch_sources))
    userspace = close(universe, row.userspace, branch)
    roots = indices.kernel_of(row)
    kernel = without_kernels(minus(close(universe, roots, branch, userspace), userspace))
    chosen = {**userspace, **kernel}
    desktop = without_kernels(minus(close(universe, row.desktop, branch, chosen), chosen))
    packages = {**chosen, **desktop}
    part: dict[str, Any] = {"branch": row.branch, "version": row.version}
    if row.origin != "distribution":
        part["source"] = row.origin
        _check_version(row.userspace, packages, row.version, indices.for_driver(row), stack.id)
    part["packages"] = {
        "userspace": versions(userspace),
        "kernel": versions(kernel),
        "desktop": versions(desktop),
    }
    if row.origin == "network":
        part["repository"] = repository_data(indices.repositories[row.url])
    elif row.origin == "runfile":
        run = indices.runfiles[row.url]
        part["runfile"] = {"url": run.url, "sha256": run.sha256}
    return part, packages


def _check_version(
    roots: Sequence[str],
    packages: Mapping[str, Package],
    version: str,
    candidates: Iterable[Package],
    where: str,
) -> None:
    """UnsatisfiableError where a root is not of `version`; its message lists the candidates'."""
    for root in roots:
        if upstream(packages[root].version) != version:
            offered = sorted({p.version for p in candidates if p.name == root})
            raise UnsatisfiableError(
                f"NVIDIA's repository has no {root} of version {version}",
                where=where,
                got=", ".join(offered),
                expected=f"{root} {version}-...",
                hint="wish for a version that is there; an exact one is driver_branch's or cuda's",
            )


@dataclass(frozen=True)
class _Names:
    """The packages, libraries and files of a stack's CUDA."""

    runtime: Sequence[str]
    toolkit: Sequence[str]
    sonames: Mapping[str, str]
    files: Mapping[str, Mapping[str, str]]


def _nvidia_names(stack: Stack) -> _Names:
    """The names in NVIDIA's repository for the stack's CUDA release."""
    cuda = stack.cuda
    names, facts = cuda.names, cuda.facts
    if names is None or facts is None:
        raise UnsatisfiableError(f"this version can't install {stack.missing}", where=stack.id)
    owners = {key: names.of(package, cuda.release) for key, package in names.sonames.items()}
    return _Names(
        runtime=[names.of(name, cuda.release) for name in (*names.runtime, *names.nvcc)],
        toolkit=[names.of(name, cuda.release) for name in names.toolkit],
        sonames={soname: owners[soname.partition(".so")[0]] for soname in facts.sonames},
        files={
            key: {
                "path": f"{cuda.prefix}/{names.of(file.path, cuda.release)}",
                "package": names.of(file.package, cuda.release),
            }
            for key, file in names.files.items()
        },
    )


def _cuda(
    stack: Stack,
    indices: Indices,
    prefer: Mapping[str, str],
    branch: Branch,
    driver: Mapping[str, Package],
) -> tuple[dict[str, Any], dict[str, Package]]:
    """The parts `cuda` and `cudnn`, and CUDA's packages; neither where they come as wheels."""
    row, source = stack.cuda.row, stack.cuda.source
    if stack.cuda.origin == "wheels":
        return {}, {}
    if row is not None:
        files = {
            key: {"path": file.path, "package": file.package} for key, file in row.files.items()
        }
        names = _Names(row.runtime, row.toolkit, row.sonames, files)
        universe = Universe.of(indices.packages, prefer)
    elif source is not None:
        names = _nvidia_names(stack)
        universe = Universe.of(_of_patch(stack, indices.repositories[source.url]), prefer)
    else:
        raise UnsatisfiableError(f"this version can't install {stack.missing}", where=stack.id)
    # The driver's libraries are installed with the driver: CUDA only lists its own packages.
    runtime = minus(close(universe, names.runtime, branch, driver), driver)
    chosen = {**driver, **runtime}
    toolkit = minus(close(universe, [*names.runtime, *names.toolkit], branch, chosen), driver)
    for item, package in [
        *names.sonames.items(),
        *((file["path"], file["package"]) for file in names.files.values() if source is not None),
    ]:
        if package not in runtime:
            raise UnsatisfiableError(f"{item} should come from {package}, which is not in the set")
    part: dict[str, Any] = {
        "release": stack.cuda.release,
        "version": stack.cuda.version,
        "packages": {"runtime": versions(runtime), "toolkit": versions(toolkit)},
        "sonames": dict(names.sonames),
        "files": {key: dict(file) for key, file in names.files.items()},
    }
    if source is not None:
        repository = indices.repositories[source.url]
        _check_nvidia_packages(stack, names, toolkit, repository)
        part = _with_source(stack, part, repository)
    cudnn = {
        "version": stack.cudnn.version,
        "cuda": stack.cudnn.cuda,
        "sha256": stack.cudnn.sha256,
        "soname": stack.cudnn.soname,
        "minimum": stack.cudnn.minimum,
    }
    return {"cuda": part, "cudnn": cudnn}, toolkit


def _of_patch(stack: Stack, repository: Repository) -> list[Package]:
    """The repository's packages; of those that have the stack's patch of CUDA, that one alone."""
    packages, version = repository.packages, stack.cuda.version
    exact = {p.name for p in packages if upstream(p.version) == version}
    return [p for p in packages if p.name not in exact or upstream(p.version) == version]


def _check_nvidia_packages(
    stack: Stack, names: _Names, toolkit: Mapping[str, Package], repository: Repository
) -> None:
    """UnsatisfiableError where NVIDIA's CUDA is of another version, or would bring a driver."""
    _check_version(names.toolkit, toolkit, stack.cuda.version, repository.packages, stack.id)
    drivers = driver_packages(toolkit.values())
    if drivers:
        raise UnsatisfiableError(
            f"the packages of CUDA {stack.cuda.release} would bring a driver",
            where=repository.url,
            got=", ".join(drivers),
            expected="CUDA alone: the driver is a component of its own",
            hint="a fault of the repository, or of the catalog's row for its packages",
        )


def _with_source(stack: Stack, part: Mapping[str, Any], repository: Repository) -> dict[str, Any]:
    """The part `cuda` of NVIDIA's own packages: with their source and their prefix on the host."""
    result = {"release": part["release"], "version": part["version"], "source": stack.cuda.origin}
    result |= {key: value for key, value in part.items() if key not in result}
    result["prefix"] = stack.cuda.prefix
    if not repository.sha256:
        return result | {"repository": repository_data(repository)}
    installer = {
        "url": repository.url,
        "sha256": repository.sha256,
        "key": repository.key,
        "fingerprints": list(repository.fingerprints),
        "directory": repository.directory,
    }
    return result | {"installer": installer}


def _gpu_env(stack: Stack) -> dict[str, Any]:
    """The part `gpu_env`; empty values where CUDA comes as wheels.

    TensorFlow finds those by itself: libraries by RUNPATH and by links beside its own; libdevice
    and ptxas in ../nvidia/cuda_nvcc, where XLA looks (docs/decisions/0006-cuda-as-wheels.md).
    """
    row, prefix = stack.cuda.row, stack.cuda.prefix
    if prefix:
        return {
            "xla_cuda_data_dir": prefix,
            "path": [f"{prefix}/bin"],
            "library": [f"{prefix}/lib64"],
        }
    return {
        "xla_cuda_data_dir": row.xla_cuda_data_dir if row else "",
        "path": list(row.path) if row else [],
        "library": list(row.library) if row else [],
    }


def _tensorflow(stack: Stack, requirements: str) -> dict[str, Any]:
    """The part `tensorflow`; with CUDA as wheels also the wheel of each library it opens."""
    locked = wheels(requirements)
    part: dict[str, Any] = {"version": stack.tensorflow, "python": stack.python}
    if stack.cuda.origin == "wheels":
        part["cuda_source"] = "wheels"
        part["sonames"] = _wheels_of(stack.row.sonames if stack.row else [], locked)
    part["wheels"] = locked
    part["requirements_sha256"] = hashlib.sha256(requirements.encode()).hexdigest()
    return part


# Library -> the word in its wheel's name: libcublasLt.so.12 is in nvidia-cublas-cu12.
_WHEELS = {
    "libcudart": "cuda-runtime",
    "libcublas": "cublas",
    "libcublasLt": "cublas",
    "libcufft": "cufft",
    "libcurand": "curand",
    "libcusolver": "cusolver",
    "libcusparse": "cusparse",
    "libcudnn": "cudnn",
    "libcupti": "cuda-cupti",
    "libnccl": "nccl",
    "libnvJitLink": "nvjitlink",
    "libnvrtc": "cuda-nvrtc",
}


def _wheels_of(sonames: Sequence[str], locked: Mapping[str, str]) -> dict[str, str]:
    """Library -> its wheel. UnsatisfiableError for a library that no locked wheel brings."""
    owners = {}
    for soname in sonames:
        word = _WHEELS.get(soname.partition(".so")[0])
        names = [name for name in locked if re.fullmatch(rf"nvidia-{word}(-cu\d+)?", name)]
        if word is None or len(names) != 1:
            raise UnsatisfiableError(
                f"no wheel brings {soname}",
                got=", ".join(name for name in locked if name.startswith("nvidia-")) or "none",
                expected=f"nvidia-{word}-cu..." if word else "a library of CUDA's or cuDNN's",
            )
        owners[soname] = names[0]
    return owners


def wanted(stack: Stack) -> list[str]:
    """The requirements of the venv; the stack's constraints pin the wheels of the extra."""
    extra = "[and-cuda]" if stack.cuda.origin == "wheels" else ""
    return [f"tensorflow{extra}=={stack.tensorflow}", *stack.packages]
