"""Kernel modules that the distribution built and signed, and the packages that bring them.

Ubuntu has a package of them for each kernel, and one that follows each package that brings kernels:
linux-modules-nvidia-470-server-generic-hwe-22.04 goes with linux-image-generic-hwe-22.04. A lock is
for hosts of all flavours and names one. On a host of another it would bring a kernel that nobody
asked for, and the next kernel of the host's own would come without a module.
"""

from __future__ import annotations

import re

from ...type_checking import TYPE_CHECKING
from . import driver_method, driver_packages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...host.context import Context
    from ...shapes import Row

STEM = re.compile(r"^(linux-modules-nvidia-\d+(?:-server)?(?:-open)?)-")
HEADERS = "linux-headers-"
# linux-image-virtual brings the generic kernel with fewer of its modules.
VIRTUAL = re.compile(r"^virtual(?=-|$)")
FIELD = re.compile(r"^(Package|Version|Depends|Status): (.*)$", re.M)
# What ties a package of modules to the one version of the driver that they are of.
COMMON = re.compile(r"\bnvidia-kernel-common-[\w-]+ \((?:>=|=) (?:\d+:)?(\d+(?:\.\d+)+)")
OFFERED, ABSENT, UNKNOWN = "offered", "absent", "unknown"


def stem(names: Iterable[str]) -> str:
    """What the packages of one driver's modules begin with; "" where DKMS builds them. Pure."""
    stems = [match.group(1) for match in map(STEM.match, sorted(names)) if match is not None]
    return stems[0] if stems else ""


def metapackages(context: Context, names: Iterable[str]) -> list[str]:
    """The packages of modules that follow what brings kernels to this host, apt's or not."""
    first = stem(names)
    images = driver_method.following_headers(context) if first else []
    flavours = [VIRTUAL.sub("generic", image[len(HEADERS) :]) for image in images]
    return [f"{first}-{flavour}" for flavour in dict.fromkeys(flavours)]


def offers(context: Context, names: list[str]) -> dict[str, list[tuple[str, str]]]:
    """{package: [(version, the driver's version, "" where any will do)]}, newest first."""
    offers_of: dict[str, list[tuple[str, str]]] = {}
    for stanza in context.run(["apt-cache", "show", *names]).out.split("\n\n"):
        fields = dict(FIELD.findall(stanza))
        # With a status it is dpkg's record of what no archive has any more.
        if fields.get("Package") in names and "Version" in fields and "Status" not in fields:
            tied = COMMON.search(fields.get("Depends", ""))
            offer = (fields["Version"], tied.group(1) if tied else "")
            offers_of.setdefault(fields["Package"], []).append(offer)
    return offers_of


def _has_lists(context: Context) -> bool:
    return bool(context.glob("/var/lib/apt/lists/*_Packages*"))


def specs(context: Context, names: list[str], driver: str) -> dict[str, str]:
    """{package: name=version} of the newest that is for this version of the driver.

    Where apt has no lists yet, the package's name alone.
    """
    if not names:
        return {}
    offers_of = offers(context, names)
    if not offers_of and not _has_lists(context):
        return {name: name for name in names}
    chosen = {}
    for name in names:
        fitting = [version for version, tied in offers_of.get(name, []) if tied in ("", driver)]
        if fitting:
            chosen[name] = f"{name}={fitting[0]}"
    return chosen


def following(context: Context, names: Iterable[str], driver: str) -> dict[str, str]:
    """{metapackage: how apt is asked for it} of those that are not installed and can be had."""
    lacking = [
        name
        for name in metapackages(context, names)
        if context.packages.get(name, {}).get("status") != "installed"
    ]
    return specs(context, lacking, driver)


def lacking(context: Context, row: Row, scope: str) -> list[str]:
    """The metapackages that are to be installed."""
    if scope != "full" or not driver_method.prebuilt(row):
        return []
    return sorted(following(context, driver_packages.all_packages(row), row["version"]))


def owned(context: Context, names: Iterable[str], kernels: Iterable[str]) -> dict[str, str]:
    """{package: its version, "" without one} of all packages of this driver's modules here.

    Also those that the metapackages have brought for newer kernels.
    """
    first = stem(names)
    objects = first.replace("-modules-", "-objects-")
    packages = [*metapackages(context, names), *(f"{first}-{kernel}" for kernel in kernels)]
    packages += [name for name in context.packages if name.startswith((f"{first}-", f"{objects}-"))]
    return {name: context.packages.get(name, {}).get("version", "") for name in packages}


def offered(context: Context, row: Row, kernels: Iterable[str]) -> dict[str, str]:
    """{kernel: OFFERED, ABSENT, UNKNOWN (no lists) or the driver that apt's module for it is of}.

    Of the kernels that lack the module of the row's version.
    """
    wanted = [
        kernel for kernel in kernels if driver_method.module(context, kernel, row) != row["version"]
    ]
    if not wanted:
        return {}
    first = stem(driver_packages.all_packages(row))
    offers_of = offers(context, [f"{first}-{kernel}" for kernel in wanted])
    unknown = ABSENT if offers_of or _has_lists(context) else UNKNOWN
    states = {}
    for kernel in wanted:
        tied = [driver for _version, driver in offers_of.get(f"{first}-{kernel}", [])]
        fits = {"", row["version"]} & set(tied)
        states[kernel] = OFFERED if fits else tied[0] if tied else unknown
    return states


def signers(context: Context, kernels: Iterable[str]) -> dict[str, dict[str, str]]:
    """{kernel: {"signer", "file"} of the module that it would load}, each "" if not known."""
    modules = {}
    for kernel in kernels:
        fields = {}
        for field in ("signer", "filename"):
            answer = context.run(["modinfo", "-F", field, "-k", kernel, "nvidia"])
            fields[field] = answer.out.strip() if answer.rc == 0 else ""
        modules[kernel] = {"signer": fields["signer"], "file": fields["filename"]}
    return modules
