"""The damage catalogue without a host: sound rows, a judge that can say no, a true page."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))
import damage  # noqa: E402
import damage_page  # noqa: E402
import damage_steps  # noqa: E402
from damage import ROWS, Row  # noqa: E402

PAGE = ROOT / "docs" / "damage.md"
COST = "\n## What a deep look costs\n"


def test_the_page_is_the_catalogue() -> None:
    now = PAGE.read_text(encoding="utf-8") if PAGE.exists() else COST
    wanted = damage_page.page(now.partition(COST)[2])
    if os.environ.get("PROVISION_UPDATE_GOLDEN") == "1":
        PAGE.write_text(wanted, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted


def test_rows_have_a_name_of_their_own_and_say_what_must_be_named() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert all(row.names and row.damage and not row.title.endswith(".") for row in ROWS)
    assert len(ROWS) >= 60


def test_in_one_batch_no_row_hides_another() -> None:
    for batch, rows in damage.batches().items():
        items = [item for row in rows for item in row.items]
        assert len(set(items)) == len(items), batch


def test_every_component_is_damaged_and_every_batch_is_of_several() -> None:
    assert {row.component for row in ROWS} == set(damage_page.NAMES)
    assert len(damage.batches()["first"]) >= 12


ROW = Row("r", "cuda", "A thing", "true", ("a", "cudnn: b"), "x")
WISH = {("cuda", "a"), ("cudnn", "b")}
OLD = {("tensorflow", "t")}


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (OLD, OLD, "not in the plan"),
        (OLD, OLD | {("cuda", "a")}, "not in the plan"),
        (OLD, OLD | WISH | {("cuda", "z")}, "not of this damage"),
        (OLD, WISH, "no longer"),
        (OLD | WISH, OLD | WISH, "already"),
    ],
)
def test_the_judge_says_no(
    before: damage_steps.Items, after: damage_steps.Items, word: str
) -> None:
    assert word in " ".join(damage_steps.judge(ROW, before, after))


def test_the_judge_says_yes_to_exactly_the_rows_items() -> None:
    assert damage_steps.judge(ROW, OLD, OLD | WISH) == []


def test_what_no_repair_may_touch_is_reported() -> None:
    row = Row("r", "cuda", "A", "true", ("a",), "x", touches=("package:p", "/etc/x", "/opt/y/*"))
    globs = damage_steps.allowed([row], {"p": ["/usr/lib/p[1].so"]})
    changed = [
        "/usr/lib/p[1].so: other time",
        "/var/lib/dpkg/info/p:amd64.list: other time",
        "/var/lib/dpkg/info/pp.list: other time",
        "/etc/x: gone",
        "/etc/xx: new",
        "/opt/y/z: other mode",
        "/etc/passwd: other size",
    ]
    assert damage_steps.strangers(changed, globs) == [changed[2], changed[4], changed[6]]
