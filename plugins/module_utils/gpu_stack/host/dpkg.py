"""dpkg and apt as files.

`dpkg-query` and `apt-cache policy` cost a process each and lock nothing we need; the status file,
the file lists and the sources are plain text with a stable format (deb-control(5),
sources.list(5)), so one process reads them all in a few milliseconds.
"""

import fnmatch
import hashlib
import re
import stat
import time

from ..change import change
from . import modes

STATUS = "/var/lib/dpkg/status"
INFO = "/var/lib/dpkg/info"
UPDATES = "/var/lib/dpkg/updates"
DIVERSIONS = "/var/lib/dpkg/diversions"
OVERRIDES = "/var/lib/dpkg/statoverride"
ALTERNATIVES = "/var/lib/dpkg/alternatives"

# Nothing that runs reads them, and slim images leave them out: only a deep look asks for them.
UNREAD = tuple(
    "/usr/share/" + name + "/" for name in ("bug", "doc", "info", "lintian", "locale", "man")
)
HALF = "half-installed"
# For a package that brings no checksums dpkg writes them itself, in the moment after its file list.
MOMENT = 2
# More than this many flaws of one package are one item: a person reads the plan.
MANY = 5

# dpkg's name of the architecture, by `uname -m`.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}

_FIELD = {
    "status": re.compile(r"^Status: (\S+) (\S+) (\S+)", re.M),
    "version": re.compile(r"^Version: (\S+)", re.M),
    "architecture": re.compile(r"^Architecture: (\S+)", re.M),
}


def packages(text, machine="x86_64"):
    """{name: {version, want, status, architecture}} from dpkg's status file.

    A package of a foreign architecture is "name:arch"; one that is not known to dpkg, or has only
    its configuration left, is not listed.
    """
    native = ARCHITECTURES.get(machine, machine)
    found = {}
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
        found[name] = {
            "version": version.group(1),
            "want": status.group(1),
            "status": status.group(3),
            "architecture": kind,
        }
    return found


def status(context):
    """dpkg's status file, with the steps behind it that a killed dpkg left in its journal."""
    texts = [context.read(STATUS) or ""]
    for name in context.listdir(UPDATES):
        if name.isdigit():
            texts.append(context.read(UPDATES + "/" + name) or "")
    return "\n\n".join(texts)


def interrupted(context):
    """True when dpkg has work left: a journal, or packages half way."""
    if any(name.isdigit() for name in context.listdir(UPDATES)):
        return True
    return any(package["status"] != "installed" for package in context.packages.values())


def needs(context, field=r"(?:Pre-)?Depends"):
    """{package: names that its Depends and Pre-Depends (or another field) hold} of dpkg's."""
    found = {}
    for stanza in status(context).split("\n\n"):
        name = re.search(r"^Package: (\S+)", stanza, re.M)
        if name is not None:
            lines = re.findall(r"^" + field + r": (.*)$", stanza, re.M)
            words = re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9.+-]+)", ",".join(lines))
            found[name.group(1)] = set(words)
    return found


# versions


def _order(sign):
    if sign == "~":
        return -1
    if sign.isdigit():
        return 0
    if sign.isalpha():
        return ord(sign)
    return ord(sign) + 256


def _compare_part(a, b):
    """verrevcmp() of dpkg's lib/dpkg/version.c."""
    i = j = 0
    while i < len(a) or j < len(b):
        while (i < len(a) and not a[i].isdigit()) or (j < len(b) and not b[j].isdigit()):
            left = _order(a[i]) if i < len(a) else 0
            right = _order(b[j]) if j < len(b) else 0
            if left != right:
                return -1 if left < right else 1
            i += 1
            j += 1
        start_i, start_j = i, j
        while i < len(a) and a[i].isdigit():
            i += 1
        while j < len(b) and b[j].isdigit():
            j += 1
        left = int(a[start_i:i] or "0")
        right = int(b[start_j:j] or "0")
        if left != right:
            return -1 if left < right else 1
    return 0


