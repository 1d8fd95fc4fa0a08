"""The books of `make mutants` are in order; and, slow, none of its mutants lives."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import check_states
import pytest
import rule_states
import targets
import yaml
from gpu_stack import preflight

from provision.verify.checks import CHECKS
from scripts import mutants

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mutants.md"
WAIVERS = ROOT / "tests" / "mutants" / "waivers.yml"


def test_every_waiver_fits_a_fault_and_has_its_reason() -> None:
    """Whether that fault lives is for `make mutants` to say."""
    faults = {(one.path, *fault.key) for one in targets.TARGETS for fault in one.mutants()}
    for entry in yaml.safe_load(WAIVERS.read_text(encoding="utf-8")):
        names = ("file", "function", "operator", "text", "before", "after")
        key = (*(entry.get(name, "") for name in names), entry.get("number", 0))
        assert key in faults, f"no such fault: {key}"
        assert len(entry["reason"].split()) > 3, key


def test_every_target_has_faults_and_tests() -> None:
    for target in targets.TARGETS:
        assert target.mutants(), target
        for test in target.tests:
            assert (ROOT / test).is_file(), test


def test_the_page_tells_every_check_and_rule_with_its_states() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for check in CHECKS:
        count = sum(1 for state in check_states.states() if state.check == check.id)
        assert re.search(rf"^\| `{re.escape(check.id)}` \| {count} \|", text, re.M), check.id
    for rule in preflight.RULES:
        mine = [state.trips for state in rule_states.states() if state.rule == rule.id]
        counts = rf"{mine.count(True)} \| {mine.count(False)}"
        assert re.search(rf"^\| `{re.escape(rule.id)}` \| {counts} \|", text, re.M), rule.id


def test_the_page_tells_which_host_test_trips_a_rule() -> None:
    told = re.findall(r"^\| `(\S+)` .* \| (tests/hosts/\S+) \|$", PAGE.read_text("utf-8"), re.M)
    assert dict(told) == mutants.trips()
    assert mutants.trips().keys() <= {rule.id for rule in preflight.RULES}


@pytest.mark.slow
def test_no_mutant_lives() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "mutants.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 alive" in done.stdout
