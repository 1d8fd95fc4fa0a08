"""containerd's default runtime in config.toml: set where that is wished, and put back.

TOML takes a table once, and most files have the one that names the default. So its line is replaced
where it stands, beside a comment with what stood there; a file without that table gets it within
the role's own lines. Pure.
"""

from __future__ import annotations

import re

KEY = "default_runtime_name"
# Behind the line that the role wrote; before what stood in its place.
MARK = "# by the Ansible role nvidia_container_toolkit"
WAS = "# nvidia_container_toolkit keeps: "
_HEAD = (
    r"(?m)^[ \t]*\[[ \t]*plugins[ \t]*\.[ \t]*[\"']{0}[\"'][ \t]*\.[ \t]*containerd[ \t]*\][^\n]*\n"
)
_LINE = re.compile(rf"(?m)^[ \t]*[\"']?{KEY}[\"']?[ \t]*=[^\n]*\n")
_NEXT = re.compile(r"(?m)^[ \t]*\[")


def is_ours(content: str | None) -> bool:
    """Whether the role set the default within somebody else's table."""
    return MARK in (content or "")


def line() -> str:
    return f'  {KEY} = "nvidia"  {MARK}\n'


def _place(content: str, plugin: str) -> tuple[int, int] | None:
    """Where the body of the table begins and ends; None where there is none."""
    head = re.search(_HEAD.format(re.escape(plugin)), content)
    if head is None:
        return None
    after = _NEXT.search(content, head.end())
    return head.end(), len(content) if after is None else after.start()


def has_table(content: str, plugin: str) -> bool:
    return _place(content, plugin) is not None


def without(content: str) -> str:
    """The text with what stood there before the role set it."""
    lines: list[str] = []
    for text_line in content.splitlines(True):
        if MARK not in text_line:
            lines.append(text_line)
        elif lines and lines[-1].startswith(WAS):
            lines[-1] = lines[-1][len(WAS) :]
    return "".join(lines)


def within(content: str, plugin: str) -> str:
    """The text with the default set in the table that it has."""
    place = _place(content, plugin)
    if place is None:
        return content
    begin, end = place
    former = _LINE.search(content, begin, end)
    if former is None:
        return content[:begin] + line() + content[begin:]
    return content[: former.start()] + WAS + former.group() + line() + content[former.end() :]
