"""YAML from data: one style for every rendered file, and no templating of YAML ever.

A value pasted into a template is a quoting bug waiting for its input; a dumper has none. Comments
are only ever whole blocks in front of a document.
"""

from __future__ import annotations

import re
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Block style with indented lists, as ansible-lint and people like it; no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = '"' if "\x85" in text else "|"  # a block would read NEL back as a line's end
    elif text in _WORDS or (text and yaml.safe_load(_plain_or_empty(text)) != text):
        style = '"'
    if style != "|" and " " in text and len(text) > _FOLD and _FOLDS.fullmatch(text):
        style = ">"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _plain_or_empty(text: str) -> str:
    """Text that can't stand unquoted makes yaml fail; an empty document then stands for it."""
    try:
        yaml.safe_load(text)
    except yaml.YAMLError:
        return ""
    return text


# Longer texts of single-spaced words are folded; a quoted one would be broken with backslashes.
_FOLD = 60
_FOLDS = re.compile(r"[^\s#](?:[^\s]| (?! ))*[^\s]")

# YAML 1.1 words that a person would read as text.
_WORDS = {"y", "n", "Y", "N", "", "~"}

_Dumper.add_representer(str, _represent_text)


def dump(data: Any, *, header: str = "") -> bytes:
    """A document with `---`; `header` is text without comment signs, one comment line per line."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
    body = yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    return f"{comment}---\n{body}".encode()
