"""All packages of a platform, and what some of them need of it: a closure down to libc.

A lock names the packages of contrib and non-free and leaves the rest to apt. A host without a
network needs that rest too. Debian's main has 63,000 packages, of which some hundred are needed:
a package is parsed when it is asked for.

Pure: the texts of indices in, packages out. The closure holds what apt can choose, not one choice
of it: of each dependency's alternatives the first that there is, as apt prefers it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from provision.errors import UnsatisfiableError
from provision.upstream.packages import (
    Alternatives,
    Package,
    Relation,
    compare,
    fulfils,
    parse,
    satisfies,
)

# What an installation without any choice consists of (Debian policy 2.5).
BASE = ("required", "important", "standard")


@dataclass(frozen=True)
class _Stanza:
    text: str
    # Where the package is: the address of the archive, and what a lock calls its index.
    archive: str
    origin: str

    @property
    def priority(self) -> str:
        return _line(self.text, "Priority")


def _line(text: str, name: str) -> str:
    """The value of a field that has one line; "" without it. Faster than a parser by far."""
    return text.partition(f"\n{name}: ")[2].partition("\n")[0]


@dataclass(frozen=True)
class IndexedPackage:
    """A package, and the address of the archive that has its file."""

    package: Package
    archive: str


def _newest_first(a: IndexedPackage, b: IndexedPackage) -> int:
    left, right = a.package, b.package
    order = int(left.sha256 > right.sha256) - int(left.sha256 < right.sha256)
    return -compare(left.version, right.version) or order


@dataclass
class WholeIndex:
    """The packages of a platform's archives, read as they are asked for."""

    _by_name: dict[str, list[_Stanza]] = field(default_factory=dict)
    _providers: dict[str, list[str]] = field(default_factory=dict)
    _read: dict[str, list[IndexedPackage]] = field(default_factory=dict)

    def add(self, text: str, *, archive: str, origin: str) -> None:
        """Adds the text of a Packages index. Once a package was asked for, nothing is added."""
        for stanza in text.split("\n\n"):
            if not stanza.startswith("Package: "):
                continue  # the end of the text
            name = stanza[len("Package: ") :].partition("\n")[0]
            self._by_name.setdefault(name, []).append(_Stanza(stanza, archive, origin))
            provides = _line(stanza, "Provides")
            for relation in provides.split(",") if provides else ():
                names = self._providers.setdefault(relation.partition("(")[0].strip(), [])
                if name not in names:
                    names.append(name)

    def versions(self, name: str) -> list[IndexedPackage]:
        """The packages of a name, the newest first; one that several suites have, once."""
        if name not in self._read:
            packages: dict[tuple[str, str], IndexedPackage] = {}
            for stanza in self._by_name.get(name, ()):
                (package,) = parse(stanza.text, stanza.origin)
                key = (package.version, package.sha256)
                packages.setdefault(key, IndexedPackage(package, stanza.archive))
            self._read[name] = sorted(packages.values(), key=functools.cmp_to_key(_newest_first))
        return self._read[name]

    def base(self) -> list[str]:
        """The names of the packages that an installation without any choice has."""
        return sorted(
            name
            for name, stanzas in self._by_name.items()
            if any(stanza.priority in BASE for stanza in stanzas)
        )

    def candidates(self, relation: Relation) -> Iterator[IndexedPackage]:
        """The packages that fulfil a relation: those of its name, the newest first; providers."""
        name, operator, version = relation
        for indexed in self.versions(name):
            if satisfies(indexed.package.version, operator, version):
                yield indexed
        for provider in sorted(self._providers.get(name, ())):
            for indexed in self.versions(provider)[:1]:
                if fulfils(indexed.package, relation):
                    yield indexed


def close(
    index: WholeIndex, roots: Iterable[IndexedPackage], locked: Mapping[str, Package]
) -> dict[tuple[str, str], IndexedPackage]:
    """(name, version) -> package, for `roots` and everything they need, sorted.

    Of the names in `locked` no other version is taken. Locked packages need not be in the index,
    and are part of the result only as roots. UnsatisfiableError where the index lacks something.
    """
    result: dict[tuple[str, str], IndexedPackage] = {}
    queue = list(roots)
    while queue:
        indexed = queue.pop(0)
        package = indexed.package
        key = (package.name, package.version)
        if key in result:
            continue
        result[key] = indexed
        for alternatives in package.depends:
            chosen = _first(index, alternatives, locked, package)
            if chosen is not None:
                queue.append(chosen)
    return {key: result[key] for key in sorted(result)}


def _first(
    index: WholeIndex, alternatives: Alternatives, locked: Mapping[str, Package], wanted_by: Package
) -> IndexedPackage | None:
    """The first alternative that the index has; None where a locked package fulfils one."""
    for relation in alternatives:
        for package in locked.values():
            if fulfils(package, relation):
                return None
    for relation in alternatives:
        for indexed in index.candidates(relation):
            if indexed.package.name not in locked:
                return indexed
    text = " | ".join(
        f"{name} ({operator} {version})" if operator else name
        for name, operator, version in alternatives
    )
    raise UnsatisfiableError(
        f"{wanted_by.name} {wanted_by.version} needs {text}, which the locked archives don't have",
        where=wanted_by.origin,
        got=", ".join(
            f"{indexed.package.name} {indexed.package.version}"
            for name, _, _ in alternatives
            for indexed in index.versions(name)
        ),
        expected=text,
    )
