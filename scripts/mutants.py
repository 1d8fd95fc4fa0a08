"""Proves that each check and preflight rule can fail, and that tests guard it: `make mutants`.

Two kinds of faults. A host's: each fact of a recorded, proven host is made wrong, and the check
that guards the fact must fail, and no other. And the code's: each comparison, constant, text,
branch and statement of the checks and rules is changed, and a test must fail. A fault that changes
no behaviour is waived in tests/mutants/waivers.yml, with its reason; a waiver that matches no
living fault is an error. More in docs/mutants.md.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = ROOT / "tests" / "mutants"
PATHS = [str(MUTANTS), str(ROOT), str(ROOT / "plugins" / "module_utils")]
KEYS = ("file", "function", "operator", "text", "before", "after", "number")
BEGIN, END = "<!-- begin tables: scripts/mutants.py --docs -->", "<!-- end tables -->"
PAGE = ROOT / "docs" / "mutants.md"
# Of a check or rule that came after the last run of all.
NOT_TRIED = "not tried"
RESULTS = ("alive", "killed", "killed at import")


def state_mutants() -> list[dict[str, Any]]:
    """Every wrong fact, with what is wrong with its verdicts. For `in_a_fork`."""
    import check_states
    import rule_states

    results = []
    for state in check_states.states():
        wrong = check_states.judged(state)
        results.append({"kind": "check", "id": state.check, "fact": state.fact, "wrong": wrong})
    for rule in rule_states.states():
        wrong = rule_states.judged(rule)
        results.append(
            {
                "kind": "rule" if rule.trips else "neighbour",
                "id": rule.rule,
                "fact": rule.fact,
                "wrong": wrong,
            }
        )
    return results


def in_a_fork(function: Any) -> Any:
    """Calls a function in a forked process, so that its imports stay out of this one."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w", encoding="utf-8") as stream:
                json.dump(function(), stream)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as stream:
        text = stream.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        raise SystemExit("mutants: the states could not be judged")
    return json.loads(text)


def load_waivers(path: Path) -> dict[tuple[Any, ...], str]:
    """{key of a fault: why it changes no behaviour}. Raises SystemExit for a faulty file."""
    waivers: dict[tuple[Any, ...], str] = {}
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")) or []:
        key = tuple(entry.get(name, 0 if name == "number" else "") for name in KEYS)
        if key in waivers:
            raise SystemExit(f"{path}: the same waiver twice: {key}")
        if len(str(entry.get("reason") or "")) < 10:
            raise SystemExit(f"{path}: a waiver without a reason: {key}")
        waivers[key] = str(entry["reason"])
    return waivers


def code_mutants(only: str | None, jobs: int, waivers: dict[tuple[Any, ...], str]) -> Any:
    """(all faults of the code with their results, keys of waivers without a living fault)."""
    import farm
    from targets import TARGETS

    rows, unused, started = [], dict(waivers), time.monotonic()
    for target in TARGETS:
        mutants = [
            mutant
            for mutant in target.mutants()
            if only in (None, mutant.function, target.file.stem, target.path)
        ]
        if not mutants:
            continue
        counts: collections.Counter[str] = collections.Counter()
        results: dict[int, dict[str, Any]] = {}

        def record(
            index: int,
            status: int,
            test: str,
            mutants: list[Any] = mutants,
            target: Any = target,
            counts: collections.Counter[str] = counts,
            results: dict[int, dict[str, Any]] = results,
        ) -> None:
            mutant = mutants[index]
            key = (target.path, *mutant.key)
            result = RESULTS[status]
            if status == farm.ALIVE and unused.pop(key, None) is not None:
                result = "waived"
            counts[result] += 1
            results[index] = dict(zip(KEYS, key, strict=True)) | {
                "line": mutant.line,
                "result": result,
                "test": test,
            }
            done = sum(counts.values())
            if sys.stdout.isatty():
                print(f"\r{target.path}: {done} of {len(mutants)}", end="", flush=True)
            elif done % 250 == 0:
                print(f"{target.path}: {done} of {len(mutants)}", flush=True)

        farm.tried(target, mutants, jobs, record)
        rows += [results[index] for index in sorted(results)]
        counted = ", ".join(f"{counts[name]} {name}" for name in (*RESULTS[1:], "waived", "alive"))
        clear = "\r\033[K" if sys.stdout.isatty() else ""
        print(f"{clear}{target.path}: {len(mutants)} faults: {counted}", flush=True)
        for row in rows[-len(mutants) :]:
            if row["result"] == "alive":
                print(shown(row), flush=True)
    print(f"code: {len(rows)} faults in {time.monotonic() - started:.0f} s")
    if only is not None:
        unused = {k: v for k, v in unused.items() if only in (k[0], k[1], Path(k[0]).stem)}
    return rows, sorted(unused)


def on_hosts() -> dict[str, str]:
    """{check or rule: what made it fail on a host of a lab}."""
    sys.path.insert(0, str(ROOT / "tests" / "hosts"))
    import check_damages

    causes: dict[str, str] = {}
    for damage in check_damages.DAMAGES:
        for name in damage.red:
            causes[name] = "; ".join([*filter(None, [causes.get(name)]), damage.title])
    cases = yaml.safe_load((ROOT / "molecule" / "reject" / "cases.yml").read_text("utf-8"))
    (cases,) = [value for value in cases.values() if isinstance(value, list)] or [[]]
    causes |= {case["rule"]: "Molecule scenario `reject`" for case in cases}
    return causes | trips()


