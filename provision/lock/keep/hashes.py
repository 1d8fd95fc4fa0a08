"""Under the same version upstream must have the same bytes as the lock.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from provision.errors import InputError
from provision.lock.keep.held import Held, pairs
from provision.lock.model import Lock
from provision.resolve import Choice
from provision.upstream.packages import Indices


@dataclass(frozen=True)
class _Wheel:
    pin: str
    hashes: frozenset[str]
    text: str


def _blocks(requirements: str) -> dict[str, _Wheel]:
    """Name -> its lines."""
    found = {}
    for text in re.findall(r"^[^\s#-][^\n]*\n(?:[ \t][^\n]*\n?)*", requirements, re.MULTILINE):
        pin = text.splitlines()[0].rstrip(" \\")
        name = re.split(r"[=; ]", pin, maxsplit=1)[0]
        found[name.lower()] = _Wheel(pin, frozenset(re.findall(r"--hash=(\S+)", text)), text)
    return found


def same_hashes(requirements: str, found: Held | None, *, where: str) -> str:
    """Requirements with the hashes that were locked, where the version is the same.

    An index adds files to a version as Pythons come, which is nothing to move a lock for.
    InputError where a locked hash is gone and another one has come: then a file is another one.
    """
    old = _blocks(found.requirements) if found is not None else {}
    texts = []
    for name, wheel in _blocks(requirements).items():
        was = old.get(name)
        if was is None or was.pin != wheel.pin:
            texts.append(wheel.text)
        elif was.hashes <= wheel.hashes:
            texts.append(was.text)
        elif wheel.hashes <= was.hashes:
            texts.append(wheel.text)  # files were taken back
        else:
            raise changed(
                f"{where}, wheel {wheel.pin}",
                ", ".join(sorted(wheel.hashes - was.hashes)),
                ", ".join(sorted(was.hashes - wheel.hashes)),
            )
    return "".join(texts)


def file_hashes(before: Lock | None) -> dict[str, str]:
    """URL -> SHA-256 of the installers and .run files that a lock has."""
    parts = [
        part[component].get(word, {})
        for part in (before.stacks.values() if before is not None else ())
        for component, word in (("cuda", "installer"), ("nvidia_driver", "runfile"))
        if component in part
    ]
    return {str(one["url"]): str(one["sha256"]) for one in parts if one}


def changed(where: str, got: str, expected: str) -> InputError:
    """Upstream has another thing under the same name."""
    return InputError(
        "upstream has other content under the same version",
        where=where,
        got=got,
        expected=expected,
        hint="nothing of it was taken; a mirror or proxy in between? if the new one is right, "
        "remove lock.yml and lock again",
    )


def check_hashes(
    choices: Iterable[Choice], indices: Mapping[str, Indices], before: Lock | None
) -> None:
    """InputError where an index has a locked package with another hash."""
    for choice, _stack, found in pairs(choices, before):
        there: dict[tuple[str, str], set[str]] = {}
        for package in indices[choice.platform.id].everything:
            there.setdefault((package.name, package.version), set()).add(package.sha256)
        for name, locked in found.packages.items():
            hashes = there.get((name, locked["version"]))
            if hashes and locked["sha256"] not in hashes:
                raise changed(
                    f"{choice.platform.title}, {name} {locked['version']}",
                    " or ".join(f"SHA-256 {one}" for one in sorted(hashes)),
                    f"SHA-256 {locked['sha256']}",
                )


def gone(
    choices: Iterable[Choice], indices: Mapping[str, Indices], before: Lock | None
) -> list[tuple[str, str]]:
    """(what, where it was) of each locked package whose version no index has any more."""
    found: dict[tuple[str, str], None] = {}
    for choice, _stack, locked in pairs(choices, before):
        there = {(p.name, p.version) for p in indices[choice.platform.id].everything}
        for name in sorted(locked.packages):
            package = locked.packages[name]
            if (name, package["version"]) not in there:
                place = f"{choice.platform.title}, {package['source']}"
                found[(f"{name} {package['version']}", place)] = None
    return list(found)
