"""Files that a role writes whole, as patterns, with those that stay while another file needs them.

Plain data, so that a task can send a component's patterns to a host without the component's code.
"""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Iterable

    from .context import Context


def owned(*patterns: str, needed_by: str = "", saying: str = "") -> list[dict[str, str]]:
    """Rows {pattern, needed_by, saying} for `paths`.

    needed_by: a file with which they stay. saying: they stay only where its text has this in it.
    """
    return [{"pattern": pattern, "needed_by": needed_by, "saying": saying} for pattern in patterns]


def paths(context: Context, rows: Iterable[dict[str, str]]) -> list[str]:
    """The files that are there and that no other needs."""
    return [
        path for row in rows if not _needed(context, row) for path in context.glob(row["pattern"])
    ]


def _needed(context: Context, row: dict[str, str]) -> bool:
    if not row["needed_by"] or not context.exists(row["needed_by"]):
        return False
    return row["saying"] in (context.read(row["needed_by"]) or "")
