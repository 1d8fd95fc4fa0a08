"""The program's output: text on stdout, progress and warnings on stderr, or JSON."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

from rich.console import Console

from provision.report.reading import clean

# Without emoji: a ":x:" in a message must not become a picture.
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def say(text: str, console: Console = out) -> None:
    """Prints text; on a terminal, long lines break between words and keep their indent.

    Names and output of hosts may be in it: control characters are shown as `\\u001b`.
    """
    lines = clean(text).splitlines()
    if console.is_terminal:
        lines = [part for line in lines for part in _broken(line, console.width)]
    console.print("\n".join(lines), markup=False)


def shell_word(path: Path) -> str:
    """A path, quoted for a shell command that is shown."""
    return shlex.quote(str(path))


def _broken(line: str, width: int) -> list[str]:
    """A line wrapped to `width`, where its words allow it."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line,
        max(width, 40),
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def print_json(data: Any) -> None:
    """Prints data as JSON, without rich, which would change it."""
    sys.stdout.write(json.dumps(data, indent=2) + "\n")
