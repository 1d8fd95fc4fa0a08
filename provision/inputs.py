"""Reads the users' files, so that none of them can hang or crash a command.

A directory or a named pipe in the place of lock.yml, a file of 60 MB, nested brackets that overflow
libyaml's stack, an alias that unfolds to billions of values, a date where text belongs: each
becomes an InputError that names the file, the line and what was expected there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from provision.errors import InputError
from provision.yaml_text import Loader

# A lock has some 100 kB for each of its stacks, and an inventory of 10,000 hosts 2 MB.
MAX_BYTES = 32 << 20
# libyaml's composer recurses: some 30,000 levels end the process.
MAX_DEPTH = 64
# In an inventory, with every alias written out.
MAX_VALUES = 2_000_000

_TEXT = "tag:yaml.org,2002:str"
_SCALARS = {
    _TEXT: "text",
    **{f"tag:yaml.org,2002:{kind}": kind for kind in ("int", "float", "bool", "null")},
}
# Tags that don't make a text, number or truth value from a scalar.
_NO_SCALARS = ("binary", "seq", "map", "set", "omap", "pairs")
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)
# The names in a folder that Ansible does not read as inventories.
_IGNORED = re.compile(r"^\.|~$|\.(pyc|pyo|swp|bak|rpm|md|txt|rst|orig|cfg|retry)$")


def of_format(
    document: Any, number: int, message: str, *, where: str, hint: str = ""
) -> dict[str, Any]:
    """The document. InputError with this message where it is none of the format `number`."""
    if isinstance(document, dict) and document.get("format") == number:
        return document
    kind = type(document).__name__
    got = f"format {document.get('format')!r}" if isinstance(document, dict) else kind
    raise InputError(message, where=where, got=got, expected=f"format {number}", hint=hint)


def read(path: Path, *, limit: int | None = MAX_BYTES) -> bytes:
    """The bytes of a regular file; at most `limit` and one more.

    FileNotFoundError or NotADirectoryError where it is missing, InputError for anything that can't
    be read as a file.
    """
    try:
        _check_regular(path.stat().st_mode, str(path))
        # O_NONBLOCK: a file that has just become a named pipe would block the open.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read() if limit is None else file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise InputError(
            f"the file can't be read: {error.strerror}", where=str(path), expected="a file"
        ) from None


def _check_regular(mode: int, where: str) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "a device")
        raise InputError(
            f"{kind} is where a file should be",
            where=where,
            expected="a file",
            hint="remove it, or move it away",
        )


def load(data: bytes, *, where: str, subject: str, hint: str = "") -> Any:
    """The plain data of one YAML document that provision wrote; `subject` names it in errors.

    Texts, numbers, truth values, null, lists, and mappings whose keys are different texts: only
    what JSON has, for digests are made from JSON. InputError for anything else.
    """
    try:
        if len(data) > MAX_BYTES:
            raise _OddError(0, "a larger file", f"at most {MAX_BYTES >> 20} MiB")
        text = data.decode("utf-8")
        _check(text, _check_plain)
        return yaml.load(text, Loader=Loader)  # noqa: S506  a safe loader
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"{subject} is not UTF-8 text",
            where=f"{where}:{line}",
            got=str(error.reason),
            hint=hint,
        ) from None
    except _OddError as odd:
        raise InputError(
            f"{subject} holds a value that provision never writes",
            where=f"{where}:{odd.line}" if odd.line else where,
            got=odd.got,
            expected=odd.expected,
            hint=hint,
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError(
            f"{subject} is not YAML",
            where=f"{where}:{mark.line + 1}" if mark else where,
            got=str(getattr(error, "problem", None) or getattr(error, "reason", "")),
            hint=hint,
        ) from None


class _OddError(Exception):
    """YAML that is not plain data, or too much of it. `line` 0: the whole file."""

    def __init__(self, line: int, got: str, expected: str) -> None:
        super().__init__(got)
        self.line, self.got, self.expected = line, got, expected

    def error(self, message: str, where: object) -> InputError:
        return InputError(
            message, where=f"{where}:{self.line}", got=self.got, expected=self.expected
        )


@dataclass
class _Open:
    """A list or mapping that is being read."""

    anchor: str | None
    is_mapping: bool
    at_key: bool
    values: int = 1
    keys: set[str] = field(default_factory=set)


# (event, the lists and mappings around it, the loader, its line)
_Judge = Callable[[Any, Sequence[_Open], Any, int], None]


def _check(text: str, judge: _Judge | None) -> None:
    """_OddError or YAMLError for YAML that must not be loaded; reads events, without recursion.

    `judge` checks each value, too.
    """
    opened: list[_Open] = []
    sizes: dict[str, int] = {}
    loader = Loader(text)
    try:
        while loader.check_event():
            event: Any = loader.get_event()
            line = event.start_mark.line + 1
            if isinstance(event, yaml.CollectionEndEvent):
                _close(opened, sizes, line)
            elif isinstance(event, yaml.NodeEvent):
                if judge is not None:
                    judge(event, opened, loader, line)
                _count(event, opened, sizes, line)
    finally:
        loader.dispose()


def _count(event: yaml.NodeEvent, opened: list[_Open], sizes: dict[str, int], line: int) -> None:
    """Counts the depth, and the values with aliases written out; _OddError for too many."""
    if isinstance(event, yaml.CollectionStartEvent):
        if len(opened) == MAX_DEPTH:
            raise _OddError(line, "deeper nesting", f"at most {MAX_DEPTH} levels")
        mapping = isinstance(event, yaml.MappingStartEvent)
        opened.append(_Open(event.anchor, mapping, at_key=mapping))
        return
    size = 1
    if isinstance(event, yaml.AliasEvent):
        if any(collection.anchor == event.anchor for collection in opened):
            raise _OddError(
                line, f"*{event.anchor} within &{event.anchor}", "no value within itself"
            )
        size = sizes.get(event.anchor or "", 1)
    elif event.anchor is not None:
        sizes[event.anchor] = 1
    _add(opened, size, line)


def _close(opened: list[_Open], sizes: dict[str, int], line: int) -> None:
    done = opened.pop()
    if done.anchor is not None:
        sizes[done.anchor] = done.values
    _add(opened, done.values, line)


def _add(opened: list[_Open], size: int, line: int) -> None:
    if not opened:
        return
    parent = opened[-1]
    parent.values += size
    parent.at_key = parent.is_mapping and not parent.at_key
    if parent.values > MAX_VALUES:
        raise _OddError(
            line, "aliases that unfold to more values", f"at most {MAX_VALUES:,} values in a file"
        )


def _check_plain(event: yaml.NodeEvent, opened: Sequence[_Open], loader: Any, line: int) -> None:
    """_OddError for values that JSON does not have."""
    keyed = opened[-1] if opened and opened[-1].at_key else None
    if isinstance(event, yaml.AliasEvent):
        raise _OddError(line, f"the alias *{event.anchor}", "values written out")
    tag = getattr(event, "tag", None)
    if tag not in (None, "!", _TEXT):
        raise _OddError(line, f"the tag {tag}", "values without a tag")
    if not isinstance(event, yaml.ScalarEvent):
        if keyed is not None:
            raise _OddError(line, "a list or mapping as a key", "text as a key")
        return
    if tag is None:
        tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
    elif tag == "!":
        tag = _TEXT
    kind = _SCALARS.get(tag, tag.rpartition(":")[2])
    if tag not in _SCALARS or (keyed is not None and tag != _TEXT):
        as_key = " as a key" if keyed is not None else ""
        expected = "text as a key" if as_key else "text, a number, true, false or null"
        raise _OddError(line, f"{event.value} ({kind}){as_key}", expected)
    if keyed is not None:
        if event.value in keyed.keys:
            raise _OddError(line, f"the key {event.value} a second time", "each key once")
        keyed.keys.add(event.value)
    elif tag != _TEXT:
        try:
            loader.yaml_constructors[tag](loader, yaml.ScalarNode(tag, event.value))
        except (ValueError, LookupError):
            raise _OddError(
                line, f"{event.value[:40]} ({kind})", "a value that can be read"
            ) from None


def _check_constructed(event: Any, opened: Sequence[_Open], loader: Any, line: int) -> None:
    """_OddError for values that Ansible can't construct or export as JSON."""
    as_key = " as a key" if opened and opened[-1].at_key else ""
    if not isinstance(event, yaml.ScalarEvent):
        if as_key and isinstance(event, yaml.CollectionStartEvent):
            raise _OddError(line, "a list or mapping as a key", "text as a key")
        return
    tag = event.tag or loader.resolve(yaml.ScalarNode, event.value, event.implicit)
    construct = loader.yaml_constructors.get(tag)
    if construct is None:
        return  # a tag of Ansible's
    kind = tag.rpartition(":")[2]
    shown = f"{event.value[:40]} ({kind}){as_key}"
    if kind in _NO_SCALARS or (as_key and kind == "timestamp"):
        raise _OddError(line, shown, "text, in quotes")
    try:
        construct(loader, yaml.ScalarNode(tag, event.value))
    except (ValueError, LookupError, AttributeError, yaml.YAMLError):
        raise _OddError(line, shown, "a value that can be read, or text in quotes") from None


