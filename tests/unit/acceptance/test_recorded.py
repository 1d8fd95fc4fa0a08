"""What real cards said: recorded/h100.json, judged as it was read, and a whole verdict.

Read on 2026-11-26 on a virtual machine that had been given one NVIDIA H100 80GB HBM3, with driver
580.159.04 (open kernel modules) and Ubuntu 24.04; only the UUID and the serial number are changed.

- idle: machine.look of the idle card; processes_in_use: its processes while another user computed.
- answers: each program's, run by itself as the user nobody, with TensorFlow 2.16.2. Its libraries
  were NVIDIA's wheels for CUDA 12.3 and cuDNN 8.9 without the machine code for other GPUs; empty
  libraries stood in for cuFFT, cuSOLVER and cuSPARSE, which no program uses.
- start, log: the driver's lines in the kernel's log as it was loaded, and after three faulty
  programs: a write outside of all memory, one to an odd address, and a trap.

recorded/h100-normal.json is the report/acceptance.json of `ansible-playbook provision.gpu.accept -e
gpu_accept_level=normal`, which ran from its begin to its verdict on another such machine on
2026-11-27, with the same TensorFlow; cuBLASLt had no code for bfloat16, float8, integers and
complex numbers either.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.acceptance import judge, kernel_log, own_word, words
from gpu_stack.acceptance.teaching import judgement

from provision import acceptance
from tests.unit.acceptance.test_schema import VALIDATOR, valid
from tests.unit.acceptance.worked import answer

HERE = Path(__file__).with_name("recorded")
RECORDED = json.loads(HERE.joinpath("h100.json").read_text("utf-8"))
WHOLE = json.loads(HERE.joinpath("h100-normal.json").read_text("utf-8"))
OF_HOST = ("listed", "copies", "mirrored", "checkpoints", "export")
# What was not run: the two that name the card otherwise, and the same training on the CPU.
NOT_ASKED = {"visible"}


def idle() -> dict[str, Any]:
    facts: dict[str, Any] = copy.deepcopy(RECORDED["idle"])
    # Recorded before the clock of the CPUs was asked for; nor was a file read.
    return {**facts, "cpus": None}


def at_work() -> dict[str, Any]:
    """With every program's answer, as work.look collects them."""
    answers = {name: answer(**facts) for name, facts in RECORDED["answers"].items()}
    host = {name: dict(answers.pop(name), order=["0"]) for name in OF_HOST}
    (gpu,) = RECORDED["idle"]["nvml"]["gpus"]
    gpus = {"0": {"uuid": gpu["uuid"], "pci": gpu["pci"]}}
    work = {
        "level": "long", "kind": "GPU", "missing": None, "skipped": {}, "gpus": gpus,
        "order": ["0"], "host": host, "cards": {"0": answers}, "late": {}, "storage": None,
    }  # fmt: skip
    return dict(idle(), work=work)


def logged(lines: list[str]) -> dict[str, Any]:
    """The kernel's log as machine.kernel returns it."""
    xids = [dict(xid._asdict(), pci=xid.address) for xid in kernel_log.xids("\n".join(lines))]
    cards = kernel_log.cards("\n".join(lines))
    return {"xids": xids, "cards": {pci: card._asdict() for pci, card in cards.items()}}


def judged(facts: dict[str, Any]) -> dict[str, Any]:
    """The verdict after the controller has judged the figures too; no history and no fleet."""
    verdict = judge.judge(facts)
    taught = judgement.teach({"gpu01": verdict}, [], 0.0)
    return judgement.apply(verdict, taught.get("gpu01", []))


def states(verdict: dict[str, Any]) -> dict[str, str]:
    checks = [*verdict["checks"], *verdict["gpus"][0]["checks"]]
    return {check["check"]: check["state"] for check in checks}


@pytest.mark.parametrize("facts", [idle, at_work], ids=["quick", "long"])
def test_a_real_card_that_is_well_is_well(facts: Any) -> None:
    verdict = judged(facts())
    assert words.blamed(verdict) == []
    assert (verdict["verdict"], verdict["gpus"][0]["verdict"]) == ("ok", "ok")
    valid(verdict)


