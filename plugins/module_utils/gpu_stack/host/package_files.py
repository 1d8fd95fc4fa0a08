"""Finds damaged files of installed packages, and the changes that repair them.

dpkg's records have the checksums that each package shipped. The ordinary look reads a file only if
its size, times or kind show that it was touched; a deep look reads all.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import stat
import time

from ..change import change
from ..type_checking import TYPE_CHECKING
from . import dpkg, modes

if TYPE_CHECKING:
    import os
    from typing import Any, Callable, Iterable, Iterator

    from ..shapes import Changes
    from .context import Context

DIVERSIONS = "/var/lib/dpkg/diversions"
OVERRIDES = "/var/lib/dpkg/statoverride"
ALTERNATIVES = "/var/lib/dpkg/alternatives"

# Nothing that runs reads them, and slim images leave them out: only a deep look asks for them.
UNREAD = tuple(
    "/usr/share/" + name + "/" for name in ("bug", "doc", "info", "lintian", "locale", "man")
)


# For a package without checksums dpkg writes them itself, right after its file list.
MOMENT = 2

# More than this many flaws of one package are one item: a person reads the plan.
MANY = 5


def _info_path(context: Context, name: str, kind: str) -> str | None:
    native = dpkg.ARCHITECTURES.get(context.platform.get("architecture", "x86_64"), "amd64")
    for candidate in (name + ":" + native, name):
        path = "{0}/{1}.{2}".format(dpkg.INFO, candidate, kind)
        if context.lstat(path) is not None:
            return path
    return None


def diversions(context: Context) -> dict[str, tuple[str, str]]:
    """{path: (where it was moved to, the package that may keep the path)} (dpkg-divert(1))."""
    lines = (context.read(DIVERSIONS) or "").splitlines()
    return {
        lines[index]: (lines[index + 1], lines[index + 2]) for index in range(0, len(lines) - 2, 3)
    }


def overrides(context: Context) -> set[str]:
    """Paths whose owner and mode the administrator has set (dpkg-statoverride(1))."""
    lines = (context.read(OVERRIDES) or "").splitlines()
    return {line.split(None, 3)[3] for line in lines if len(line.split(None, 3)) == 4}


def conffiles(context: Context, names: Iterable[str]) -> dict[str, str]:
    """{path: md5} of the configuration files that dpkg tracks for these packages."""
    sums = {}
    for stanza in (context.read(dpkg.STATUS) or "").split("\n\n"):
        start = stanza.find("Package: ")
        if start < 0 or stanza[start + 9 :].split("\n", 1)[0].strip() not in names:
            continue
        match = re.search(r"^Conffiles:\n((?: .+\n?)+)", stanza, re.M)
        for line in match.group(1).splitlines() if match is not None else []:
            words = line.split()
            if len(words) == 2:  # a third word says that the file is obsolete
                sums[words[0]] = words[1]
    return sums


def _excluded(context: Context) -> Callable[[str], bool] | None:
    """A test for paths that dpkg was told not to unpack (path-exclude in dpkg.cfg(5))."""
    rules = []
    for file in ["/etc/dpkg/dpkg.cfg", *context.glob("/etc/dpkg/dpkg.cfg.d/*")]:
        for line in (context.read(file) or "").splitlines():
            word, _sign, pattern = line.replace("=", " ", 1).partition(" ")
            if word.strip() in ("path-exclude", "path-include"):
                rules.append((word.strip() == "path-exclude", pattern.strip()))

    def excluded(path: str) -> bool:
        result = False
        for exclude, pattern in rules:
            if fnmatch.fnmatch(path, pattern):
                result = exclude
        return result

    return excluded if rules else None


def _leaves(paths: list[str]) -> Iterator[str]:
    """The listed paths without the directories that lead to others, which come before them."""
    for index, path in enumerate(paths):
        after = paths[index + 1] if index + 1 < len(paths) else ""
        if not after.startswith(path + "/"):
            yield path


def _state(
    context: Context, path: str, info: os.stat_result, sums: dict[str, str], read: bool
) -> str | None:
    """What is wrong with one file of a package whose stat is known; None when nothing is.

    `sums`: {path: md5} of what was shipped as a file. dpkg keeps no sizes and no targets of links.
    """
    link = stat.S_ISLNK(info.st_mode)
    if path not in sums:
        return None
    if link:
        return "a link to {0}".format(context.readlink(path))
    if not stat.S_ISREG(info.st_mode):
        return "a directory" if stat.S_ISDIR(info.st_mode) else "not a file"
    if info.st_size == 0 and sums[path] != hashlib.md5(b"").hexdigest():  # noqa: S324  dpkg's own
        return "empty"
    if read and digest(context, path, "md5") != sums[path]:
        return "altered"
    return None


def flaws(context: Context, names: Iterable[str]) -> list[dict[str, Any]]:
    """[{package, path, fault, conffile}] of the files that these packages own.

    Cheap enough for every look: one lstat per file. dpkg keeps the times of the package, so a file
    that is newer than dpkg's list of the package's files was touched after the installation; only
    such files are read and hashed. A change that kept the old time is found by a deep look, which
    reads all.

    Configuration files belong to the administrator: a missing one is reported, an edited one only
    by a deep look.
    """
    names = [name for name in sorted(names) if name in context.packages]
    diverted = diversions(context)
    configuration = conffiles(context, names)
    excluded = _excluded(context)
    root = context.stat("/")
    owner = root.st_uid if root is not None else 0
    theirs = overrides(context)
    all_flaws: list[dict[str, Any]] = []
    ways: dict[str, str] = {}
    for name in names:
        of_package = _package_flaws(context, name, diverted, configuration, excluded, owner, ways)
        all_flaws.extend(
            flaw
            for flaw in of_package
            if flaw["path"] not in theirs or not flaw["fault"].startswith(("mode ", "owned "))
        )
    all_flaws.extend(
        flaw for flaw in _way_flaws(context, ways, owner) if flaw["path"] not in theirs
    )
    return all_flaws


def _way_flaws(context: Context, ways: dict[str, str], owner: int) -> Iterator[dict[str, Any]]:
    """Flaws of directories on the way to the packages' files; `ways`: {path: package}."""
    for path in sorted(ways):
        info = context.lstat(path)
        fault = modes.of_directory(context, info, owner) if info is not None else None
        if fault is not None:
            mode = modes.wish(context, info) if info is not None else None
            yield _flaw(ways[path], path, fault, mode=mode)


