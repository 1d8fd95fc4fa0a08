"""apt's sources and preferences as files: plain text with a stable format (sources.list(5))."""

from __future__ import annotations

import re

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Iterator

    from .context import Context

# Up to the last @ of the host's part: a password may hold one.
_LOGIN = re.compile(r"//[^/ ]*@")


def bare(address: str) -> str:
    """An address without the user and the password in it."""
    return _LOGIN.sub("//", address)


def _one_line(text: str, file: str) -> Iterator[dict[str, Any]]:
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


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """deb822: [{field (lower case): value}], continuation lines joined by newlines."""
    stanza: dict[str, str] = {}
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


def pins(text: str) -> dict[str, str]:
    """{package: version} that an apt preferences file pins above 1000, which also downgrades."""
    versions: dict[str, str] = {}
    for stanza in stanzas(text):
        kind, _space, version = stanza.get("pin", "").partition(" ")
        try:
            priority = int(stanza.get("pin-priority", "0"))
        except ValueError:
            continue
        if kind == "version" and priority > 1000:
            for name in stanza.get("package", "").split():
                versions.setdefault(name, version.strip())
    return versions


def enabled_uris(stanza: dict[str, str]) -> list[str]:
    """The addresses that a stanza names, without passwords; [] of one that is switched off."""
    if stanza.get("enabled", "yes").lower() in ("no", "false", "0", "off"):
        return []
    return [bare(uri) for uri in stanza.get("uris", "").split()]


def _deb822(text: str, file: str) -> Iterator[dict[str, Any]]:
    for stanza in stanzas(text):
        uris = enabled_uris(stanza)
        if not uris or "suites" not in stanza:
            continue
        for field in ("enabled", "uris"):
            stanza.pop(field, None)
        yield {
            "types": stanza.pop("types", "deb").split(),
            "uris": uris,
            "suites": stanza.pop("suites").split(),
            "components": stanza.pop("components", "").split(),
            "options": stanza,
            "file": file,
        }


def source_files(context: Context) -> list[str]:
    """The files in which apt looks for sources, in the order in which it reads them."""
    parts = context.glob("/etc/apt/sources.list.d/*.list")
    parts += context.glob("/etc/apt/sources.list.d/*.sources")
    return ["/etc/apt/sources.list", *sorted(parts)]


def apt_entries(context: Context) -> list[dict[str, Any]]:
    """Every enabled source of apt, one-line and deb822 alike, in the order in which apt reads."""
    entries = []
    for file in source_files(context):
        text = context.read(file)
        if text is None:
            continue
        entries.extend(entries_of(text, file))
    return entries


def entries_of(text: str, file: str) -> list[dict[str, Any]]:
    """The enabled entries of one file's text; deb822 where its name ends in .sources."""
    return list((_deb822 if file.endswith(".sources") else _one_line)(text, file))


def component_enabled(entries: list[dict[str, Any]], component: str) -> bool:
    """True when a binary source (not only a security one) carries the archive component."""
    for entry in entries:
        if "deb" not in entry["types"] or component not in entry["components"]:
            continue
        if any(not suite.rstrip("/").endswith("security") for suite in entry["suites"]):
            return True
    return False
