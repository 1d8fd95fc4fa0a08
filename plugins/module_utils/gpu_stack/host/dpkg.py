"""dpkg's records as files.

`dpkg-query` costs a process for each question and locks nothing we need; the status file and the
file lists are plain text with a stable format (deb-control(5)), so one process reads them all in a
few milliseconds.
"""

from __future__ import annotations

import re

from ..change import change
from ..type_checking import TYPE_CHECKING
from . import debian_versions

if TYPE_CHECKING:
    from typing import Any, Iterable

    from ..shapes import Changes
    from .context import Context

STATUS = "/var/lib/dpkg/status"
INFO = "/var/lib/dpkg/info"
UPDATES = "/var/lib/dpkg/updates"

# The status of a package whose unpacking was cut off.
HALF = "half-installed"

# dpkg's name of the architecture, by `uname -m`.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}

_FIELD = {
    "status": re.compile(r"^Status: (\S+) (\S+) (\S+)", re.M),
    "version": re.compile(r"^Version: (\S+)", re.M),
    "architecture": re.compile(r"^Architecture: (\S+)", re.M),
}


def packages(text: str, machine: str = "x86_64") -> dict[str, Any]:
    """{name: {version, want, status, architecture}} from dpkg's status file.

    A package of a foreign architecture is "name:arch"; one that is not known to dpkg, or has only
    its configuration left, is not listed.
    """
    native = ARCHITECTURES.get(machine, machine)
    packages = {}
    for stanza in text.split("\n\n"):
        start = stanza.find("Package: ")
        if start < 0:
            continue
        status = _FIELD["status"].search(stanza)
        version = _FIELD["version"].search(stanza)
        if status is None or version is None:
            continue
        if status.group(3) in ("not-installed", "config-files"):
            continue
        architecture = _FIELD["architecture"].search(stanza)
        kind = architecture.group(1) if architecture is not None else native
        name = stanza[start + 9 :].split("\n", 1)[0].strip()
        if kind not in ("all", native):
            name = name + ":" + kind
        packages[name] = {
            "version": version.group(1),
            "want": status.group(1),
            "status": status.group(3),
            "architecture": kind,
        }
    return packages


def status(context: Context) -> str:
    """dpkg's status file, with the later steps that a killed dpkg left in its journal."""
    texts = [context.read(STATUS) or ""]
    for name in context.listdir(UPDATES):
        if name.isdigit():
            texts.append(context.read(UPDATES + "/" + name) or "")
    return "\n\n".join(texts)


def interrupted(context: Context) -> bool:
    """True when dpkg has work left: a journal, or packages half way."""
    if any(name.isdigit() for name in context.listdir(UPDATES)):
        return True
    return any(package["status"] != "installed" for package in context.packages.values())


def needs(context: Context, field: str = r"(?:Pre-)?Depends") -> dict[str, set[str]]:
    """{package: names that its Depends and Pre-Depends (or another field) hold} of dpkg's."""
    needed = {}
    for stanza in status(context).split("\n\n"):
        name = re.search(r"^Package: (\S+)", stanza, re.M)
        if name is not None:
            lines = re.findall(r"^" + field + r": (.*)$", stanza, re.M)
            words = re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9.+-]+)", ",".join(lines))
            needed[name.group(1)] = set(words)
    return needed


# file lists


def _info(context: Context, name: str, kind: str) -> str:
    native = ARCHITECTURES.get(context.platform.get("architecture", "x86_64"), "amd64")
    for candidate in (name, name + ":" + native):
        path = "{0}/{1}.{2}".format(INFO, candidate, kind)
        text = context.read(path)
        if text is not None:
            return text
    return ""


def file_list(context: Context, name: str) -> list[str]:
    """The paths that a package owns, as dpkg recorded them; [] when it is not installed."""
    return [line for line in _info(context, name, "list").splitlines() if line and line != "/."]


def owner(context: Context, path: str, names: Iterable[str]) -> str | None:
    """Which of the packages `names` owns the file `path`; None if none does.

    Both sides are compared with their links followed, for on a merged /usr dpkg may know a file as
    /lib/... that the loader calls /usr/lib/...; only entries of the same file name are followed.
    """
    real = context.resolve(path) or path
    base = real.rsplit("/", 1)[-1]
    for name in names:
        for listed in file_list(context, name):
            if not listed.endswith("/" + base):
                continue
            if listed in (path, real) or context.resolve(listed) == real:
                return name
    return None


def md5sums(context: Context, name: str) -> dict[str, str]:
    """{path: md5} that a package shipped; {} when it shipped none."""
    sums = {}
    for line in _info(context, name, "md5sums").splitlines():
        md5, _space, path = line.partition("  ")
        if path:
            sums["/" + path] = md5
    return sums


# packages in exact versions


def select(context: Context, names: Iterable[str]) -> dict[str, Any]:
    """The part of dpkg's status that concerns `names`."""
    return {name: context.packages[name] for name in names if name in context.packages}


def package_changes(
    component: str, versions: dict[str, str], installed: dict[str, Any], hold: bool
) -> Changes:
    """Changes for packages that are missing, of another version, half installed or wrongly held.

    `versions`: {package: version}. `installed`: the part of dpkg's status that `select` returns.
    """
    changes = []
    for name in sorted(versions):
        version = versions[name]
        package = installed.get(name)
        if package is None:
            changes.append(change(component, name, None, version, "the package is not installed"))
            continue
        if package["version"] != version:
            word = "newer" if debian_versions.compare(package["version"], version) > 0 else "older"
            reason = "{0} than the lock's version".format(word)
            changes.append(change(component, name, package["version"], version, reason))
        if package["status"] != "installed":
            reason = "dpkg was interrupted: the package is {0}".format(package["status"])
            # What is unpacked is configured; half an unpacking has to be done again.
            repair = {component + "_reinstall": [name]} if package["status"] == HALF else None
            changes.append(
                change(component, name, package["status"], "installed", reason, repair=repair)
            )
        if hold and package["want"] != "hold":
            reason = "an upgrade could move it away from the lock"
            changes.append(change(component, name + " hold", "not held", "held", reason))
        elif not hold and package["want"] == "hold":
            reason = "holding was switched off"
            changes.append(change(component, name + " hold", "held", "not held", reason))
    return changes
