"""Runs each check of `checks/` on each host; a failure shows the diagnosis and its cure."""

from __future__ import annotations

import pytest

from .checks import Verdict


def test_the_stack(judged: Verdict) -> None:
    """Passes, fails with the diagnosis and its cure, or is skipped with the reason."""
    if judged.result == "not_applicable":
        pytest.skip(f"not applicable: {judged.detail}")
    if judged.result == "failed":
        cure = f"\ncure: {judged.hint}" if judged.hint else ""
        detail = f"\nseen: {judged.detail}" if judged.detail else ""
        pytest.fail(judged.diagnosis + cure + detail, pytrace=False)
