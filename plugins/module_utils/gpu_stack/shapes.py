"""Names for what annotations speak of; imported for type checks alone, never on a host."""

from __future__ import annotations

from typing import Any

# What the look and the preflight's read about a host, as decoded JSON.
Facts = dict[str, Any]
# What one component's part of the look returns.
State = dict[str, Any]
# A component's part of the host's stack in the lock.
Row = dict[str, Any]
# All parts of the host's stack in the lock, by component.
Stack = dict[str, Any]
Options = dict[str, Any]
# As change.change makes them.
Changes = list[dict[str, Any]]
# [(message, hint)] against a run.
Reasons = list[tuple[str, str]]
# What speaks for a case of the doctor's, as doctor.case.clue makes it.
Clues = list[dict[str, Any]]