def _split(version):
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    if not dash:
        upstream, revision = rest, ""
    return int(epoch), upstream, revision


def compare(a, b):
    """-1, 0 or 1 by Debian's ordering of versions (deb-version(7))."""
    epoch_a, upstream_a, revision_a = _split(a)
    epoch_b, upstream_b, revision_b = _split(b)
    if epoch_a != epoch_b:
        return -1 if epoch_a < epoch_b else 1
    return _compare_part(upstream_a, upstream_b) or _compare_part(revision_a, revision_b)


# file lists


def _info(context, name, kind):
    native = ARCHITECTURES.get(context.platform.get("architecture", "x86_64"), "amd64")
    for candidate in (name, name + ":" + native):
        path = "{0}/{1}.{2}".format(INFO, candidate, kind)
        text = context.read(path)
        if text is not None:
            return text
    return ""


def file_list(context, name):
    """The paths that a package owns, as dpkg recorded them; [] when it is not installed."""
    return [line for line in _info(context, name, "list").splitlines() if line and line != "/."]


def owner(context, path, names):
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


def md5sums(context, name):
    """{path: md5} that a package shipped; {} when it shipped none."""
    sums = {}
    for line in _info(context, name, "md5sums").splitlines():
        md5, _space, path = line.partition("  ")
        if path:
            sums["/" + path] = md5
    return sums


# packages as a component wishes them


def select(context, names):
    """The part of dpkg's status that concerns `names`."""
    return {name: context.packages[name] for name in names if name in context.packages}


def package_changes(component, wanted, found, hold):
    """Changes for exact versions: missing, another version, half way, not held as wished."""
    changes = []
    for name in sorted(wanted):
        version = wanted[name]
        seen = found.get(name)
        if seen is None:
            changes.append(change(component, name, None, version, "the package is not installed"))
            continue
        if seen["version"] != version:
            word = "newer" if compare(seen["version"], version) > 0 else "older"
            reason = "{0} than the lock's version".format(word)
            changes.append(change(component, name, seen["version"], version, reason))
        if seen["status"] != "installed":
            reason = "dpkg was interrupted: the package is {0}".format(seen["status"])
            # What is unpacked is configured; half an unpacking has to be done again.
            repair = {component + "_reinstall": [name]} if seen["status"] == HALF else None
            changes.append(
                change(component, name, seen["status"], "installed", reason, repair=repair)
            )
        if hold and seen["want"] != "hold":
            reason = "an upgrade could move it away from the lock"
            changes.append(change(component, name + " hold", "not held", "held", reason))
        elif not hold and seen["want"] == "hold":
            reason = "holding was switched off"
            changes.append(change(component, name + " hold", "held", "not held", reason))
    return changes


# apt's sources

# Up to the last @ of the host's part: a password may hold one.
_LOGIN = re.compile(r"//[^/ ]*@")


def bare(address):
    """An address without the user and the password in it."""
    return _LOGIN.sub("//", address)


def _one_line(text, file):
    for line in text.splitlines():
        line = line.split("#", 1)[0].strip()
        match = re.match(r"^(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*(.*)$", line)
        if match is None:
            continue
        kind, options, uri, suite, components = match.groups()
        yield {
            "types": [kind],
            "uris": [bare(uri)],
            "suites": [suite],
            "components": components.split(),
            "options": dict(
                option.split("=", 1) for option in (options or "").split() if "=" in option
            ),
            "file": file,
        }


def stanzas(text):
    """deb822: [{field (lower case): value}], continuation lines joined by newlines."""
    stanza = {}
    field = None
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza, field = {}, None
        elif line[0] in " \t":
            if field is not None:
                stanza[field] += "\n" + line.strip()
        else:
            field, _colon, value = line.partition(":")
            field = field.strip().lower()
            stanza[field] = value.strip()


