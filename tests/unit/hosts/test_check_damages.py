"""Every check that the hosts of a lab have is turned red there by some damage."""

from __future__ import annotations

import sys
from pathlib import Path

from provision.verify.checks import CHECKS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "hosts"))
from check_damages import DAMAGES, NOT_INSTALLED, NOT_ON_A_LAB_HOST


def test_every_check_of_a_lab_host_has_its_damage() -> None:
    red = {name for damage in DAMAGES for name in damage.red}
    others = {check.id for check in CHECKS if check.id.partition(".")[0] in NOT_INSTALLED}
    assert red == {check.id for check in CHECKS} - others - set(NOT_ON_A_LAB_HOST)


def test_what_is_left_out_exists() -> None:
    checks = {check.id for check in CHECKS}
    assert set(NOT_ON_A_LAB_HOST) <= checks
    assert set(NOT_INSTALLED) <= {check.partition(".")[0] for check in checks}