def check_readable(text: str, *, where: str) -> None:
    """InputError with the line for which Ansible can't read a file of an inventory.

    Ansible itself tries every inventory plugin on such a file and lists the complaints of each.
    """
    try:
        _check(text, _check_constructed)
    except _OddError as odd:
        raise odd.error("Ansible cannot read this value", where) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError(
            "this is not YAML",
            where=f"{where}:{mark.line + 1}" if mark else where,
            got=str(getattr(error, "problem", None) or getattr(error, "reason", "")),
        ) from None


def check_inventory(paths: Sequence[Path]) -> None:
    """InputError for an inventory's files that would hang or crash Ansible.

    Files that are not YAML are left to Ansible.
    """
    for path in _inventory_files(paths):
        if path.suffix not in (".yml", ".yaml", ".json") and os.access(path, os.X_OK):
            continue  # a dynamic inventory's program
        data = read(path)
        if len(data) > MAX_BYTES:
            raise InputError(
                "the file is too large for an inventory",
                where=str(path),
                expected=f"at most {MAX_BYTES >> 20} MiB",
            )
        text = data.decode("utf-8", errors="replace")
        if not _may_unfold(text):
            continue
        try:
            _check(text, None)
        except yaml.YAMLError:
            continue
        except _OddError as odd:
            raise odd.error("Ansible would not come to an end with this", path) from None


def _may_unfold(text: str) -> bool:
    """Whether there may be too many aliases or levels; most files have none and aren't parsed."""
    return (
        ("&" in text and "*" in text)
        or text.count("[") + text.count("{") > MAX_DEPTH
        or re.search(rf"^[ -]{{{MAX_DEPTH},}}", text, re.MULTILINE) is not None
    )


def _inventory_files(paths: Sequence[Path]) -> Iterator[Path]:
    """The files of these sources, and of group_vars and host_vars beside them."""
    waiting = list(paths)
    for path in paths:
        if not path.is_dir():
            waiting += [path.parent / name for name in ("group_vars", "host_vars")]
    visited: set[tuple[int, int]] = set()
    while waiting:
        path = waiting.pop()
        try:
            status = path.stat()
        except OSError:
            continue  # Ansible reports a file that it needs
        if (status.st_dev, status.st_ino) in visited:
            continue
        visited.add((status.st_dev, status.st_ino))
        if stat.S_ISDIR(status.st_mode):
            waiting += [path / name for name in os.listdir(path) if not _IGNORED.search(name)]
        else:
            yield path