def pins(text):
    """{package: version} that an apt preferences file pins above 1000, which also downgrades."""
    found = {}
    for stanza in stanzas(text):
        kind, _space, version = stanza.get("pin", "").partition(" ")
        try:
            priority = int(stanza.get("pin-priority", "0"))
        except ValueError:
            continue
        if kind == "version" and priority > 1000:
            for name in stanza.get("package", "").split():
                found.setdefault(name, version.strip())
    return found


def _deb822(text, file):
    for stanza in stanzas(text):
        if stanza.pop("enabled", "yes").lower() in ("no", "false", "0", "off"):
            continue
        if "uris" not in stanza or "suites" not in stanza:
            continue
        yield {
            "types": stanza.pop("types", "deb").split(),
            "uris": [bare(uri) for uri in stanza.pop("uris").split()],
            "suites": stanza.pop("suites").split(),
            "components": stanza.pop("components", "").split(),
            "options": stanza,
            "file": file,
        }


def apt_entries(context):
    """Every enabled source of apt, one-line and deb822 alike, in the order in which apt reads."""
    entries = []
    parts = context.glob("/etc/apt/sources.list.d/*.list")
    parts += context.glob("/etc/apt/sources.list.d/*.sources")
    files = ["/etc/apt/sources.list", *sorted(parts)]
    for file in files:
        text = context.read(file)
        if text is None:
            continue
        entries.extend(entries_of(text, file))
    return entries


def entries_of(text, file):
    """The enabled entries of one file's text; deb822 where its name ends in .sources."""
    return list((_deb822 if file.endswith(".sources") else _one_line)(text, file))


def component_enabled(entries, component):
    """True when a binary source (not only a security one) carries the archive component."""
    for entry in entries:
        if "deb" not in entry["types"] or component not in entry["components"]:
            continue
        if any(not suite.rstrip("/").endswith("security") for suite in entry["suites"]):
            return True
    return False


# files of packages


def _info_path(context, name, kind):
    native = ARCHITECTURES.get(context.platform.get("architecture", "x86_64"), "amd64")
    for candidate in (name + ":" + native, name):
        path = "{0}/{1}.{2}".format(INFO, candidate, kind)
        if context.lstat(path) is not None:
            return path
    return None


def diversions(context):
    """{path: (where it was moved to, the package that may keep the path)} (dpkg-divert(1))."""
    lines = (context.read(DIVERSIONS) or "").splitlines()
    return {
        lines[index]: (lines[index + 1], lines[index + 2]) for index in range(0, len(lines) - 2, 3)
    }


def overrides(context):
    """Paths whose owner and mode the administrator has set (dpkg-statoverride(1))."""
    lines = (context.read(OVERRIDES) or "").splitlines()
    return {line.split(None, 3)[3] for line in lines if len(line.split(None, 3)) == 4}


def conffiles(context, names):
    """{path: md5} of the configuration files that dpkg tracks for these packages."""
    found = {}
    for stanza in (context.read(STATUS) or "").split("\n\n"):
        start = stanza.find("Package: ")
        if start < 0 or stanza[start + 9 :].split("\n", 1)[0].strip() not in names:
            continue
        match = re.search(r"^Conffiles:\n((?: .+\n?)+)", stanza, re.M)
        for line in match.group(1).splitlines() if match is not None else []:
            words = line.split()
            if len(words) == 2:  # a third word says that the file is obsolete
                found[words[0]] = words[1]
    return found


def _excluded(context):
    """A test for paths that dpkg was told not to unpack (path-exclude in dpkg.cfg(5))."""
    rules = []
    for file in ["/etc/dpkg/dpkg.cfg", *context.glob("/etc/dpkg/dpkg.cfg.d/*")]:
        for line in (context.read(file) or "").splitlines():
            word, _sign, pattern = line.replace("=", " ", 1).partition(" ")
            if word.strip() in ("path-exclude", "path-include"):
                rules.append((word.strip() == "path-exclude", pattern.strip()))

    def excluded(path):
        result = False
        for exclude, pattern in rules:
            if fnmatch.fnmatch(path, pattern):
                result = exclude
        return result

    return excluded if rules else None


