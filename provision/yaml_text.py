"""Dumps and loads the YAML of every file; YAML is never made by templates.

A value pasted into a template is a quoting bug waiting for its input; a dumper has none. Comments
are only ever whole blocks in front of a document.

There are two styles. `dump` is for files that people read and ansible-lint judges: lists indented,
long texts folded. `dump_lines` is for large files such as a lock: by libyaml, where PyYAML was
built with it, in a tenth of the time. libyaml can't indent lists, hence the second style.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

try:
    from yaml import CSafeDumper as _FastDumper
    from yaml import CSafeLoader as Loader
except ImportError:
    from yaml import SafeDumper as _FastDumper  # type: ignore[assignment]
    from yaml import SafeLoader as Loader  # type: ignore[assignment]

__all__ = ["Line", "Loader", "dump", "dump_lines"]

_TEXT = "tag:yaml.org,2002:str"
_WIDTH = 100


class Line(dict[str, Any]):
    """A mapping that `dump_lines` writes on one line."""


class _Indented(yaml.SafeDumper):
    """Block style with indented lists, as ansible-lint wants them; no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, False)


class _Lines(_FastDumper):
    """Block style, multi-line texts as literal blocks; no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


# Longer texts of single-spaced words are folded; a quoted one would be broken with backslashes.
_FOLD = 60
_FOLDS = re.compile(r"[^\s#](?:[^\s]| (?! ))*[^\s]")

# YAML 1.1 words that a person would read as text.
_WORDS = {"y", "n", "Y", "N", "", "~"}


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = '"' if "\x85" in text else "|"  # a block would read NEL back as a line's end
    elif text in _WORDS or _read_plain(text) != text:
        style = '"'
    if style != "|" and " " in text and len(text) > _FOLD and _FOLDS.fullmatch(text):
        style = ">"
    return dumper.represent_scalar(_TEXT, text, style=style)


def _read_plain(text: str) -> Any:
    """What the text without quotes is read as; None where it can't be read."""
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError):  # the latter of a date that is none
        return None


def _represent_block(dumper: _Lines, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(_TEXT, text, style="|" if "\n" in text else None)


def _represent_line(dumper: _Lines, line: Line) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", line.items(), flow_style=True)


_Indented.add_representer(str, _represent_text)
_Lines.add_representer(str, _represent_block)
_Lines.add_representer(Line, _represent_line)


def dump(data: Any, *, header: str = "") -> bytes:
    """A document with `---`; `header` is text without comment signs, one comment line per line."""
    return _document(data, _Indented, _WIDTH, header)


def dump_lines(data: Mapping[str, Any], *, header: str, width: int = _WIDTH) -> bytes:
    """As `dump`, fast, and with each `Line` on a line of its own."""
    return _document(data, _Lines, width, header)


def _document(data: Any, dumper: type[Any], width: int, header: str) -> bytes:
    comment = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
    body = yaml.dump(data, Dumper=dumper, sort_keys=False, width=width, allow_unicode=True)
    return f"{comment}---\n{body}".encode()
