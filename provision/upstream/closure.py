"""Which exact packages make up a driver or a CUDA: a small closure over contrib and non-free.

apt resolves towards the newest version, and Debian 11's security archive carries driver 535 under
the names of driver 470; so a branch only stays what it is if every package of the closure is named
with its version. The packages of `main` are left to apt and its signed indices.

Everything here is pure: parsed indices in, a set of versions out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from provision.errors import UnsatisfiableError
from provision.upstream.packages import (
    Alternatives,
    Package,
    Relation,
    compare,
    fulfils,
    satisfies,
    upstream,
)


@dataclass(frozen=True)
class Branch:
    """The driver branch that every package of these sources must follow."""

    version: str  # "470.256.02"
    sources: frozenset[str]

    def allows(self, package: Package) -> bool:
        """Whether the package is of this branch; a driver's own package must have its version."""
        if package.source not in self.sources:
            return True
        if package.source.startswith("nvidia-graphics-drivers"):
            return upstream(package.version) == self.version
        return compare(upstream(package.version), self.version) <= 0


def _newest_first(a: Package, b: Package) -> int:
    return -compare(a.version, b.version) or int(a.origin > b.origin) - int(a.origin < b.origin)


@dataclass
class Universe:
    """All candidates of the indices, by name and by what they provide."""

    by_name: dict[str, list[Package]] = field(default_factory=dict)
    providers: dict[str, list[Package]] = field(default_factory=dict)

    @classmethod
    def of(cls, packages: Iterable[Package], prefer: Mapping[str, str] | None = None) -> Universe:
        """The packages by name, the version in `prefer` first, then the newest.

        The order of the input plays no part.
        """
        universe = cls()
        preferred = prefer or {}

        def preferred_first(a: Package, b: Package) -> int:
            order = int(preferred.get(a.name) != a.version) - int(
                preferred.get(b.name) != b.version
            )
            return order or _newest_first(a, b)

        order = functools.cmp_to_key(preferred_first)
        for package in sorted(packages, key=lambda p: (p.name, p.version, p.origin)):
            universe.by_name.setdefault(package.name, []).append(package)
            for name, _, _ in package.provides:
                universe.providers.setdefault(name, []).append(package)
        for candidates in (*universe.by_name.values(), *universe.providers.values()):
            candidates.sort(key=order)
        return universe

    def candidates(self, relation: Relation, branch: Branch) -> list[Package]:
        """The packages that fulfil one alternative: those of its name first, then providers."""
        name, operator, version = relation
        real = [
            p
            for p in self.by_name.get(name, [])
            if branch.allows(p) and satisfies(p.version, operator, version)
        ]
        virtual = [
            p
            for p in self.providers.get(name, [])
            if branch.allows(p)
            and any(
                n == name and (not operator or (v and satisfies(v, operator, version)))
                for n, _, v in p.provides
            )
        ]
        return real + virtual

    def knows(self, name: str) -> bool:
        """Whether the indices have a package of this name, real or virtual."""
        return name in self.by_name or name in self.providers


def close(
    universe: Universe,
    roots: Sequence[str],
    branch: Branch,
    chosen: Mapping[str, Package] | None = None,
) -> dict[str, Package]:
    """Name -> package for `roots` and everything they need from these indices, sorted by name.

    `chosen` are packages that are already decided and keep their versions; they are part of the
    result only if needed. UnsatisfiableError when a root or a dependency has no fitting version, or
    when two chosen packages contradict each other.
    """
    fixed = dict(chosen or {})
    result: dict[str, Package] = {}
    queue: list[tuple[Alternatives, str]] = [(((root, "", ""),), "") for root in roots]
    while queue:
        alternatives, wanted_by = queue.pop(0)
        package = _pick(universe, alternatives, branch, {**fixed, **result}, wanted_by)
        if package is None or result.get(package.name) == package:
            continue
        result[package.name] = package
        queue.extend((group, package.name) for group in package.depends)
    _check(result, universe)
    return {name: result[name] for name in sorted(result)}


