"""Compares the hashes of locked packages, wheels and files with upstream's.

Under the same version upstream must have the same bytes.

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
    """Name of a wheel -> its lines in a requirements text."""
    wheels = {}
    for text in re.findall(r"^[^\s#-][^\n]*\n(?:[ \t][^\n]*\n?)*", requirements, re.MULTILINE):
        pin = text.splitlines()[0].rstrip(" \\")
        name = re.split(r"[=; ]", pin, maxsplit=1)[0]
        wheels[name.lower()] = _Wheel(pin, frozenset(re.findall(r"--hash=(\S+)", text)), text)
    return wheels


def same_hashes(requirements: str, locked: Held | None, *, where: str) -> str:
    """The requirements with the locked hashes where the version is the same.

    An index adds files to a version when a new Python comes: no reason to change the lock.
    InputError where a locked hash is gone and a new one has come: a checksum mismatch.
    """
    old = _blocks(locked.requirements) if locked is not None else {}
    texts = []
    for name, wheel in _blocks(requirements).items():
        before = old.get(name)
        if before is None or before.pin != wheel.pin:
            texts.append(wheel.text)
        elif before.hashes <= wheel.hashes:
            texts.append(before.text)
        elif wheel.hashes <= before.hashes:
            texts.append(wheel.text)  # files were withdrawn
        else:
            raise changed(
                f"{where}, wheel {wheel.pin}",
                ", ".join(sorted(wheel.hashes - before.hashes)),
                ", ".join(sorted(before.hashes - wheel.hashes)),
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
    return {str(file["url"]): str(file["sha256"]) for file in parts if file}


def changed(where: str, got: str, expected: str) -> InputError:
    """The error for upstream's content that differs under the same version."""
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
    """InputError where an index has a locked package only with another hash."""
    for choice, _stack, locked in pairs(choices, before):
        available: dict[tuple[str, str], set[str]] = {}
        for p in indices[choice.platform.id].everything:
            available.setdefault((p.name, p.version), set()).add(p.sha256)
        for name, package in locked.packages.items():
            hashes = available.get((name, package["version"]))
            if hashes and package["sha256"] not in hashes:
                raise changed(
                    f"{choice.platform.title}, {name} {package['version']}",
                    " or ".join(f"SHA-256 {sha256}" for sha256 in sorted(hashes)),
                    f"SHA-256 {package['sha256']}",
                )


def gone(
    choices: Iterable[Choice], indices: Mapping[str, Indices], before: Lock | None
) -> list[tuple[str, str]]:
    """(package and version, its source) of each locked version that no index has any more."""
    missing: dict[tuple[str, str], None] = {}
    for choice, _stack, locked in pairs(choices, before):
        available = {(p.name, p.version) for p in indices[choice.platform.id].everything}
        for name in sorted(locked.packages):
            package = locked.packages[name]
            if (name, package["version"]) not in available:
                place = f"{choice.platform.title}, {package['source']}"
                missing[(f"{name} {package['version']}", place)] = None
    return list(missing)
