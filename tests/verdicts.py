"""What an acceptance's verdict says, as tests compare it."""

from __future__ import annotations

from typing import Any


def red(verdict: dict[str, Any]) -> list[tuple[str, int | None, str, str]]:
    """(check, GPU, state, action) of all that is degraded or failed."""
    found = [(entry, None) for entry in verdict["checks"]]
    found += [(entry, gpu["index"]) for gpu in verdict["gpus"] for entry in gpu["checks"]]
    return [
        (entry["check"], index, entry["state"], entry["action"])
        for entry, index in found
        if entry["state"] in ("degraded", "failed")
    ]