def _flaw(
    name: str, path: str, fault: str, conffile: bool = False, mode: str | None = None
) -> dict[str, Any]:
    """One flaw, as `flaws` lists them; `mode` repairs it where a reinstallation does not.

    dpkg does not change the modes and owners of existing directories and configuration files.
    """
    flaw = {"package": name, "path": path, "fault": fault, "conffile": conffile}
    return flaw if mode is None else dict(flaw, mode=mode)


def _shipped(context: Context, name: str, diverted: dict[str, tuple[str, str]]) -> dict[str, str]:
    """{path as it is on disk: md5} of a package's files, diversions followed."""
    sums = dpkg.md5sums(context, name)
    for path, (moved, keeper) in diverted.items():
        if path in sums and keeper != name:
            sums[moved] = sums.pop(path)
    return sums


class _Package:
    """One package's records: judges its files that were touched since it was unpacked."""

    def __init__(
        self,
        context: Context,
        name: str,
        diverted: dict[str, tuple[str, str]],
        configuration: dict[str, str],
        owner: int,
        since: float,
    ) -> None:
        self.context = context
        self.name = name
        self.diverted = diverted
        self.configuration = configuration
        self.owner = owner
        self.since = since
        self.changed_since = since if since <= time.time() else 0
        self._sums: dict[str, str] | None = None
        self.unsummed = False

    def content_fault(self, path: str, info: os.stat_result) -> str | None:
        """What is wrong with the content of a file that somebody may have touched; else None."""
        touched = info.st_mtime > self.since
        if not (self.context.deep or touched or info.st_size == 0):
            return None
        if self._sums is None:
            self._sums = _shipped(self.context, self.name, self.diverted)
            # A power cut may take both: a list without a line is none of a package with files.
            listed = _info_path(self.context, self.name, "md5sums") is not None
            self.unsummed = listed and not self._sums
            self._sums.update(self.configuration)
        if self.unsummed and info.st_size == 0 and stat.S_ISREG(info.st_mode):
            return "empty"
        fault = _state(self.context, path, info, self._sums, self.context.deep or touched)
        # A link that leads nowhere is no flaw of its own: its target is, or the other package.
        if fault is None and touched and stat.S_ISLNK(info.st_mode):
            return "relinked"
        return fault

    def mode_fault(self, path: str, info: os.stat_result) -> str | None:
        """What is wrong with a file's mode and owner; None where nothing is."""
        return modes.of_file(self.context, path, info, self.owner, self.changed_since)

    def flaws(self, path: str, info: os.stat_result) -> list[dict[str, Any]]:
        """The flaws of one file; a configuration file's content counts in a deep look only."""
        if path not in self.configuration:
            fault = self.content_fault(path, info) or self.mode_fault(path, info)
            return [] if fault is None else [_flaw(self.name, path, fault)]
        all_flaws = []
        fault = self.mode_fault(path, info)
        if fault is not None:
            wish = modes.wish(self.context, info)
            all_flaws.append(_flaw(self.name, path, fault, True, wish))
        fault = self.content_fault(path, info) if self.context.deep else None
        if fault is not None:
            all_flaws.append(_flaw(self.name, path, fault, True))
        return all_flaws


