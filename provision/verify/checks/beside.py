"""TensorFlow's checks for the environments installed beside the current one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .check import CHECKS, Check, Seen, Verdict


def beside(seen: Seen) -> list[Check]:
    """TensorFlow's checks again, for each environment beside the current one."""
    checks = []
    for index, part in enumerate(seen.row.get("beside") or []):
        own = ("cuda", "cudnn") if part.get("cuda_source") == "wheels" else ()
        row = {name: value for name, value in seen.row.items() if name not in own}
        row["tensorflow"] = part
        for check in CHECKS:
            if check.id.startswith("tensorflow.") and check.only(replace(seen, row=row)):
                identifier = f"{check.id}@{part['version']}"
                title = f"{check.title} ({part['version']})"
                checks.append(Check(identifier, title, _of_beside(check, index, row)))
    return checks


def _of_beside(check: Check, index: int, row: dict[str, Any]) -> Callable[[Seen], Verdict]:
    def judge(seen: Seen) -> Verdict:
        probe = {**seen.probe, "tensorflow": seen.probe["beside"][index]}
        return check(replace(seen, row=row, probe=probe))

    return judge
