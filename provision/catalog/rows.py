"""The rows of the catalog, checked as they are read: one class for each kind of fact."""

from __future__ import annotations

from typing import Annotated

from packaging.version import Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from provision.models import Platform


def _sourced(text: str) -> str:
    if "http" not in text:
        raise ValueError("a source is a link that a reader can open")
    return text


Source = Annotated[str, AfterValidator(_sourced)]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9A-F]{40}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


# What the catalog leaves to apt, and a host takes from its archive without saying so.
_OWN_COMPONENTS = {"debian": ("main",), "ubuntu": ("main", "universe")}


def own_components(distribution: str) -> tuple[str, ...]:
    """The components of a distribution's archive that each of its hosts has."""
    return _OWN_COMPONENTS.get(distribution, ())


class Row(BaseModel):
    """One fact; unknown keys are typing mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    source: Source


class Archive(BaseModel):
    """One signed suite of a package archive."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: str
    suite: str
    label: str
    components: list[str]
    signed_by: list[Fingerprint] = Field(min_length=1)
    # The places that keep the suite when it has left `url`.
    mirrors: list[str] = []
    # A mirror of the user's own, which need not have every component.
    partial: bool = False


class PlatformRow(Row):
    """A platform that hosts may have; the first of `pythons` is its own."""

    id: str
    title: str
    distribution: str
    release: str
    architecture: str
    package_architecture: str
    pythons: list[str]
    wheel_platform: str
    archives: list[Archive]
    # The CUDA of its own archive that no row of `cuda` describes.
    archive_cuda: str = ""
    # Of the platform's own packages: the kernel's series, the headers' metapackage, the default
    # gcc and all majors, apt's version.
    kernel: str = ""
    headers: str = ""
    gcc: str = ""
    gccs: list[str] = []
    apt: str = ""

    @property
    def platform(self) -> Platform:
        """The platform as hosts report it."""
        return Platform(self.distribution, self.release, self.architecture)

    @property
    def python(self) -> str:
        """The Python that it comes with, as /usr/bin/python3."""
        return self.pythons[0]


class DriverRow(Row):
    """A driver branch on a platform.

    `origin` is where it comes from: the platform's own packages, NVIDIA's repository at `url`, or
    the installer at `url` (with its hash, where that is known). `signed` replaces `kernel` where
    the index has it: modules that need no compiler and no key of the host's own. `modules` is not
    the catalog's but a wish's: "signed" or "dkms".
    """

    platform: str
    branch: str
    version: str
    # The suite with this version; a security suite keeps only its newest.
    suite: str = ""
    supports_cuda: str
    userspace: list[str]
    kernel: list[str]
    signed: list[str] = []
    modules: str = ""
    desktop: list[str]
    branch_sources: list[str]
    origin: str = "distribution"
    url: str = ""
    sha256: str = ""


class DriverBranchRow(Row):
    """A driver branch of NVIDIA's, wherever it is installed from."""

    branch: str
    kind: str
    first: str | None
    newest: str | None
    end: str | None
    supports_cuda: str | None
    modules: list[str]


class CudaWindow(BaseModel):
    """A compute capability's first driver branch, and the CUDA releases that make code for it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    driver_first: str | None = None
    cuda_first: str | None = None
    cuda_last: str | None = None


class GenerationRow(Row):
    """A GPU generation, and the driver branches that drive it (None: no end yet).

    `superchips` are names of GPUs whose hosts are aarch64.
    """

    name: str
    capabilities: dict[str, CudaWindow]
    driver_first: str
    driver_last: str | None
    modules: str
    superchips: list[str] = []


class CudaVersion(BaseModel):
    """A patch of a CUDA release, and the driver in its release notes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    driver_exact: str | None


class CudaReleaseRow(Row):
    """A CUDA release of NVIDIA's, wherever it is installed from."""

    release: str
    versions: dict[str, CudaVersion]
    driver_minimum: str
    gcc_maximum: str
    capabilities: list[str]
    sonames: list[str]


