"""A Packages index as data: its packages, their relations, Debian's order of versions.

Everything here is pure.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from debian.deb822 import Deb822, PkgRelation
from debian.debian_support import NativeVersion

from provision.catalog.rows import DriverRow
from provision.errors import UnsatisfiableError

Relation = tuple[str, str, str]  # name, operator ("" when any version does), version
Alternatives = tuple[Relation, ...]

_ARCHITECTURE_QUALIFIER = re.compile(r":[a-z0-9-]+$")


@dataclass(frozen=True)
class Package:
    """One stanza of a Packages index."""

    name: str
    version: str
    source: str
    origin: str  # "bullseye/non-free"
    sha256: str
    size: int
    filename: str
    depends: tuple[Alternatives, ...] = ()
    conflicts: tuple[Alternatives, ...] = ()
    provides: tuple[Relation, ...] = ()


@dataclass(frozen=True)
class Source:
    """A suite whose signature was verified, as it goes into the lock."""

    url: str
    suite: str
    components: tuple[str, ...]
    signed_by: tuple[str, ...]
    date: str
    sha256: str


@dataclass(frozen=True)
class Repository:
    """A repository of NVIDIA's: on the network, or (with `sha256`) inside the file at `url`.

    `key` is the armored key that signs it, by one of the `fingerprints`; `directory` is where the
    file unpacks the repository.
    """

    url: str
    suite: str
    key: str
    fingerprints: tuple[str, ...]
    packages: tuple[Package, ...]
    source: Source
    sha256: str = ""
    directory: str = ""


@dataclass(frozen=True)
class Runfile:
    """A driver's installer."""

    url: str
    sha256: str


@dataclass(frozen=True)
class Indices:
    """All packages of a platform's archives, and the suites they were read from.

    NVIDIA's repositories and .run files are keyed by their URL in the catalog.
    """

    packages: tuple[Package, ...]
    sources: tuple[Source, ...]
    repositories: Mapping[str, Repository] = field(default_factory=dict, hash=False)
    runfiles: Mapping[str, Runfile] = field(default_factory=dict, hash=False)

    @property
    def everything(self) -> list[Package]:
        """The packages of all archives and repositories."""
        return [*self.packages, *(p for r in self.repositories.values() for p in r.packages)]

    def for_driver(self, driver: DriverRow) -> Sequence[Package]:
        """The packages that a driver's set may be chosen from.

        A repository of NVIDIA's has all versions of all branches, and some names without a branch.
        Where a name has a package of the driver's version, no other is a candidate; of the other
        names that are numbered as drivers are, no newer one, unless all are newer.
        """
        if driver.origin == "distribution":
            return self.packages
        if driver.origin != "network":
            return ()
        packages = self.repositories[driver.url].packages
        exact = {p.name for p in packages if upstream(p.version) == driver.version}
        older = {p.name for p in packages if _follows(p, driver.version)}
        return [
            p
            for p in packages
            if (p.name not in exact or upstream(p.version) == driver.version)
            and (p.name not in older or _follows(p, driver.version))
        ]

    def kernel_of(self, driver: DriverRow) -> list[str]:
        """The packages with a driver's kernel module: signed where those follow the newest kernel.

        Canonical stops building the modules of an old branch long before its driver leaves the
        archive: the last ones are for a kernel that no host has any more.
        """
        kernels: dict[str, tuple[int, ...]] = {}
        if driver.modules == "dkms":
            return driver.kernel
        for package in self.for_driver(driver) if driver.signed else ():
            match = _OF_KERNELS.match(f"{package.name} {package.version}")
            if match:
                kernel = tuple(int(part) for part in re.split(r"[.-]", match["kernel"]))
                kernels[package.name] = max(kernel, kernels.get(package.name, ()))
        newest = max(kernels.values(), default=())
        modules = [name for name in driver.signed if name.startswith("linux-")]
        if modules and all(kernels.get(name) == newest for name in modules):
            return driver.signed
        if driver.modules == "signed":
            raise UnsatisfiableError(
                f"the archive of {driver.platform} has no signed modules of driver branch "
                f"{driver.branch} for its newest kernel",
                where="gpu_stack",
                got="driver_modules: signed",
                expected="another driver_branch, or driver_modules: dkms",
            )
        return driver.kernel


# The package that follows the newest kernel, with the kernel that it follows now.
_OF_KERNELS = re.compile(
    r"linux-modules-nvidia-\d+(-server)?(-open)?-generic (?P<kernel>\d+\.\d+\.\d+-\d+)"
)


def _follows(package: Package, version: str) -> bool:
    """Whether the package is numbered as drivers are, and no newer than `version`."""
    numbered = package.name.startswith(("nvidia-", "libnvidia-", "libxnvctrl"))
    return numbered and compare(upstream(package.version), version) <= 0


@functools.lru_cache(maxsize=100_000)
def compare(left: str, right: str) -> int:
    """Debian's own order of versions: negative, zero or positive."""
    a, b = NativeVersion(left), NativeVersion(right)
    return int(a > b) - int(a < b)


def satisfies(version: str, operator: str, required: str) -> bool:
    """Whether `version` fulfils `(operator wanted)`; an empty operator is always fulfilled."""
    if not operator:
        return True
    order = compare(version, required)
    return {
        "=": order == 0,
        "<<": order < 0,
        "<=": order <= 0,
        ">=": order >= 0,
        ">>": order > 0,
        "<": order <= 0,  # the deprecated forms mean "or equal" (Debian policy 7.1)
        ">": order >= 0,
    }[operator]


def fulfils(package: Package, relation: Relation) -> bool:
    """Whether a package fulfils one alternative, by its name or by what it provides."""
    name, operator, version = relation
    if package.name == name and satisfies(package.version, operator, version):
        return True
    return any(
        provided == name and (not operator or bool(v and satisfies(v, operator, version)))
        for provided, _, v in package.provides
    )


def upstream(version: str) -> str:
    """`470.256.02-2` and `1:470.256.02-2` -> `470.256.02`."""
    return NativeVersion(version).upstream_version or version


def _relations(text: str) -> tuple[Alternatives, ...]:
    if not text.strip():
        return ()
    groups = []
    for group in PkgRelation.parse_relations(text):
        alternatives = []
        for relation in group:
            name = _ARCHITECTURE_QUALIFIER.sub("", relation["name"])
            operator, version = relation.get("version") or ("", "")
            alternatives.append((name, operator, version))
        groups.append(tuple(alternatives))
    return tuple(groups)


def parse(text: str, origin: str) -> list[Package]:
    """The packages of a Packages index. `origin` is kept for the lock ("bullseye/non-free")."""
    packages = []
    for stanza in Deb822.iter_paragraphs(text, use_apt_pkg=False):
        joined = ", ".join(stanza[k] for k in ("Pre-Depends", "Depends") if k in stanza)
        against = ", ".join(stanza[k] for k in ("Conflicts", "Breaks") if k in stanza)
        packages.append(
            Package(
                name=stanza["Package"],
                version=stanza["Version"],
                source=stanza.get("Source", stanza["Package"]).split(" ")[0],
                origin=origin,
                sha256=stanza["SHA256"],
                size=int(stanza["Size"]),
                filename=stanza["Filename"],
                depends=_relations(joined),
                conflicts=_relations(against),
                provides=tuple(g[0] for g in _relations(stanza.get("Provides", ""))),
            )
        )
    return packages
