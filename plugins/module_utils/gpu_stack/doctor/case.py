"""What a case is: what is known to go wrong on GPU machines, as data, one row per case.

Most cases come from public threads of people who met them. A row says what is wrong, what cures it
and the sentences by which programs tell it. The rows of a component stand in its `doctor.py`, those
of apt in doctor/apt.py. CHECKS there has, by the same id, the small function that sees a case on a
host; a case without one can only be told from a log. FIXES has what `--fix` does about it.

Words in braces in a cure are filled in with what was found; what was not found stays as <word>.
"""

from __future__ import annotations

import collections
import re

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..shapes import Facts


# title: what is wrong. threads: where it is known from. cure: what to do, in words. commands: the
# same for a shell, on the host or (provision ...) on the controller. says: patterns of what
# programs print, found in any line (so none begins with what matches anything: a line may be a
# megabyte long); named groups fill in the cure. fix: what `--fix` does about it, "" for nothing.
Case = collections.namedtuple("Case", "id title threads cure commands says fix")

RUN = "a run of the components concerned"

# A person reads it: of many alike the first few tell.
LINES = 5

WIDTH = 300


def clue(evidence: str, **words: str) -> dict[str, Any]:
    """Why a case is believed, and what was found for its cure."""
    return {"evidence": evidence, "words": words}


def heard(case: Case, text: str, who: str) -> list[dict[str, Any]]:
    """Clues of a case in what a program said. Pure."""
    clues = []
    for pattern in case.says:
        # One line of a kind tells; a log repeats itself.
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
    """A fix that is a run of those of the components that the host's lock has."""

    def fix(facts: Facts, _clues: list[dict[str, Any]]) -> dict[str, Any]:
        row = facts["row"] or {}
        names = [name for name in components if row.get(name)]
        return {"components": names} if names else {}

    return fix
