"""Checks the roles' own package tables against Debian's signed indices, or rewrites them.

    python scripts/role_tables.py [--cache DIR] [--write] [PLATFORM...]

A role without a lock takes its packages from vars/Debian_<release>.yml. Its tables are those of a
lock of the same catalog rows; both are made from one closure. Prints the tables that differ and
exits with 1; with --write it replaces only the tables.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from provision import catalog
from provision.catalog.rows import CudaRow, DriverRow, PlatformRow
from provision.upstream import debian, download
from provision.upstream.closure import Branch, Universe, close, minus
from provision.upstream.packages import Package

ROLES = Path(__file__).resolve().parents[1] / "roles"
DRIVER_SOURCE = "nvidia-graphics-drivers"


def versions(packages: Mapping[str, Package]) -> dict[str, str]:
    """{name: version}, as a table has it."""
    return {name: package.version for name, package in packages.items()}


def driver_sets(universe: Universe, row: DriverRow) -> dict[str, dict[str, Package]]:
    """A driver's three sets of packages, each without those of an earlier set."""
    branch = Branch(row.version, frozenset(row.branch_sources))
    sets: dict[str, dict[str, Package]] = {}
    earlier: dict[str, Package] = {}
    for name, roots in (
        ("userspace", row.userspace),
        ("kernel", row.kernel),
        ("desktop", row.desktop),
    ):
        sets[name] = minus(close(universe, roots, branch, earlier), earlier)
        earlier |= sets[name]
    return sets


def cuda_tables(universe: Universe, row: CudaRow, driver: DriverRow) -> dict[str, Any]:
    """The tables of CUDA's two profiles, and of the driver's libraries that the toolkit needs."""
    branch = Branch(driver.version, frozenset(driver.branch_sources))
    of_driver = {
        n: p for packages in driver_sets(universe, driver).values() for n, p in packages.items()
    }
    runtime = minus(close(universe, row.runtime, branch, of_driver), of_driver)
    roots = [*row.runtime, *row.toolkit]
    toolkit = minus(close(universe, roots, branch, {**of_driver, **runtime}), of_driver)
    alone = close(universe, roots, branch)
    return {
        "__cuda_package_table": {"runtime": versions(runtime), "toolkit": versions(toolkit)},
        "__cuda_driver_libraries": {
            name: package.version
            for name, package in alone.items()
            if package.source == DRIVER_SOURCE
        },
    }


def tables(
    packages: Iterable[Package], drivers: Sequence[DriverRow], cuda: CudaRow
) -> dict[str, dict[str, Any]]:
    """{role: {variable: table}} from a platform's packages and rows of the catalog."""
    universe = Universe.of(packages)
    return {
        "nvidia_driver": {
            "__nvidia_driver_packages_by_version": {
                row.version: {n: versions(s) for n, s in driver_sets(universe, row).items()}
                for row in drivers
            }
        },
        # The release's own driver stays in the archive when the security suite has moved on.
        "cuda": cuda_tables(universe, cuda, drivers[0]),
    }


def of_platform(platform: PlatformRow, cache: Path) -> dict[str, dict[str, Any]]:
    """The tables by the platform's current archives."""
    rows = catalog.load()
    drivers = [row for row in rows.drivers if row.platform == platform.id]
    cuda = next(row for row in rows.cuda if row.platform == platform.id)
    return tables(debian.read(platform, catalog.keys(), cache=cache).packages, drivers, cuda)


def lines(table: Mapping[str, Any], depth: int = 1) -> list[str]:
    """A table as lines of YAML, with versions quoted."""
    text_lines = []
    for name, value in table.items():
        key = "  " * depth + (f'"{name}"' if name[0].isdigit() else name) + ":"
        if isinstance(value, Mapping):
            text_lines += [key, *lines(value, depth + 1)]
        else:
            text_lines.append(f'{key} "{value}"')
    return text_lines


def replaced(text: str, variable: str, table: Mapping[str, Any]) -> str:
    """The text with one variable's table replaced."""
    block = "\n".join([f"{variable}:", *lines(table)]) + "\n"
    pattern = re.compile(rf"^{variable}:.*\n(?:[ ]+.*\n)*", re.MULTILINE)
    new, count = pattern.subn(lambda _: block, text)
    if count != 1:
        raise SystemExit(f"{variable} stands {count} times in the file")
    return new


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM")
    parser.add_argument("--cache", type=Path, default=download.cache_directory())
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    differing = 0
    for platform in catalog.load().platforms:
        if platform.distribution != "debian":
            continue
        if given.platforms and platform.id not in given.platforms:
            continue
        for role, role_tables in of_platform(platform, given.cache).items():
            path = ROLES / role / "vars" / f"Debian_{platform.release}.yml"
            for variable, table in role_tables.items():
                text = path.read_text(encoding="utf-8")
                if yaml.safe_load(text)[variable] == table:
                    print(f"ok {path.name} {variable}")
                    continue
                print(f"{'written' if given.write else 'DIFFERS'} {path.name} {variable}")
                if given.write:
                    path.write_text(replaced(text, variable, table), encoding="utf-8")
                else:
                    differing = 1
    return differing


if __name__ == "__main__":
    sys.exit(main())
