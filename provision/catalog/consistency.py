"""Finds contradictions between rows of the catalog.

Duplicate rows, a reference to a missing row, a gap in a series, a window that ends before it
begins, a version of another branch or release. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from provision.catalog.own import OWN

if TYPE_CHECKING:
    from provision.catalog import Catalog

# The fields that identify a row of each part.
IDENTITY: dict[str, tuple[str, ...]] = {
    "platforms": ("id",),
    "drivers": ("platform", "branch", "version"),
    "transitional": ("platform", "package"),
    "driver_branches": ("branch",),
    "generations": ("name",),
    "gpu_figures": ("name",),
    "cuda": ("platform", "release"),
    "cuda_releases": ("release",),
    "cudnn": ("version", "cuda", "architecture"),
    "tensorflow": ("release",),
    "nvidia_sources": ("platform", "architecture", "kind", "cuda"),
    "nvidia_runfiles": ("kind", "version", "architecture"),
    "nvidia_packages": ("first",),
    "nvidia_driver_packages": ("distribution", "first"),
    "nvidia_keys": ("fingerprint",),
    "engines": ("platform",),
    "device_plugins": ("version",),
    "xids": ("number",),
    **{part: fields for own in OWN.values() for part, fields in own.IDENTITY.items()},
}
# The actions that each severity of an Xid may have.
ACTIONS: dict[str, tuple[str, ...]] = {
    "failed": ("reset", "reboot", "reseat", "service"),
    "degraded": ("watch", "reset", "reboot", "service"),
    "user": ("nothing",),
}
# {part whose rows are named: "part.field" that name them, by the one field of their identity}
NAMED: dict[str, tuple[str, ...]] = {
    "platforms": (
        *("drivers.platform", "transitional.platform", "cuda.platform"),
        *("nvidia_sources.platform", "engines.platform"),
    ),
    "driver_branches": ("drivers.branch", "transitional.installs", "nvidia_sources.drivers"),
    "cuda_releases": ("cuda.release", "tensorflow.cuda"),
    "nvidia_keys": ("nvidia_sources.signed_by",),
}
# {part: (the field with a branch or release, the fields with versions of it)}
UNDER: dict[str, tuple[str, ...]] = {
    "drivers": ("branch", "version"),
    "driver_branches": ("branch", "first", "newest"),
    "tensorflow": ("release", "patches"),
    "cuda": ("release", "version"),
    "cuda_releases": ("release", "versions"),
}
# (part, the field with a window's first version, the field with its last; None: open)
WINDOWS: tuple[tuple[str, str, str], ...] = (
    ("generations", "driver_first", "driver_last"),
    ("driver_branches", "first", "newest"),
    ("nvidia_sources", "cuda_first", "cuda_last"),
    ("nvidia_packages", "first", "last"),
    ("nvidia_driver_packages", "first", "last"),
)


@dataclass(frozen=True)
class Fault:
    """A contradiction: the row, and what is wrong with it."""

    where: str
    message: str
    got: str
    expected: str


def faults(catalog: Catalog) -> Iterator[Fault]:
    """Every contradiction, part by part; none in a catalog that can be used."""
    yield from _twice(catalog)
    yield from _unknown(catalog)
    yield from _under_another(catalog)
    yield from _windows(catalog)
    yield from _capabilities(catalog)
    yield from _gaps(catalog)
    yield from _drivers(catalog)
    yield from _xids(catalog)
    yield from _product_names(catalog)


def _place(part: str, row: Any) -> str:
    values = [str(getattr(row, field)) for field in IDENTITY[part] if getattr(row, field)]
    return f"catalog: {part}: {' '.join(values)}"


def _values(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _twice(catalog: Catalog) -> Iterator[Fault]:
    for part, fields in IDENTITY.items():
        counts = Counter(
            tuple(getattr(row, field) for field in fields) for row in catalog.rows(part)
        )
        for row in catalog.rows(part):
            key = tuple(getattr(row, field) for field in fields)
            if counts.pop(key, 1) > 1:
                yield Fault(_place(part, row), "two rows say this", "twice", "one row")


def _unknown(catalog: Catalog) -> Iterator[Fault]:
    every = (NAMED, *(own.NAMED for own in OWN.values()))
    named = [(target, name) for rows in every for target, names in rows.items() for name in names]
    for target, name in named:
        (identity,), (part, field) = IDENTITY[target], name.split(".")
        values = [str(getattr(row, identity)) for row in catalog.rows(target)]
        for row in catalog.rows(part):
            for value in _values(getattr(row, field)):
                if value not in values:
                    message = f"{field} is in no row of {target}"
                    yield Fault(_place(part, row), message, value, f"one of {', '.join(values)}")


def _under_another(catalog: Catalog) -> Iterator[Fault]:
    rules = [(part, heading, field) for part, (heading, *below) in UNDER.items() for field in below]
    for part, heading, field in rules:
        for row in catalog.rows(part):
            above = getattr(row, heading)
            for value in _values(getattr(row, field)):
                if not f"{value}.".startswith(f"{above}."):
                    message = f"{field} is of another {heading}"
                    yield Fault(_place(part, row), message, value, f"{above}.…")


def _windows(catalog: Catalog) -> Iterator[Fault]:
    windows = [
        (_place(part, row), first, last, getattr(row, first), getattr(row, last))
        for part, first, last in WINDOWS
        for row in catalog.rows(part)
    ]
    windows += [
        (
            f"{_place('generations', row)} {capability}",
            "cuda_first",
            "cuda_last",
            window.cuda_first,
            window.cuda_last,
        )
        for row in catalog.generations
        for capability, window in row.capabilities.items()
    ]
    for where, first, last, begin, end in windows:
        if begin and end and Version(begin) > Version(end):
            message = f"{last} comes before {first}"
            yield Fault(where, message, f"{begin} to {end}", f"{begin} or later")


def _capabilities(catalog: Catalog) -> Iterator[Fault]:
    named = [(row, row.capabilities) for row in catalog.generations]
    message = "two generations have one compute capability"
    yield from _shared("generations", named, message, "one generation")
    owners = dict.fromkeys(name for _row, names in named for name in names)
    for part, rows in (
        ("cuda_releases", catalog.cuda_releases),
        ("tensorflow", catalog.tensorflow),
    ):
        for built in rows:
            for capability in built.capabilities:
                if capability not in owners:
                    message = "no generation has this compute capability"
                    expected = f"one of {', '.join(owners)}"
                    yield Fault(_place(part, built), message, capability, expected)


def _gaps(catalog: Catalog) -> Iterator[Fault]:
    releases = [row.release for row in catalog.tensorflow]
    for release in _missing(releases):
        expected = "every release between the first and the last"
        yield Fault("catalog: tensorflow", "a release is left out", release, expected)
    for row in catalog.tensorflow:
        for python in _missing(row.pythons):
            where = _place("tensorflow", row)
            yield Fault(where, "a Python is left out", python, "every Python between two others")


def _missing(versions: Iterable[str]) -> Sequence[str]:
    """The versions that are missing in a series of major.minor of one major."""
    numbers = sorted(Version(version).release[:2] for version in versions)
    if not numbers:
        return []
    minors = {minor for _major, minor in numbers}
    major = numbers[0][0]
    return [f"{major}.{n}" for n in range(min(minors), max(minors)) if n not in minors]


def _drivers(catalog: Catalog) -> Iterator[Fault]:
    """A TensorFlow's or platform's driver_minimum that is older than its CUDA's own."""
    minimums = {row.release: row.driver_minimum for row in catalog.cuda_releases}
    for part, field in (("cuda", "release"), ("tensorflow", "cuda")):
        for row in catalog.rows(part):
            minimum = minimums.get(getattr(row, field), row.driver_minimum)
            if Version(row.driver_minimum) < Version(minimum):
                message = "driver_minimum is older than its CUDA's"
                yield Fault(_place(part, row), message, row.driver_minimum, f"{minimum} or newer")