def _leaves(paths):
    """The listed paths without the directories that lead to others, which come before them."""
    for index, path in enumerate(paths):
        after = paths[index + 1] if index + 1 < len(paths) else ""
        if not after.startswith(path + "/"):
            yield path


def _state(context, path, info, sums, read):
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


def flaws(context, names):
    """[{package, path, fault, conffile}] of the files that these packages own.

    Cheap enough for every look: one lstat per file. dpkg gives what it unpacks the time that it
    has in the package, so a file that is newer than dpkg's list of the package's files was touched
    after it was installed; such a file alone is read and hashed. A change that kept the old time
    is seen by a deep look, which reads all.

    Configuration files belong to the administrator: one that is gone is named, one that was edited
    only by a deep look.
    """
    names = [name for name in sorted(names) if name in context.packages]
    diverted = diversions(context)
    configuration = conffiles(context, names)
    excluded = _excluded(context)
    root = context.stat("/")
    owner = root.st_uid if root is not None else 0
    theirs = overrides(context)
    found, ways = [], {}
    for name in names:
        flawed = _package_flaws(context, name, diverted, configuration, excluded, owner, ways)
        found.extend(
            one
            for one in flawed
            if one["path"] not in theirs or not one["fault"].startswith(("mode ", "owned "))
        )
    found.extend(one for one in _way_flaws(context, ways, owner) if one["path"] not in theirs)
    return found


def _way_flaws(context, ways, owner):
    """Flaws of directories on the way to the packages' files; `ways`: {path: package}."""
    for path in sorted(ways):
        info = context.lstat(path)
        fault = modes.of_directory(context, info, owner) if info is not None else None
        if fault is not None:
            yield _flaw(ways[path], path, fault, mode=modes.wish(context, info))


def _flaw(name, path, fault, conffile=False, mode=None):
    """`mode` is what cures it, where installing the package again does not.

    dpkg leaves the modes and owners of directories and configuration files that are there.
    """
    found = {"package": name, "path": path, "fault": fault, "conffile": conffile}
    return found if mode is None else dict(found, mode=mode)


def _shipped(context, name, diverted):
    """{path as it is on disk: md5} of a package's files, diversions followed."""
    sums = md5sums(context, name)
    for path, (moved, keeper) in diverted.items():
        if path in sums and keeper != name:
            sums[moved] = sums.pop(path)
    return sums


