"""A stack, its parts, and a choice of hosts that get it."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from provision.catalog.rows import (
    CudaReleaseRow,
    CudaRow,
    DriverRow,
    NvidiaPackagesRow,
    NvidiaSourceRow,
    PlatformRow,
    TensorflowRow,
)
from provision.models import Reason, Wish
from provision.resolve.words import and_list

ORIGINS = {
    "distribution": "the distribution's own packages",
    "wheels": "the wheels that tensorflow[and-cuda] brings",
    "network": "NVIDIA's network repository",
    "local": "NVIDIA's local installer",
}
DRIVER_ORIGINS = {
    "distribution": "its own packages",
    "network": "NVIDIA's network repository",
    "runfile": "NVIDIA's .run file",
}


@dataclass(frozen=True)
class Tensorflow:
    """A patch of a release."""

    version: str
    row: TensorflowRow = field(compare=False)


@dataclass(frozen=True)
class Cuda:
    """A CUDA for hosts of one platform; `platform` is empty for wheels, which are for any."""

    release: str
    version: str
    origin: str
    platform: str
    # For wheels: the TensorFlow patch whose metadata names them.
    tensorflow: str = ""
    row: CudaRow | None = field(default=None, compare=False)
    facts: CudaReleaseRow | None = field(default=None, compare=False)
    # For NVIDIA's own: the source, and how its packages are named (None: unknown).
    source: NvidiaSourceRow | None = field(default=None, compare=False)
    names: NvidiaPackagesRow | None = field(default=None, compare=False)

    @property
    def installable(self) -> bool:
        """Whether `lock` and the roles can install it; they refuse the others."""
        return self.origin in ("distribution", "wheels") or self.names is not None

    @property
    def prefix(self) -> str:
        """The directory of NVIDIA's own toolkit; "" for any other."""
        return self.names.of(self.names.prefix, self.release) if self.names else ""

    @property
    def driver_minimum(self) -> str:
        """The oldest driver this CUDA runs on, by minor version compatibility."""
        row = self.row or self.facts
        return row.driver_minimum if row else "0"


@dataclass(frozen=True)
class Cudnn:
    """The cuDNN that was chosen; without `sha256` it comes with the wheels."""

    version: str
    cuda: str
    sha256: str
    soname: str
    minimum: str = ""
    origin: str = "archive"
    tensorflow: str = ""
    architecture: str = ""


@dataclass(frozen=True)
class Stack:
    """One consistent choice for one platform. Exact packages and wheels come with the lock."""

    platform: PlatformRow
    driver: DriverRow
    cuda: Cuda
    cudnn: Cudnn
    python: str
    tensorflow: str
    gcc: str
    constraints: tuple[str, ...]
    sdists: tuple[str, ...]
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...] = ()
    row: TensorflowRow | None = field(default=None, compare=False)
    packages: tuple[str, ...] = ()
    # {word: its choice} of the components that have a file in resolve/own, where one was wished.
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def id(self) -> str:
        """The name of the stack in lock, tree and receipt, made of its versions.

        Packages wished beside TensorFlow add a hash, for two lists are two environments.
        """
        cuda = self.cuda.origin if self.cuda.origin != "distribution" else ""
        driver = self.driver.origin if self.driver.origin != "distribution" else ""
        driver += self.driver.modules
        own = "".join(choice.mark for choice in self.own.values())
        more = ""
        if self.packages:
            text = "\n".join(self.packages)
            more = f"-packages{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        return (
            f"{self.platform.id}-tensorflow{self.tensorflow}{more}-cuda{cuda}{self.cuda.version}"
            f"-cudnn{self.cudnn.version}{own}-driver{driver}{self.driver.version}"
        )

    @property
    def begins(self) -> str:
        """The beginning of the id in a lock, without a driver version that the index decides."""
        driver = self.driver
        ubuntus = driver.origin == "distribution" and self.platform.distribution == "ubuntu"
        if driver.origin != "network" and not ubuntus:
            return self.id
        return f"{self.id.removesuffix(driver.version)}{driver.branch}."

    @property
    def native(self) -> bool:
        """Whether all of it comes from Debian's own archive or as wheels."""
        own = self.driver.origin == "distribution" and self.cuda.origin in (
            "distribution",
            "wheels",
        )
        return own and self.platform.distribution == "debian"

    @property
    def missing(self) -> str:
        """The part that is known but can't be installed by this version yet; "" for none."""
        if not self.cuda.installable:
            return f"CUDA {self.cuda.release} from {ORIGINS[self.cuda.origin]}"
        if self.sdists:
            return f"{and_list(self.sdists)} from source, and TensorFlow {self.tensorflow} needs it"
        return ""


@dataclass(frozen=True)
class Choice:
    """A future row of the lock: hosts of this platform with this wish get this stack.

    With `generations` only hosts whose GPUs are of exactly these. `models`: the GPU names that the
    inventory has for such hosts, each with the PCI device ids that it can mean.
    """

    platform: PlatformRow
    wish: Wish
    stack: Stack
    # Only the TensorFlow environments of these are made: the driver is the stack's.
    beside: tuple[Stack, ...] = ()
    generations: tuple[str, ...] = ()
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


def wheel_versions(row: TensorflowRow) -> dict[str, str]:
    """Name -> version of the wheels that bring CUDA; the lowest version of a range.

    Since 2.20 TensorFlow requires ranges that reach into CUDA releases it was not tested with.
    """
    versions = {}
    for name, specifier in row.cuda_wheels.items():
        lowest = re.match(r"(?:==|>=)?([\d.]+)", specifier)
        versions[name] = lowest.group(1) if lowest else specifier
    return versions


def sdists(row: TensorflowRow, python: str) -> tuple[str, ...]:
    """The requirements without a wheel for this Python."""
    return tuple(name for name, pythons in row.sdists.items() if not pythons or python in pythons)


def same(left: Stack, right: Stack) -> bool:
    """Whether two stacks install the same; reasons and gcc are not part of a lock's stack."""
    blank: dict[str, Any] = {"reasons": (), "warnings": (), "gcc": ""}
    return dataclasses.replace(left, **blank) == dataclasses.replace(right, **blank)