def _xids(catalog: Catalog) -> Iterator[Fault]:
    """An action that its severity can't have: a failed card that nobody must touch.

    And a rule for the repeats of what accuses the card at the first time.
    """
    for row in catalog.xids:
        if row.repeats and row.severity != "user":
            message, expected = "repeats of what is no program's fault", "severity user"
            yield Fault(_place("xids", row), message, row.severity, expected)
        for verdict in (row, *row.says, *filter(None, [row.repeats])):
            may = ACTIONS[verdict.severity]
            if verdict.action not in may:
                message = f"action does not fit {verdict.severity}"
                expected = f"one of {', '.join(may)}"
                yield Fault(_place("xids", row), message, verdict.action, expected)


def _product_names(catalog: Catalog) -> Iterator[Fault]:
    """A name or alias by which a GPU would have another's figures."""
    named = [(row, row.products) for row in catalog.gpu_figures]
    yield from _shared("gpu_figures", named, "this name has figures already", "names of its own")


def _shared(
    part: str, named: Iterable[tuple[Any, Iterable[str]]], message: str, expected: str
) -> Iterator[Fault]:
    """A name that two rows have, or one row twice; `named` are the rows with their names."""
    owners: dict[str, str] = {}
    for row, names in named:
        for name in names:
            if name in owners:
                got = f"{name}, which is {owners[name]}'s"
                yield Fault(_place(part, row), message, got, expected)
            owners[name] = row.name
