"""What a preflight rule is: a small pure function that returns reasons against a run, or warnings.

A rule gets (facts, changes, options, row): what the look and the preflight's read, the selected
changes, the host's options, the stack's parts. It returns [(message, hint)]. The rules of a
component stand in its `rules.py`, those of the host in host_rules.py. What they need beside the
looks, the same file's FACTS read: {name in the preflight: function}. preflight.py has the order of
those that a person is to read first.
"""

from __future__ import annotations

import collections

from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    Check = Callable[..., Any]

# An id, the component whose changes make it relevant (None: any; WORK: pending verification
# counts too), whether it stops the run, and the function that judges.
Rule = collections.namedtuple("Rule", "id component stops check")
WORK = "work"


def rules_of(
    component: str, stops: Mapping[str, Check], warns: Mapping[str, Check] | None = None
) -> tuple[Rule, ...]:
    """A component's rules, by their ids: those that stop a run, and those that warn."""
    return (
        *(Rule(name, component, True, check) for name, check in stops.items()),
        *(Rule(name, component, False, check) for name, check in (warns or {}).items()),
    )


def some_packages(rows: list[Any]) -> str:
    """[package, version, [why]] of what apt would remove, the first of them."""
    return some(
        [
            "{0} {1}{2}".format(name, version, " ({0})".format("; ".join(why)) if why else "")
            for name, version, why in rows
        ]
    )


def some(names: list[str]) -> str:
    more = " and {0} more".format(len(names) - 4) if len(names) > 4 else ""
    return ", ".join(names[:4]) + more