def _pick(
    universe: Universe,
    alternatives: Alternatives,
    branch: Branch,
    chosen: Mapping[str, Package],
    wanted_by: str,
) -> Package | None:
    """The package that fulfils a dependency, or None where `main` does."""
    for relation in alternatives:
        for package in chosen.values():
            if fulfils(package, relation):
                return package
    blocked = False
    for relation in alternatives:
        if not universe.knows(relation[0]):
            if not wanted_by:
                break
            if not blocked:
                return None  # a package of main, or one that only main provides
            continue
        for package in universe.candidates(relation, branch):
            if package.name not in chosen:
                return package
            if chosen[package.name] == package:
                return package
        blocked = True
    text = " | ".join(_text(relation) for relation in alternatives)
    if blocked and any(not universe.knows(r[0]) for r in alternatives) and wanted_by:
        return None
    offered = sorted(
        {f"{p.name} {p.version}" for r in alternatives for p in universe.by_name.get(r[0], [])}
    )
    raise UnsatisfiableError(
        f"{wanted_by or 'the catalog'} needs {text}, which no package of branch "
        f"{branch.version} in the indices fulfils",
        got=", ".join(offered) or "no package of that name",
        expected=text,
        hint="the archive has moved on: the catalog's row for this platform needs a new version",
    )


def _text(relation: Relation) -> str:
    name, operator, version = relation
    return f"{name} ({operator} {version})" if operator else name


def _check(chosen: Mapping[str, Package], universe: Universe) -> None:
    """UnsatisfiableError where a dependency is not met inside the set, or two packages conflict."""
    for package in chosen.values():
        for alternatives in package.depends:
            if not any(universe.knows(r[0]) for r in alternatives):
                continue
            fulfilled = any(fulfils(p, r) for p in chosen.values() for r in alternatives)
            if not fulfilled and all(universe.knows(r[0]) for r in alternatives):
                text = " | ".join(_text(relation) for relation in alternatives)
                raise UnsatisfiableError(
                    f"{package.name} {package.version} needs {text}, but the chosen set has none",
                    got=", ".join(
                        f"{p.name} {p.version}"
                        for p in chosen.values()
                        for r in alternatives
                        if p.name == r[0]
                    ),
                    expected=text,
                )
        for relation, *_ in package.conflicts:
            for rival in chosen.values():
                if rival.name != package.name and fulfils(rival, relation):
                    raise UnsatisfiableError(
                        f"{package.name} {package.version} conflicts with "
                        f"{rival.name} {rival.version}",
                        hint="a fault of the catalog's row for this platform",
                    )


# Built for one kernel; the package without its version follows the newest kernel.
_OF_ONE_KERNEL = re.compile(r"linux-(modules|objects|signatures)-nvidia-(.*-)?\d+\.\d+\.\d+-\d+-")


def without_kernels(packages: Mapping[str, Package]) -> dict[str, Package]:
    """The packages without modules for one kernel, which the next kernel update leaves behind."""
    return {name: p for name, p in packages.items() if not _OF_ONE_KERNEL.match(name)}


# Sources of NVIDIA's driver, whoever packages it, and names of its packages.
_DRIVER = re.compile(
    r"nvidia-(driver|dkms|kernel|headless|utils|compute-utils|fabricmanager|open|current)"
    r"|libnvidia-|xserver-xorg-video-nvidia|cuda-drivers|libcuda1$|linux-(modules|objects)-nvidia"
)


def driver_packages(packages: Iterable[Package]) -> list[str]:
    """The names of the packages that belong to a driver, and not to CUDA."""
    return [
        p.name
        for p in packages
        if p.source.startswith("nvidia-graphics-drivers") or _DRIVER.match(p.name)
    ]


def minus(packages: Mapping[str, Package], without: Collection[str]) -> dict[str, Package]:
    """`packages` without some names."""
    return {name: p for name, p in packages.items() if name not in without}