def test_what_it_says_of_itself_is_judged() -> None:
    results = states(judged(idle()))
    well = {name for name, state in results.items() if state == "ok"}
    assert well == {
        "nvml", "count", "answers", "pcie_width", "pcie_generation", "ecc", "rows", "throttle",
        "temperature", "compute_mode", "mig", "users",
    }  # fmt: skip


def test_what_was_not_asked_for_then_is_not_applicable() -> None:
    """The look that read it did not know of these; its driver would have said them."""
    facts = idle()
    (gpu,) = facts["nvml"]["gpus"]
    assert not set(own_word.KEYS) & set(gpu)
    results = states(judged(facts))
    assert (results["recovery"], results["ecc"], results["rows"]) == ("not applicable", "ok", "ok")


def test_what_tensorflow_did_on_it_is_judged() -> None:
    """The rates of the products by the catalog's figures: 51.6 and 617 TFLOP/s."""
    results = states(judged(at_work()))
    well = {name for name, state in results.items() if state == "ok"}
    assert well >= {
        "listed", "copies", "growth", "product", "rate_float32", "rate_float16", "pattern", "xla",
        "convolution", "pipeline", "burn_in", "learns", "busy", "checkpoints",
        "tensorboard", "saved_model", "tflite",
    }  # fmt: skip
    assert {name for name in NOT_ASKED if results[name] != "not applicable"} == set()


def test_a_whole_acceptance_of_a_real_card_ended_with_its_verdict() -> None:
    VALIDATOR.validate(WHOLE)
    assert list(acceptance.lines(WHOLE)) == [
        "gpu1: ok: 1 GPU; checks: 32 ok, 11 measured, 11 not applicable"
    ]
    verdict = WHOLE["hosts"]["gpu1"]["acceptance"]
    assert verdict["stand_in"] is verdict["simulated"] is False
    # What no program could be begun for says so, and there was none: every program ran.
    assert words.late(verdict) == []
    results, today = states(verdict), states(judged(at_work()))
    assert set(results) <= set(today)
    assert {name for name in today if name not in results} == {"burn_in"}


def test_its_rates_are_judged_by_the_catalog_as_they_were() -> None:
    verdict = copy.deepcopy(WHOLE["hosts"]["gpu1"]["acceptance"])
    rates = [check for check in verdict["gpus"][0]["checks"] if check["check"].startswith("rate_")]
    before = [dict(check) for check in rates]
    for check in rates:
        assert check.pop("threshold")["source"] == "catalog"
        check.update(state="measured", reason=check["reason"].split(";")[0])
    taught = judgement.teach({"gpu1": verdict}, [], 0.0)["gpu1"]
    assert [row["finding"] for row in taught] == before


def test_its_page_has_its_figures() -> None:
    page = acceptance.page(WHOLE, {}).decode()
    for words_of_it in ("serial 1700000000000", "51.5 TFLOP/s", "1665 images a second with XLA"):
        assert words_of_it in page


def test_a_card_in_use_says_whose() -> None:
    facts = idle()
    facts["nvml"]["gpus"][0]["processes"] = RECORDED["processes_in_use"]
    users = {check["check"]: check for check in judged(facts)["gpus"][0]["checks"]}["users"]
    assert users["state"] == "measured"
    assert users["evidence"] == ["process 792 of daemon"]


def test_a_drivers_start_has_no_xid_and_is_the_drivers() -> None:
    assert logged(RECORDED["start"]) == {"xids": [], "cards": {}}
    assert any(kernel_log.DRIVER in line for line in RECORDED["start"])


def test_faulty_programs_accuse_no_card() -> None:
    facts = dict(idle(), log=logged(RECORDED["log"]))
    assert [(xid["number"], xid["pid"], xid["part"]) for xid in facts["log"]["xids"]] == [
        (31, 9659, None),
        (13, None, "GPC 1, TPC 2"),
        (13, None, None),
        (13, 9690, None),
        (43, 9717, None),
    ]
    gpu = facts["nvml"]["gpus"][0]
    assert facts["log"]["cards"] == {gpu["pci"]: {"uuid": gpu["uuid"], "serial": gpu["serial"]}}
    verdict = judged(facts)
    assert verdict["verdict"] == "ok"
    xid = {check["check"]: check for check in verdict["gpus"][0]["checks"]}["xid"]
    assert (xid["state"], xid["reason"]) == ("ok", "only errors of programs: Xid 13, 31, 43")