def _modified(context: Context, path: str | None) -> float:
    """When the file was written last; 0 where there is none."""
    info = context.lstat(path) if path is not None else None
    return info.st_mtime if info is not None else 0.0


def _package_flaws(
    context: Context,
    name: str,
    diverted: dict[str, tuple[str, str]],
    configuration: dict[str, str],
    excluded: Callable[[str], bool] | None,
    owner: int,
    ways: dict[str, str],
) -> list[dict[str, Any]]:
    list_path, sums_path = _info_path(context, name, "list"), _info_path(context, name, "md5sums")
    text = context.read(list_path) if list_path is not None else None
    listed = [line for line in (text or "").splitlines() if line]
    if not listed:
        return [_flaw(name, "file list", "missing")]
    unpacked = _modified(context, list_path)
    sums_time = _modified(context, sums_path) if sums_path else unpacked
    # If the clock was wrong at the installation, the package's own time is the later one.
    since = max(unpacked, sums_time)
    package = _Package(context, name, diverted, configuration, owner, since)
    changed_since = package.changed_since
    for path in modes.directories(listed):
        ways.setdefault(path, name)
    flaws, times = [], []
    for path in _leaves(listed):
        if not context.deep and path.startswith(UNREAD):
            continue
        if path in diverted and diverted[path][1] != name:
            path = diverted[path][0]
        info = context.lstat(path)
        if info is None:
            if excluded is None or not excluded(path):
                flaws.append(_flaw(name, path, "missing", path in configuration))
            continue
        times.append(info.st_mtime)
        # Most files are such; a call for each would take a tenth of the look.
        untouched = not context.deep and info.st_mtime <= since and info.st_size > 0
        plain = info.st_uid == owner and (
            info.st_mode == 0o100755
            or (info.st_mode == 0o100644 and info.st_ctime <= changed_since)
        )
        if not (untouched and plain) or path in configuration:
            flaws += package.flaws(path, info)
    # Packages without files have none: there is nothing to compare.
    if sums_path is None and context.deep and times:
        flaws.append(_flaw(name, "checksums", "missing"))
    if sums_path and sums_time > unpacked + MOMENT and times and min(times) <= unpacked:
        flaws.append(_flaw(name, "checksums", "changed"))
    return flaws


