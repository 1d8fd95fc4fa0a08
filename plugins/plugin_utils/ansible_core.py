"""Which hosts a release of ansible-core can manage, by the Python that they have.

Each release drops old Pythons: on such a host its modules fail with a SyntaxError, or with a
message that names no remedy, when half of the work may be done. So the look checks it first, and
`provision render` before there is a run. The facts are in ansible_core.json; nothing of Ansible is
imported here, for `provision` imports this module too.
"""

from __future__ import annotations

import json
from pathlib import Path

# {release: the oldest Python on hosts}, as in {"2.17": "3.7"}.
OLDEST_PYTHON: dict[str, str] = json.loads(
    (Path(__file__).parent / "ansible_core.json").read_text(encoding="utf-8")
)["oldest_python"]


def numbers(version: str) -> tuple[int, int]:
    """The first two numbers of a version: (2, 21) of 2.21.5."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


_KNOWN = sorted(OLDEST_PYTHON, key=numbers)


def oldest_python(core: str) -> str:
    """The oldest Python that this ansible-core manages.

    For a release older or newer than all known ones, the nearest of them is used.
    """
    not_newer = [release for release in _KNOWN if numbers(release) <= numbers(core)]
    return OLDEST_PYTHON[not_newer[-1] if not_newer else _KNOWN[0]]


def manages(core: str, python: str) -> bool:
    """Whether this ansible-core manages hosts with this Python."""
    return numbers(python) >= numbers(oldest_python(core))


def newest_for(python: str) -> str | None:
    """The newest known release of ansible-core that manages this Python; None without one."""
    able = [release for release in _KNOWN if manages(release, python)]
    return able[-1] if able else None


def requirement(release: str) -> str:
    """pip's requirement for this release and no newer one."""
    major, minor = numbers(release)
    return f"ansible-core>={release},<{major}.{minor + 1}"


def remedy(python: str) -> str:
    """What to do about a host whose Python is too old."""
    newest = newest_for(python)
    if newest is None:
        oldest = OLDEST_PYTHON[_KNOWN[0]]
        return f"set ansible_python_interpreter to a Python {oldest} or newer on that host"
    return (
        f"ansible-core {newest} is the newest that can. Install it on the controller: "
        f"pip install '{requirement(newest)}'"
    )


def refusal(core: str, oldest: str, python: str, interpreter: str) -> str:
    """The run's message for a host whose Python is older than the oldest that the core manages."""
    return (
        f"the host's Python at {interpreter} is {python}, and ansible-core {core} manages "
        f"Python {oldest} and newer; {remedy(python)}. Nothing was changed on this host"
    )
