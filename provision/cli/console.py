"""What the program says: text on stdout, progress and warnings on stderr, or JSON."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

from rich.console import Console

from provision.report.reading import clean

# Without emoji: a ":x:" in a message is not to become a picture.
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def say(text: str, console: Console = out) -> None:
    """Prints text; on a terminal, long lines break between words and keep their indent.

    Names and answers of hosts are among it: what would steer the terminal is shown as
    `\\u001b`.
    """
    lines = clean(text).splitlines()
    if console.is_terminal:
        lines = [part for line in lines for part in _broken(line, console.width)]
    console.print("\n".join(lines), markup=False)


def shell_word(path: Path) -> str:
    """A path as one word of a shell command that is shown."""
    return shlex.quote(str(path))


def _broken(line: str, width: int) -> list[str]:
    """A line in pieces no wider than `width`, if its words allow it."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line,
        max(width, 40),
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def print_json(data: Any) -> None:
    """Prints data for a program: as it is, whatever rich would make of its words."""
    sys.stdout.write(json.dumps(data, indent=2) + "\n")
