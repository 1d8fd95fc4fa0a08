"""dpkg and apt as files.

`dpkg-query` and `apt-cache policy` cost a process each and lock nothing we need; the status file,
the file lists and the sources are plain text with a stable format (deb-control(5),
sources.list(5)), so one process reads them all in a few milliseconds.
"""

import hashlib
import re

from .change import change

STATUS = "/var/lib/dpkg/status"
INFO = "/var/lib/dpkg/info"

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


def interrupted(context):
    """True when dpkg has work left: a journal, or packages half way."""
    if any(name.isdigit() for name in context.listdir("/var/lib/dpkg/updates")):
        return True
    return any(package["status"] != "installed" for package in context.packages.values())


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
            changes.append(change(component, name, seen["status"], "installed", reason))
        if hold and seen["want"] != "hold":
            reason = "an upgrade could move it away from the lock"
            changes.append(change(component, name + " hold", "not held", "held", reason))
        elif not hold and seen["want"] == "hold":
            reason = "holding was switched off"
            changes.append(change(component, name + " hold", "held", "not held", reason))
    return changes


# apt's sources


def _one_line(text, file):
    for line in text.splitlines():
        line = line.split("#", 1)[0].strip()
        match = re.match(r"^(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*(.*)$", line)
        if match is None:
            continue
        kind, options, uri, suite, components = match.groups()
        yield {
            "types": [kind],
            "uris": [uri],
            "suites": [suite],
            "components": components.split(),
            "options": dict(
                option.split("=", 1) for option in (options or "").split() if "=" in option
            ),
            "file": file,
        }


def _stanzas(text):
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
    for stanza in _stanzas(text):
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
    for stanza in _stanzas(text):
        if stanza.pop("enabled", "yes").lower() in ("no", "false", "0", "off"):
            continue
        if "uris" not in stanza or "suites" not in stanza:
            continue
        yield {
            "types": stanza.pop("types", "deb").split(),
            "uris": stanza.pop("uris").split(),
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
        entries.extend((_deb822 if file.endswith(".sources") else _one_line)(text, file))
    return entries


def component_enabled(entries, component):
    """True when a binary source (not only a security one) carries the archive component."""
    for entry in entries:
        if "deb" not in entry["types"] or component not in entry["components"]:
            continue
        if any(not suite.rstrip("/").endswith("security") for suite in entry["suites"]):
            return True
    return False


def damaged(context, names):
    """[[package, path]] of files whose content is not what the package shipped (reads it all)."""
    found = []
    for name in sorted(names):
        for path, md5 in sorted(md5sums(context, name).items()):
            if digest(context, path, "md5") != md5:
                found.append([name, path])
    return found


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
