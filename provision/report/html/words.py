"""The words of the page: titles, meanings, and how texts of machines are set."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from provision.registry import TITLES
from provision.report.reading import clean

# (key in `wanted` and `found`, what a person calls it). Others follow as they are named.
COLUMNS = {
    "nvidia_driver": "Driver",
    "cuda": TITLES["cuda"],
    "cudnn": TITLES["cudnn"],
    "python": "Python",
    "tensorflow": TITLES["tensorflow"],
    "nvidia_container_toolkit": TITLES["nvidia_container_toolkit"],
}
COMPONENT_NAMES = {**TITLES, "receipt": "Receipt"}
MODES = {
    "run": ("run", "what differs from the lock is applied"),
    "check": ("plan", "nothing was changed"),
    "verify": ("verify", "nothing was changed"),
}
MEANINGS = {
    "proven": "as locked, and every check that applies has passed in this run",
    "converged": "as locked; no check has run now",
    "drift": "something differs from the lock",
    "failed": "a task, the proof or a check failed, or a reboot is owed",
    "blocked": "preflight forbids a start; nothing was changed",
    "unreachable": "Ansible could not reach it",
}
BAD = ("failed", "blocked", "unreachable")
# A longer message is cut in the overview; the host has all of it.
OVERVIEW_MESSAGE = 600
# No version is longer; what is would push the table apart.
VERSION = 24
UNKNOWN = "\u2013"


def prose(text: str) -> Markup:
    """Text with `commands` set as such."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd backtick: none of them can be trusted
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def shortened(text: str) -> str:
    """A long message's beginning and end: tools say what they do, and last what failed."""
    if len(text) <= OVERVIEW_MESSAGE:
        return text
    half = OVERVIEW_MESSAGE // 2
    return f"{text[:half].rstrip()}\n[…]\n{text[-half:].lstrip()}"


def component(name: Any) -> str:
    return COMPONENT_NAMES.get(str(name), clean(name))


def version(value: Any) -> str:
    text = " ".join(clean(value).split())
    return text if len(text) <= VERSION else text[: VERSION - 1] + "…"
