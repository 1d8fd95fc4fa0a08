"""Finds misspelt names of variables, which Ansible would silently ignore.

A name within a typing slip of a real one is an error with file and line; others with our prefixes
are a warning, for they may be another program's.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from provision.errors import InputError
from provision.inventory.literals import is_template
from provision.inventory.sources import Sources
from provision.inventory.words import WISH, Words


class Slips(dict[str, str]):
    """Name -> the real name that it is a typing slip of, or ""; each name is compared once."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, name: str) -> str:
        self[name] = real = _slip(name, self._names)
        return real


def check_wish_spelt(
    owner: str, variables: Mapping[str, Any], slips: Slips, sources: Sources
) -> None:
    """InputError for a misspelt `gpu_stack`, which would leave hosts without a wish."""
    for name in variables:
        if not name.startswith("ansible_") and name != WISH and slips[name] == WISH:
            raise _no_variable(name, f"did you mean {WISH}?", owner, sources)


def _no_variable(name: str, hint: str, owner: str, sources: Sources) -> InputError:
    where = sources.where(name, near=owner.split(" ", 1)[1]) or owner
    return InputError(f"no variable {name!r}", where=where, hint=hint)


def check_words(
    owner: str, variables: Mapping[str, Any], words: Words, slips: Slips, sources: Sources
) -> list[str]:
    """Warnings for unknown variables with our prefixes. InputError for a fault of our own."""
    warnings = []
    near = owner.split(" ", 1)[1]
    for name, value in variables.items():
        rule = words.options.get(name)
        if rule is not None:
            if rule.identity:
                raise InputError(
                    f"{name} is decided by the lock, not by the inventory",
                    where=sources.where(name, near=near) or owner,
                    hint=(f"wish it: {rule.wish}" if rule.wish else "wish it in gpu_stack")
                    + "; if it is another program's, keep it in a group without hosts of ours",
                )
            if rule.run_only:
                raise InputError(
                    f"{name} is a setting of one run; Ansible never reads it from an inventory",
                    where=sources.where(name, near=near) or owner,
                    hint=f"give it to the run: -e {name}=...",
                )
            fault = None if is_template(value) else rule.fault(value)
            if fault:
                raise InputError(
                    f"{name}: {fault}",
                    where=sources.where(name, near=near) or owner,
                    hint=f"`provision explain {name}`",
                )
            continue
        if name == WISH or name.startswith("ansible_"):
            continue
        meant = slips[name]
        if meant:
            hint = f"did you mean {meant}?"
            real = words.options.get(meant)
            if real is not None and real.identity:
                hint += " That one is the lock's; " + (real.wish and f"wish it: {real.wish}")
            raise _no_variable(name, hint.removesuffix("; "), owner, sources)
        if name.startswith(words.prefixes):
            place = sources.where(name, near=near) or owner
            warnings.append(f"{place}: {name} looks like an option, and there is none of that name")
    return warnings


def _slip(name: str, names: Sequence[str]) -> str:
    """The one of `names` that `name` is a typing slip of, or "".

    At most two edits, a swap of neighbours counting as one; one edit in short names, so that
    plurals and the like of other words stay the user's.
    """
    for real in names:
        limit = 2 if len(real) > 12 else 1
        if abs(len(real) - len(name)) <= limit and 0 < distance(name, real) <= limit:
            return real
    return ""


def distance(left: str, right: str) -> int:
    """The edits between two words: insert, delete, replace, swap (Damerau-Levenshtein)."""
    rows = [list(range(len(right) + 1))]
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            best = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """A hint with the nearest of `words`, or ""."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else ""