class PackagedFile(BaseModel):
    """A file, and the package that it must come from."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    path: str
    package: str


class CudaRow(Row):
    """A CUDA release on a platform."""

    platform: str
    release: str
    version: str
    driver_minimum: str
    runtime: list[str]
    toolkit: list[str]
    sonames: dict[str, str]
    files: dict[str, PackagedFile]
    path: list[str]
    library: list[str]
    xla_cuda_data_dir: str


class CudnnRow(Row):
    """A cuDNN archive of known hash."""

    version: str
    cuda: str
    architecture: str
    soname: str
    sha256: Sha256
    urls: list[str]


class TensorflowRow(Row):
    """A TensorFlow release and what it was tested with.

    `sonames` are the libraries it opens by name, all of them or no GPU is used; `capabilities` and
    `ptx` the compute capabilities that its machine code and its PTX were made for, `ptx_newest` the
    newest one for which drivers are known to translate that PTX; `cuda_wheels` the wheels that the
    newest patch's extra `and-cuda` asks for (none before 2.14).
    """

    release: str
    patches: list[str]
    pythons: list[str]
    cuda: str
    cudnn: str
    cudnn_minimum: str
    driver_minimum: str
    sonames: list[str]
    capabilities: list[str]
    ptx: list[str]
    ptx_newest: str
    constraints: list[str]
    sdists: dict[str, list[str]] = {}
    cuda_wheels: dict[str, str]
    cuda_wheels_pythons: list[str] = []


class Keyring(BaseModel):
    """The package that brings a repository's key."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    file: str
    sha256: Sha256 | None


class NvidiaSourceRow(Row):
    """A package repository of NVIDIA's for a platform: on the network, or inside one package.

    `cuda` is the exact version of a local repository; `cuda_first` and `cuda_last` the releases
    of a network repository (last None: it still gets new ones). `drivers` are branches that it is
    known to have; it may have more.
    """

    platform: str
    architecture: str
    kind: str
    url: str
    suite: str = "/"
    signed_by: list[Fingerprint] | None
    cuda_first: str | None = None
    cuda_last: str | None = None
    drivers: list[str] = []
    keyring: Keyring | None = None
    cuda: str | None = None
    driver: str | None = None
    file: str | None = None
    sha256: Sha256 | None = None

    def carries(self, release: str) -> bool:
        """Whether a network repository has this CUDA release."""
        oldest, newest = self.cuda_first, self.cuda_last
        if self.kind != "network" or oldest is None or Version(release) < Version(oldest):
            return False
        return newest is None or Version(release) <= Version(newest)


class NvidiaRunfileRow(Row):
    """An installer of NVIDIA's: a whole toolkit, or a driver."""

    kind: str
    version: str
    driver: str
    architecture: str
    url: str
    sha256: Sha256 | None


class NvidiaPackagesRow(Row):
    """The names of CUDA's packages in NVIDIA's repositories; `<r>` is the release as in 11-2.

    `sonames` are the libraries (without `.so` and what follows), each with its package; `files` are
    paths under the prefix, in which `<release>` is 11.2.
    """

    first: str
    last: str
    toolkit: list[str]
    runtime: list[str]
    nvcc: list[str]
    sonames: dict[str, str]
    files: dict[str, PackagedFile]
    prefix: str

    def names(self, release: str) -> bool:
        """Whether the row is for this CUDA release."""
        return Version(self.first) <= Version(release) <= Version(self.last)

    def of(self, text: str, release: str) -> str:
        """A name or a path of this row, for a release."""
        return text.replace("<release>", release).replace("<r>", release.replace(".", "-"))


class NvidiaDriverPackagesRow(Row):
    """The names of the driver's packages in NVIDIA's repositories; `<b>` is the branch."""

    distribution: str
    first: str
    last: str
    userspace: list[str]
    kernel: list[str]
    desktop: list[str]

    def names(self, distribution: str, branch: str) -> bool:
        """Whether the row is for this distribution and branch."""
        inside = Version(self.first) <= Version(branch) <= Version(self.last)
        return inside and self.distribution == distribution


class TransitionalRow(Row):
    """A package that is named for one driver branch and installs another."""

    platform: str
    package: str
    branch: str
    installs: str


class NvidiaKeyRow(Row):
    """A signing key of NVIDIA's, and the platforms whose apt refuses the published file."""

    name: str
    fingerprint: Fingerprint
    file: str
    sha256: Sha256 | None
    signs: list[str]
    refused_by: list[str]


class EngineRow(Row):
    """The container engines in a platform's own archive and in its security suite."""

    platform: str
    packages: dict[str, str]
    security: dict[str, str]
