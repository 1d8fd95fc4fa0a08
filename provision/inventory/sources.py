"""The text files of an inventory: in which file and line a group or host sets a variable.

Ansible's export says what a group or host has, but not where it is written. A message that names
the wrong file sends a person to a line that is right, so the place is searched for by its owner:
the owner's own file in group_vars or host_vars, or its part of an inventory file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import yaml

VARIABLES = ("group_vars", "host_vars")
_YAML = (".yml", ".yaml")
# In bytes. An inventory of thousands of hosts has less; data files beside it may have more.
_LARGEST = 1_000_000


@dataclass(frozen=True)
class Sources:
    """The texts of files by their names.

    They are searched only for the place of a fault, and once per word, which can be wrong on each
    of 10,000 hosts.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    _hits: dict[str, list[tuple[str, int]]] = field(default_factory=dict, repr=False, compare=False)

    def where(self, word: str, *, near: str) -> str:
        """`lab/group_vars/gpu.yml:7` of the line that sets `word`, or "".

        `near` is the group or host that sets it: the place is in its own file or its part of an
        inventory file, never in the file of another. What nobody sets ("") has no place.
        """
        if not near:
            return ""
        hits = self._hits.get(word)
        if hits is None:
            hits = self._hits[word] = list(self._search(word))
        for name, line in hits:
            if near in _owners(name):
                return _place((name, line))
        shared = [(name, line) for name, line in hits if not _is_owned(name)]
        for name, _ in shared:
            exact = _line_of(name, self.texts[name], word, near)
            if exact:
                return _place((name, exact))
        return _place(shared[0]) if shared else ""

    def written(self, text: str) -> str:
        """The place of the first line that contains `text`, or ""."""
        for name, content in self.texts.items():
            if text in content:
                return _place((name, content[: content.index(text)].count("\n") + 1))
        return ""

    def _search(self, word: str) -> Iterator[tuple[str, int]]:
        """(file, line) of the first line that sets `word` in each file."""
        pattern = re.compile(rf"(^|[\s\"'{{,]){re.escape(word)}[\"']?\s*[:=]")
        for name, text in self.texts.items():
            if word not in text:
                continue
            for number, line in enumerate(text.splitlines(), 1):
                if word not in line or line.lstrip().startswith("#"):
                    continue
                if pattern.search(line.split(" #")[0]):
                    yield name, number
                    break


def _place(hit: tuple[str, int]) -> str:
    return f"{hit[0]}:{hit[1]}"


def _is_owned(name: str) -> bool:
    """Whether the file belongs to one group or host: whether it is in group_vars or host_vars."""
    return any(part in VARIABLES for part in PurePath(name).parts[:-1])


def _owners(name: str) -> tuple[str, ...]:
    """The groups or hosts that a file may be of: `gpu` of group_vars/gpu.yml and gpu/main.yml.

    The name counts with and without its suffix, for a host may be called `gpu01.lab`.
    """
    parts = PurePath(name).parts
    for index, part in enumerate(parts[:-1]):
        if part in VARIABLES:
            return (parts[index + 1], PurePath(parts[index + 1]).stem)
    return (parts[-1], PurePath(name).stem)


def _line_of(name: str, text: str, word: str, owner: str) -> int:
    """The line of an inventory file in which a group or host sets `word`, or 0."""
    if PurePath(name).suffix not in _YAML:
        return _line_of_ini(text, word, owner)
    try:
        roots = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        return 0
    return _line_of_yaml([root for root in roots if root is not None], word, owner)


def _line_of_yaml(roots: Sequence[yaml.Node], word: str, owner: str) -> int:
    """The line of `owner: {vars: {word: ...}}` or `owner: {word: ...}`, or 0."""
    todo = list(reversed(roots))
    visited: set[int] = set()
    while todo:
        node = todo.pop()
        if id(node) in visited:  # an alias
            continue
        visited.add(id(node))
        if not isinstance(node, yaml.MappingNode):
            continue
        for key, value in node.value:
            if key.value == owner and isinstance(value, yaml.MappingNode):
                line = _line_of_key(value, word) or max(
                    (_line_of_key(inner, word) for name, inner in value.value
                     if name.value == "vars"),
                    default=0,
                )  # fmt: skip
                if line:
                    return line
        todo += [value for _, value in reversed(node.value)]
    return 0


def _line_of_key(node: yaml.Node, word: str) -> int:
    if not isinstance(node, yaml.MappingNode):
        return 0
    lines = (key.start_mark.line + 1 for key, _ in node.value if key.value == word)
    return int(next(lines, 0))


def _line_of_ini(text: str, word: str, owner: str) -> int:
    """The line of `word=` on the owner's own line or in its section `[owner:vars]`, or 0."""
    section = ""
    sets = re.compile(rf"(^|\s){re.escape(word)}\s*=")
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[([^\]]+)\]", line)
        if header:
            section = header[1]
        elif sets.search(line.split(" #")[0]) and (
            section == f"{owner}:vars" or line.split()[0] == owner
        ):
            return number
    return 0


class _Files(Mapping[str, str]):
    """Small text files by their names, read at the first access."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    @functools.cached_property
    def _texts(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        for path in self._paths:
            files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
            if path.is_file():
                for folder in VARIABLES:
                    files += sorted(p for p in (path.parent / folder).rglob("*") if p.is_file())
            for file in files:
                if file.name.startswith(".") or file.stat().st_size > _LARGEST:
                    continue
                try:
                    texts[str(file)] = file.read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError):
                    continue
        return texts

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def read(paths: Sequence[Path]) -> Sources:
    """The small text files of the inventory, and of group_vars and host_vars beside it.

    They only serve to find the place of a fault, so they are read when one is searched for.
    """
    return Sources(_Files(paths))
