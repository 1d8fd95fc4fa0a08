"""docs/doctor.md tells every case, as the program has it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import doctor_page
from gpu_stack.doctor import findings

PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"


def test_the_page_has_every_case() -> None:
    old = PAGE.read_text(encoding="utf-8")
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        PAGE.write_text(doctor_page.page(old), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == doctor_page.page(old)


def test_a_thread_is_a_repository_and_a_number() -> None:
    for case in findings.CASES:
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", name) for name in case.threads), case.id
