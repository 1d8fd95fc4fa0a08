"""The bytes of lock.yml: a line per package, wheel and reason, so that a diff is a list.

Pure.
"""

from __future__ import annotations

from typing import Any

import yaml

from provision.lock.model import Lock
from provision.models import plain
from provision.yaml_c import Dumper

HEADER = (
    "# Made by `provision lock`; commit it. To change it, change gpu_stack in lab/, lock again.\n"
)


class _Line(dict[str, Any]):
    """A mapping that is written on one line."""


class _Dumper(Dumper):
    """Block style, multi-line texts as literal blocks, no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_line(dumper: _Dumper, line: _Line) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", line.items(), flow_style=True)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(_Line, _represent_line)
# No line is ever broken: a new word in a sentence would move all the others.
_WIDTH = 1 << 20


def dump(lock: Lock) -> bytes:
    """The bytes of lock.yml: a line per package, wheel and reason, so that a diff is a list."""
    details = plain(lock.details)
    for packages in details["packages"].values():
        for name, package in packages.items():
            packages[name] = _Line(package)
    text = yaml.dump(
        {"gpu_lock": plain(lock.slim), "gpu_lock_details": details},
        Dumper=_Dumper,
        sort_keys=False,
        width=_WIDTH,
        allow_unicode=True,
    )
    return (HEADER + "---\n" + text).encode()
