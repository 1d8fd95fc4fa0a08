"""The GPU stack of every host does what its lock promises.

Each test is one check of `checks/` on one host. A failure is a diagnosis and its cure.
"""

from __future__ import annotations

import pytest

from .checks import Verdict


def test_the_stack(judged: Verdict) -> None:
    """Passes, fails with what is wrong and what cures it, or says why it does not apply."""
    if judged.result == "not_applicable":
        pytest.skip(f"not applicable: {judged.detail}")
    if judged.result == "failed":
        cure = f"\ncure: {judged.hint}" if judged.hint else ""
        seen = f"\nseen: {judged.detail}" if judged.detail else ""
        pytest.fail(judged.diagnosis + cure + seen, pytrace=False)