def trips() -> dict[str, str]:
    """{rule: the host test whose TRIPS has it}."""
    tests_by_rule: dict[str, str] = {}
    for path in sorted((ROOT / "tests" / "hosts").glob("test_*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TRIPS":
                name = path.relative_to(ROOT).as_posix()
                tests_by_rule |= dict.fromkeys(ast.literal_eval(node.value), name)
    return tests_by_rule


def functions() -> dict[str, list[str]]:
    """{check or rule: [stem of its file, name of its function]}."""
    from gpu_stack import preflight

    from provision.verify import checks

    judges = [(check.id, check.judge) for check in checks.CHECKS]
    judges += [(rule.id, rule.check) for rule in preflight.RULES]
    return {name: [judge.__module__.split(".")[-1], judge.__name__] for name, judge in judges}


def former(page: str) -> tuple[dict[str, str], str]:
    """({check or rule: the faults of its code}, the line below the tables), as a page has them."""
    text = page.partition(BEGIN)[2].partition(END)[0]
    counts = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([^|]+) \| [^|]+ \|$", text, re.M))
    lines = [line for line in text.splitlines() if line and not line.startswith("|")]
    return counts, lines[-1] if lines else ""


def tables(
    states: list[dict[str, Any]], code: list[dict[str, Any]], page: str | None = None
) -> str:
    """The tables of docs/mutants.md: what made each check and each rule fail.

    `page`: the page of an earlier run, whose counts are kept for what was not tried now; None where
    all was tried.
    """
    hosts = in_a_fork(on_hosts)
    judges = {name: tuple(judge) for name, judge in in_a_fork(functions).items()}
    dead = collections.Counter(
        (Path(row["file"]).stem, row["function"]) for row in code if row["result"] != "alive"
    )
    kinds = collections.Counter((row["id"], row["kind"]) for row in states)
    tried = {(Path(row["file"]).stem, row["function"]) for row in code}
    kept, last = former(page or "")
    if page is None:
        shared = sum(dead.values()) - sum(dead[judge] for judge in set(judges.values()))
        last = f"{shared} more faults are in shared code: tables, helpers, looks, the plan."

    def noticed(name: str) -> object:
        if page is None or judges[name] in tried:
            return dead[judges[name]]
        return kept.get(name, NOT_TRIED)

    lines = [
        "| check | wrong facts | faults of its code | on a host of a lab |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["id"] for row in states if row["kind"] == "check"):
        cells = (f"`{name}`", kinds[name, "check"], noticed(name), hosts.get(name, "-"))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "| rule | trips | neighbours | faults of its code | on a host of a lab |"]
    lines.append("|---|---|---|---|---|")
    for name in dict.fromkeys(row["id"] for row in states if row["kind"] == "rule"):
        counts = (kinds[name, "rule"], kinds[name, "neighbour"], noticed(name))
        cells = (f"`{name}`", *counts, hosts.get(name, "-"))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", last]
    return "\n".join(lines) + "\n"


def write_tables(text: str) -> None:
    """Writes the tables between the page's marks."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}{END}{after}", encoding="utf-8")


def shown(row: dict[str, Any]) -> str:
    """A living fault, with its place and the change."""
    return (
        f"  {row['file']}:{row['line']} in {row['function']} ({row['operator']})\n"
        f"    {row['text']}\n    - {row['before']}\n    + {row['after']}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results here, too")
    parser.add_argument(
        "--docs", action="store_true", help="write what was tried into docs/mutants.md"
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        help="faults of this function, file (its path) or files (their stem) only",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    chosen = parser.parse_args(arguments)
    sys.path[:0] = PATHS
    os.chdir(ROOT)
    waivers = load_waivers(MUTANTS / "waivers.yml")
    states = in_a_fork(state_mutants) if chosen.only is None or chosen.docs else []
    kinds = collections.Counter(row["kind"] for row in states)
    checks = {row["id"] for row in states if row["kind"] == "check"}
    rules = {row["id"] for row in states if row["kind"] == "rule"}
    if states:
        print(f"states: {kinds['check']} wrong facts turn {len(checks)} checks red, "
              f"{kinds['rule']} trip {len(rules)} rules, {kinds['neighbour']} neighbours "
              "trip none")  # fmt: skip
    code, unused = code_mutants(chosen.only, chosen.jobs, waivers)
    missed = [row for row in states if row["wrong"]]
    alive = [row for row in code if row["result"] == "alive"]
    for state in missed:
        print(f"  {state['id']}: {state['fact']}: {'; '.join(state['wrong'])}")
    for key in unused:
        print(f"  a waiver that fits no living fault: {dict(zip(KEYS, key, strict=True))}")
    if chosen.json:
        content = {"format": 1, "states": states, "code": code, "unused_waivers": unused}
        chosen.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if chosen.docs:
        page = None if chosen.only is None else PAGE.read_text("utf-8")
        write_tables(tables(states, code, page))
    waived = sum(1 for row in code if row["result"] == "waived")
    print(f"{len(states) + len(code)} mutants: {len(missed) + len(alive)} alive, {waived} waived")
    return 1 if missed or alive or unused else 0


if __name__ == "__main__":
    raise SystemExit(main())
