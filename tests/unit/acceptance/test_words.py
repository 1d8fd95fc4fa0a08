"""What a person reads of every fault, of healthy machines and of edges: kept in verdicts.txt."""

from __future__ import annotations

import itertools
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
    parts = [f"{check['check']}: {check['state']}: {check['reason']}"]
    if check["evidence"]:
        parts.append(f"[{'; '.join(check['evidence'])}]")
    if "threshold" in check:
        parts.append("({source}: {value})".format(**check["threshold"]))
    if "figure" in check:
        parts.append("{name}: {value:.6g} {unit}, {better} is better".format(**check["figure"]))
    if check.get("stand_in"):
        parts.append("of a stand-in")
    if check["action"] != "nothing":
        parts.append(f"next: {check['action']} ({check['how']})")
    return " ".join(parts)


def pages() -> Iterator[str]:
    for name, fault in FAULTS.items():
        facts = machine(fault.model, 2, busy=fault.busy)
        fault.change(facts)
        host_entry = entry(facts, fault.declared)
        yield f"== {name}"
        yield from words.host("gpu07", host_entry)
        verdict = host_entry["acceptance"]
        for check in [*verdict["checks"], *(c for gpu in verdict["gpus"] for c in gpu["checks"])]:
            if check["state"] in ("degraded", "failed"):
                yield f"  {described(check)}"
    seen: set[str] = set()
    # The smallest first, which are judged in no time.
    machines = {**edges(), **{name: (facts, 0) for name, facts in healthy().items()}}
    for name, (facts, declared) in machines.items():
        verdict = entry(facts, declared)["acceptance"]
        yield f"== {name}: {words.summary(verdict)}; next: {verdict['action']}"
        lines = [f"  {described(check)}" for check in verdict["checks"]]
        lines += [f"  {described(check)}" for gpu in verdict["gpus"] for check in gpu["checks"]]
        lines += [f"  pairs: {verdict['pairs']} sets: {verdict['sets']}"]
        # What an earlier one has said too is left out.
        yield from (line for line in dict.fromkeys(lines) if line not in seen)
        seen.update(lines)


def test_what_a_person_reads_is_as_it_was_read() -> None:
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        GOLDEN.write_text("\n".join(pages()) + "\n", encoding="utf-8")
    kept = GOLDEN.read_text(encoding="utf-8").splitlines()
    # Line by line, so that it ends at the first that differs.
    for made, line in itertools.zip_longest(pages(), kept):
        assert made == line