def _repair(component: str, name: str, flaws: list[dict[str, Any]]) -> dict[str, Any]:
    """The role variables that repair these flaws of one package."""
    repair = {}
    again = [flaw for flaw in flaws if "mode" not in flaw]
    if again:
        repair[component + "_reinstall"] = [name]
    edited = [flaw["path"] for flaw in again if flaw["conffile"] and flaw["fault"] != "missing"]
    if edited:
        repair[component + "_conffiles"] = edited
    if len(again) < len(flaws):
        closed = ["{0} {1}".format(flaw["path"], flaw["mode"]) for flaw in flaws if "mode" in flaw]
        repair[component + "_modes"] = closed
    return repair


def flaw_changes(component: str, flaws: list[dict[str, Any]]) -> Changes:
    """Changes for the flaws of packages, each repaired by installing the package again.

    Many flaws of one package are one item.
    """
    changes = []
    for name in sorted({flaw["package"] for flaw in flaws}):
        of_package = [flaw for flaw in flaws if flaw["package"] == name]
        repair = _repair(component, name, of_package)
        if len(of_package) > MANY:
            faults = sorted({flaw["fault"] for flaw in of_package})
            old = "{0} files: {1}".format(len(of_package), ", ".join(faults))
            reason = "for example {0}".format(of_package[0]["path"])
            changes.append(change(component, name + " files", old, name, reason, repair=repair))
            continue
        for flaw in of_package:
            item, reason = flaw["path"], "it is a file of {0}".format(name)
            if not item.startswith("/"):
                item = "{0} {1}".format(name, item)
                reason = "the package's files are checked against dpkg's record"
            changes.append(change(component, item, flaw["fault"], name, reason, repair=repair))
    return changes


def alternative(context: Context, group: str) -> dict[str, Any] | None:
    """{"mode", "links": {link: (name, target)}} of update-alternatives' record; None without one.

    The record is lines: mode, the master link, then name and link of each slave up to an empty
    line; then each choice: path, priority, and the slaves' paths (empty where it has none).
    Targets are those of the choice that /etc/alternatives points to, else of the first one.
    """
    lines = (context.read("{0}/{1}".format(ALTERNATIVES, group)) or "").split("\n")
    if len(lines) < 3 or lines[0] not in ("auto", "manual") or "" not in lines:
        return None
    end = lines.index("")
    slaves = [(lines[index], lines[index + 1]) for index in range(2, end - 1, 2)]
    size = 2 + len(slaves)
    rest = lines[end + 1 :]
    choices = [rest[start : start + size] for start in range(0, len(rest) - size + 1, size)]
    choices = [choice for choice in choices if choice[0]]
    if not choices:
        return None
    chosen = context.readlink("/etc/alternatives/" + group)
    choice = next((entry for entry in choices if entry[0] == chosen), None)
    links = {lines[1]: (group, (choice or choices[0])[0])}
    for index, (name, link) in enumerate(slaves):
        target = (choice or choices[0])[2 + index]
        if target and context.lstat(target) is not None:
            links[link] = (name, target)
    return {"mode": lines[0], "choices": [entry[0] for entry in choices], "links": links}


def broken_links(context: Context, record: dict[str, Any]) -> list[str]:
    """Links of an alternative that don't lead where its record says, sorted."""
    links = []
    for link, (name, target) in record["links"].items():
        middle = "/etc/alternatives/" + name
        if context.readlink(link) != middle:
            links.append(link)
        if context.readlink(middle) != target:
            links.append(middle)
    return sorted(links)


def digest(context: Context, path: str, algorithm: str) -> str | None:
    """Hex digest of a file; None when it can't be read."""
    file = context.open(path)
    if file is None:
        return None
    state = hashlib.new(algorithm)
    with file:
        for block in iter(lambda: file.read(1 << 20), b""):
            state.update(block)
    return state.hexdigest()
