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
    faults = {(target.path, *fault.key) for target in targets.TARGETS for fault in target.mutants()}
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
    rows = re.findall(r"^\| `(\S+)` .* \| (tests/hosts/\S+) \|$", PAGE.read_text("utf-8"), re.M)
    assert dict(rows) == mutants.trips()
    assert mutants.trips().keys() <= {rule.id for rule in preflight.RULES}


def faults(name: str, *results: str) -> list[dict[str, str]]:
    """Faults of a check's or rule's own function, with what came of each."""
    stem, function = mutants.in_a_fork(mutants.functions)[name]
    return [{"file": f"x/{stem}.py", "function": function, "result": each} for each in results]


STATES = [
    {"kind": "check", "id": "tensorflow.wheels"},
    {"kind": "check", "id": "cuda.packages"},
    {"kind": "rule", "id": "disk"},
    {"kind": "neighbour", "id": "disk"},
]


@pytest.fixture
def on_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hosts of a lab showed is another test's, and takes the lab's modules."""
    real = mutants.in_a_fork
    monkeypatch.setattr(
        mutants,
        "in_a_fork",
        lambda function: {} if function is mutants.on_hosts else real(function),
    )


@pytest.mark.usefixtures("on_no_host")
def test_what_was_not_tried_keeps_its_count() -> None:
    """All faults take hours; those of one file are merged into the page."""
    code = [*faults("tensorflow.wheels", "killed", "alive"), *faults("disk", "killed", "waived")]
    whole = mutants.tables(STATES, [*code, *faults("cuda.packages", *["killed"] * 7)])
    assert "| `tensorflow.wheels` | 1 | 1 |" in whole
    assert "| `disk` | 1 | 1 | 2 |" in whole
    page = f"words\n{mutants.BEGIN}\n{whole}{mutants.END}\nmore words, no line of theirs\n"
    merged = mutants.tables(STATES, faults("tensorflow.wheels", *["killed"] * 3), page)
    assert merged == whole.replace("`tensorflow.wheels` | 1 | 1 |", "`tensorflow.wheels` | 1 | 3 |")
    again = mutants.tables([*STATES, STATES[0]], [], page)
    assert again == whole.replace("`tensorflow.wheels` | 1 | 1 |", "`tensorflow.wheels` | 2 | 1 |")


@pytest.mark.usefixtures("on_no_host")
def test_what_came_after_the_last_run_of_all_says_so() -> None:
    whole = mutants.tables(STATES[:1], faults("tensorflow.wheels", "killed"))
    page = f"{mutants.BEGIN}\n{whole}{mutants.END}\n"
    merged = mutants.tables(STATES, faults("cuda.packages", "killed"), page)
    assert "| `disk` | 1 | 1 | not tried |" in merged
    assert "| `cuda.packages` | 1 | 1 |" in merged


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