def _package_flaws(context, name, diverted, configuration, excluded, owner, ways):
    place, sums_place = _info_path(context, name, "list"), _info_path(context, name, "md5sums")
    text = context.read(place) if place is not None else None
    listed = [line for line in (text or "").splitlines() if line]
    if not listed:
        return [_flaw(name, "file list", "missing")]
    unpacked = context.lstat(place).st_mtime
    sums_time = context.lstat(sums_place).st_mtime if sums_place else unpacked
    # Where the clock was wrong on that day, the package's own time is the later one.
    since = max(unpacked, sums_time)
    changed_since = since if since <= time.time() else 0
    for path in modes.directories(listed):
        ways.setdefault(path, name)
    sums = None
    found, times = [], []
    for path in _leaves(listed):
        if not context.deep and path.startswith(UNREAD):
            continue
        if path in diverted and diverted[path][1] != name:
            path = diverted[path][0]
        info = context.lstat(path)
        conffile = path in configuration
        if info is None:
            if excluded is None or not excluded(path):
                found.append(_flaw(name, path, "missing", conffile))
            continue
        times.append(info.st_mtime)
        touched = info.st_mtime > since
        fault = None
        if conffile:
            fault = modes.of_file(context, path, info, owner, changed_since)
            if fault is not None:
                found.append(_flaw(name, path, fault, True, modes.wish(context, info)))
            if not context.deep:
                continue
            fault = None
        if context.deep or touched or info.st_size == 0:
            if sums is None:
                sums = _shipped(context, name, diverted)
                sums.update(configuration)
            fault = _state(context, path, info, sums, context.deep or touched)
            # A link that leads nowhere is no flaw of its own: its target is, or the other package.
            if fault is None and touched and stat.S_ISLNK(info.st_mode):
                fault = "relinked"
        # Most files by far are such, and a call for each would be a tenth of the look.
        plain = info.st_uid == owner and (
            info.st_mode == 0o100755
            or (info.st_mode == 0o100644 and info.st_ctime <= changed_since)
        )
        if fault is None and not conffile and not plain:
            fault = modes.of_file(context, path, info, owner, changed_since)
        if fault is not None:
            found.append(_flaw(name, path, fault, conffile))
    if sums_place is None:
        # Packages without any file have none: nothing to compare, nothing to miss.
        if context.deep and times:
            found.append(_flaw(name, "checksums", "missing"))
    elif sums_time > unpacked + MOMENT and times and min(times) <= unpacked:
        found.append(_flaw(name, "checksums", "changed"))
    return found


def _repair(component, name, ours):
    """Role variables that cure these flaws of one package."""
    repair = {}
    again = [one for one in ours if "mode" not in one]
    if again:
        repair[component + "_reinstall"] = [name]
    edited = [one["path"] for one in again if one["conffile"] and one["fault"] != "missing"]
    if edited:
        repair[component + "_conffiles"] = edited
    if len(again) < len(ours):
        closed = ["{0} {1}".format(one["path"], one["mode"]) for one in ours if "mode" in one]
        repair[component + "_modes"] = closed
    return repair


def flaw_changes(component, flawed):
    """Changes for the flaws of packages, each repaired by installing the package again.

    Many flaws of one package are one item.
    """
    changes = []
    for name in sorted({one["package"] for one in flawed}):
        ours = [one for one in flawed if one["package"] == name]
        repair = _repair(component, name, ours)
        if len(ours) > MANY:
            faults = sorted({one["fault"] for one in ours})
            old = "{0} files: {1}".format(len(ours), ", ".join(faults))
            reason = "for example {0}".format(ours[0]["path"])
            changes.append(change(component, name + " files", old, name, reason, repair=repair))
            continue
        for one in ours:
            item, reason = one["path"], "it is a file of {0}".format(name)
            if not item.startswith("/"):
                item = "{0} {1}".format(name, item)
                reason = "dpkg's record of the package tells whether its files are whole"
            changes.append(change(component, item, one["fault"], name, reason, repair=repair))
    return changes


# alternatives


def alternative(context, group):
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
    choice = next((one for one in choices if one[0] == chosen), None)
    links = {lines[1]: (group, (choice or choices[0])[0])}
    for index, (name, link) in enumerate(slaves):
        target = (choice or choices[0])[2 + index]
        if target and context.lstat(target) is not None:
            links[link] = (name, target)
    return {"mode": lines[0], "choices": [one[0] for one in choices], "links": links}


def broken_links(context, record):
    """Links of an alternative that don't lead where its record says, sorted."""
    found = []
    for link, (name, target) in record["links"].items():
        middle = "/etc/alternatives/" + name
        if context.readlink(link) != middle:
            found.append(link)
        if context.readlink(middle) != target:
            found.append(middle)
    return sorted(found)


def digest(context, path, algorithm):
    """Hex digest of a file; None when it can't be read."""
    file = context.open(path)
    if file is None:
        return None
    state = hashlib.new(algorithm)
    with file:
        for block in iter(lambda: file.read(1 << 20), b""):
            state.update(block)
    return state.hexdigest()
