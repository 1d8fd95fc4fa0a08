"""TensorFlow's checks for the environments beside the current one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .check import CHECKS, Check, Seen, Verdict


def beside(seen: Seen) -> list[Check]:
    """TensorFlow's checks once more for each environment beside the current one."""
    made = []
    for index, part in enumerate(seen.row.get("beside") or []):
        own = ("cuda", "cudnn") if part.get("cuda_source") == "wheels" else ()
        row = {name: value for name, value in seen.row.items() if name not in own}
        row["tensorflow"] = part
        for one in CHECKS:
            if one.id.startswith("tensorflow.") and one.only(replace(seen, row=row)):
                identifier = f"{one.id}@{part['version']}"
                title = f"{one.title} ({part['version']})"
                made.append(Check(identifier, title, _of_beside(one, index, row)))
    return made


def _of_beside(one: Check, index: int, row: dict[str, Any]) -> Callable[[Seen], Verdict]:
    def judge(seen: Seen) -> Verdict:
        probe = {**seen.probe, "tensorflow": seen.probe["beside"][index]}
        return one(replace(seen, row=row, probe=probe))

    return judge
