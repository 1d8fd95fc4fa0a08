"""The words of the page: titles, meanings of statuses, and the formatting of messages."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from provision.registry import COMPONENTS, TITLES
from provision.report.reading import clean

# {key in `wanted` and `found`: title of its column}. Other keys follow under their own names.
COLUMNS = {
    "nvidia_driver": "Driver",
    "cuda": TITLES["cuda"],
    "cudnn": TITLES["cudnn"],
    "python": "Python",
    "tensorflow": TITLES["tensorflow"],
}
COLUMNS |= {
    entry.name: entry.title for entry in COMPONENTS if entry.packages and entry.name not in COLUMNS
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
    "failed": "a task, the proof or a check failed, or a reboot is needed",
    "blocked": "preflight forbids a start; nothing was changed",
    "unreachable": "Ansible could not reach it",
}
# A run that did not look at a host.
UNSEEN = "not looked at"
BAD = ("failed", "blocked", "unreachable")
# The longest message in the overview, in characters; the host's own part has all of it.
OVERVIEW_MESSAGE = 600
# The longest version in the table, in characters: a longer text would push it apart.
VERSION = 24
UNKNOWN = "\u2013"


def prose(text: str) -> Markup:
    """HTML of a text, with its `commands` as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd backtick: none of them can be trusted
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def shortened(text: str) -> str:
    """The beginning and end of a long message: a tool's last lines say what failed."""
    if len(text) <= OVERVIEW_MESSAGE:
        return text
    half = OVERVIEW_MESSAGE // 2
    return f"{text[:half].rstrip()}\n[…]\n{text[-half:].lstrip()}"


def component(name: Any) -> str:
    return COMPONENT_NAMES.get(str(name), clean(name))


def version(value: Any) -> str:
    text = " ".join(clean(value).split())
    return text if len(text) <= VERSION else text[: VERSION - 1] + "…"
