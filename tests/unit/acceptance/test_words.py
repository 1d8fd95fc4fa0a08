"""What a person reads of every fault, of healthy machines and of edges: kept in verdicts.txt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_stack.acceptance import judge, words

from tests.unit.acceptance.edges import edges
from tests.unit.acceptance.machines import FAULTS, healthy, machine

GOLDEN = Path(__file__).with_name("verdicts.txt")


def entry(facts: dict[str, Any], declared: int = 0) -> dict[str, Any]:
    verdict = judge.judge(facts, declared)
    return {"status": verdict["verdict"], "message": "", "acceptance": verdict}


def described(check: dict[str, Any]) -> str:
    more = f" [{'; '.join(check['evidence'])}]" if check["evidence"] else ""
    compared = check.get("threshold")
    against = f" ({compared['source']}: {compared['value']})" if compared else ""
    return f"  {check['check']}: {check['state']}: {check['reason']}{more}{against}"


def pages() -> Iterator[str]:
    for name, fault in FAULTS.items():
        facts = machine(fault.model, 2, busy=fault.busy)
        fault.change(facts)
        found = entry(facts, fault.declared)
        yield f"== {name}"
        yield from words.host("gpu07", found)
        verdict = found["acceptance"]
        for check in [*verdict["checks"], *(c for gpu in verdict["gpus"] for c in gpu["checks"])]:
            if check["state"] in ("degraded", "failed"):
                yield described(check)
    seen: set[str] = set()
    machines = {**{name: (facts, 0) for name, facts in healthy().items()}, **edges()}
    for name, (facts, declared) in machines.items():
        verdict = entry(facts, declared)["acceptance"]
        yield f"== {name}: {words.summary(verdict)}; next: {verdict['action']}"
        lines = [described(check) for check in verdict["checks"]]
        lines += [described(check) for gpu in verdict["gpus"] for check in gpu["checks"]]
        lines += [f"  pairs: {verdict['pairs']} sets: {verdict['sets']}"]
        # What an earlier one has said too is left out.
        yield from (line for line in dict.fromkeys(lines) if line not in seen)
        seen.update(lines)


def test_what_a_person_reads_is_as_it_was_read() -> None:
    text = "\n".join(pages()) + "\n"
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
