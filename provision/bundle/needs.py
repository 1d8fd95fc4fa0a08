"""What a bare host needs besides the packages that a lock names: their names, by the roles.

A lock leaves the distribution's own packages to apt. Which of them a run installs by name is in
the roles' tables, and from there it is read: a second list would lack what a role needs tomorrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from provision import collection
from provision.catalog.rows import PlatformRow
from provision.errors import InputError
from provision.lock.own import OWN

Stack = Mapping[str, Mapping[str, Any]]

# roles/nvidia_driver/tasks/runfile/tools.yml: what NVIDIA's installer builds its module with.
RUNFILE = ("gcc", "make", "libc6-dev", "dkms", "kmod")


def packages(platform: PlatformRow, stack: Stack) -> tuple[list[str], list[str]]:
    """(names of which apt takes the newest, names of which each suite's version is needed).

    The second are the headers of the kernel: a fresh installation runs the release's kernel, one
    with updates the newest.
    """
    newest = python(platform, stack["tensorflow"]["python"])
    driver = stack["nvidia_driver"]
    if driver.get("source") == "runfile":
        newest += RUNFILE
    if stack.get("cuda", {}).get("source"):
        # NVIDIA's nvcc takes gcc up to a version: cuda/tasks/nvidia/compiler_set.yml chooses.
        newest += [f"{tool}-{major}" for major in platform.gccs for tool in ("gcc", "g++")]
    for component, own in OWN.items():
        for table in getattr(own, "TABLES", ()) if component in stack else ():
            newest += _table(component, platform, table)
    built = driver.get("source") == "runfile" or driver["packages"].get("kernel")
    headers = [str(_table("nvidia_driver", platform, "headers"))] if built else []
    return newest, headers


def python(platform: PlatformRow, version: str) -> list[str]:
    """The packages of a Python that environments are made with."""
    rows = _table("tensorflow", platform, "pythons")
    return list(rows[version]["packages"])


def _table(role: str, platform: PlatformRow, name: str) -> Any:
    """A table of a role's for a platform. InputError for a platform that the role doesn't know."""
    release = platform.release.partition(".")[0]
    path = _folder(role) / f"{platform.distribution.capitalize()}_{release}.yml"
    try:
        tables = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"the role {role} does not support {platform.title}",
            where=str(path),
            expected="a platform of the role's",
        ) from None
    return tables[f"__{role}_{name}"]


def _folder(role: str) -> Path:
    return collection.root() / "roles" / role / "vars"
