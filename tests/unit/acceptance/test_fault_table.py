"""docs/acceptance-faults.md: every fault that tests make, and the one check that is red for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.unit.acceptance import trained
from tests.unit.acceptance.machines import FAULTS
from tests.unit.acceptance.worked import WORK_FAULTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "acceptance-faults.md"
BEGIN, END = "<!-- begin tables: tests/unit/acceptance/test_fault_table.py -->", "<!-- end -->"

Row = tuple[str, str, int | None, str, str]


def parts() -> Iterator[tuple[str, list[Row]]]:
    yield (
        "What the machine says",
        [(name, f.check, f.gpu, f.state, f.action) for name, f in FAULTS.items()],
    )
    yield "What TensorFlow does", [(name, *fault.red) for name, fault in WORK_FAULTS.items()]
    yield "Training", [(name, *red) for name, (_change, red) in trained.FAULTS.items()]


def table(rows: Iterable[Row]) -> str:
    lines = ["| fault | red | of | verdict | next |", "|---|---|---|---|---|"]
    for name, check, gpu, state, action in rows:
        of = "host" if gpu is None else "its GPU"
        lines.append(f"| {name} | `{check}` | {of} | {state} | {action} |")
    return "\n".join(lines)


def test_the_page_has_every_fault_with_its_check() -> None:
    tables = "".join(f"\n## {title}\n\n{table(rows)}\n" for title, rows in parts())
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _old, end, after = rest.partition(END)
    assert begin
    assert end
    wanted = f"{before}{BEGIN}\n{tables}\n{END}{after}"
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        PAGE.write_text(wanted, "utf-8")
    assert PAGE.read_text("utf-8") == wanted


def test_each_table_has_its_own_faults() -> None:
    assert min(len(rows) for _title, rows in parts()) >= 25
