"""The published schema of report/acceptance.json, against what the judge writes."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from gpu_stack.acceptance import findings, judge

from tests.collection import ROOT
from tests.unit.acceptance.machines import FAULTS, healthy, machine
from tests.unit.acceptance.work_edges import COMPUTING, KEPT, OF_FAULTS, STORAGE, TRAINING

SCHEMA = json.loads((ROOT / "docs/schemas/acceptance-1.json").read_text("utf-8"))
# jsonschema.validate would check the schema itself each time.
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def valid(verdict: dict[str, Any]) -> None:
    entry = {"status": verdict["verdict"], "message": "", "acceptance": verdict}
    VALIDATOR.validate({"format": 1, "hosts": {"gpu01": entry}})


def test_every_verdict_fits_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for facts in healthy().values():
        valid(judge.judge(facts))
    for fault in FAULTS.values():
        facts = machine(fault.model, 2, busy=fault.busy)
        fault.change(facts)
        valid(judge.judge(facts, fault.declared))


def test_the_verdict_on_what_tensorflow_did_fits_it_too() -> None:
    for edge in {**OF_FAULTS, **COMPUTING, **TRAINING, **KEPT, **STORAGE}.values():
        valid(judge.judge(edge.facts()))


def test_a_host_that_was_not_asked_fits_it_too() -> None:
    entry = {"status": "unreachable", "message": "no route", "acceptance": None}
    VALIDATOR.validate({"format": 1, "hosts": {"gpu01": entry}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "fine"),
        (("gpus", 0, "verdict"), "measured"),
        (("gpus", 0, "pci"), "17:00"),
        (("checks", 0, "state"), "passed"),
        (("checks", 0, "more"), 1),
        (("format",), 2),
    ],
)
def test_what_differs_from_it_is_refused(path: tuple[Any, ...], value: Any) -> None:
    verdict = copy.deepcopy(judge.judge(machine()))
    place = verdict
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        valid(verdict)


def test_its_words_are_the_programs() -> None:
    assert SCHEMA["$defs"]["action"]["enum"] == list(findings.ACTIONS)
    states = SCHEMA["$defs"]["check"]["properties"]["state"]["enum"]
    assert set(states) == set(findings.STATES)
    assert SCHEMA["$defs"]["acceptance"]["properties"]["format"]["const"] == judge.FORMAT
