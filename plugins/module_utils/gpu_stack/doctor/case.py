"""A case: one known problem of GPU machines, as a row of data.

Most cases come from public threads. A row has what is wrong, what to do, and the messages of
programs that show it. A component's rows are in its `doctor.py`, apt's in doctor/apt.py. CHECKS
there has, by the same id, the function that finds a case on a host; a case without one can only be
found in a log. FIXES has what `--fix` does about it.

Words in braces in a cure are filled in with the values found, in a command quoted for the shell; an
unknown one stays as <word>.
"""

from __future__ import annotations

import collections
import re

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable

    from ..shapes import Facts


# title: what is wrong. threads: its sources. cure: what to do, in words. commands: the same for a
# shell, on the host or (provision ...) on the controller. says: patterns of programs' messages,
# searched in every line (so none begins with a wildcard: a line may be a megabyte long); named
# groups fill in the cure. fix: what `--fix` does about it, "" for nothing.
Case = collections.namedtuple("Case", "id title threads cure commands says fix")

RUN = "a run of the components concerned"

# Of many similar clues a person reads the first few.
LINES = 5

WIDTH = 300


def clue(evidence: str, **words: str | list[str] | None) -> dict[str, Any]:
    """A clue: the evidence of a case, and the values for the words in its cure.

    In a command a value is one word of the shell's, each of a list is.
    """
    return {"evidence": evidence, "words": words}


def heard(case: Case, text: str, who: str) -> list[dict[str, Any]]:
    """Clues of a case in a program's output. Pure."""
    clues = []
    for pattern in case.says:
        # The first match is enough; a log repeats itself.
        match = re.search(pattern, text, re.I if "<!DOCTYPE" in pattern else 0)
        if match is None:
            continue
        start = text.rfind("\n", 0, match.end()) + 1
        end = text.find("\n", match.end())
        end = len(text) if end < 0 else end
        if end - start > WIDTH:
            start = max(start, match.end() - WIDTH // 2)
        line = text[start:end][:WIDTH].strip()
        words = {key: value for key, value in match.groupdict().items() if value}
        clues.append(clue("{0}: {1}".format(who, line), **words))
    return clues


def run_of(*components: str) -> Callable[[dict[str, Any], list[dict[str, Any]]], dict[str, Any]]:
    """A fix that runs those of the components that the host's lock has."""

    def fix(facts: Facts, _clues: list[dict[str, Any]]) -> dict[str, Any]:
        row = facts["row"] or {}
        names = [name for name in components if row.get(name)]
        return {"components": names} if names else {}

    return fix
