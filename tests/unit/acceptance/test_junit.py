"""JUnit XML of an acceptance: a case a check, and nothing green that was not judged."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from gpu_stack.acceptance import judge

from provision import acceptance
from tests.unit.acceptance.machines import FAULTS, machine
from tests.unit.xunit_schema import faults

Host = dict[str, Any]


def entry(facts: dict[str, Any], declared: int = 0) -> Host:
    verdict = judge.judge(facts, declared)
    return {"status": verdict["verdict"], "message": "", "acceptance": verdict}


def junit(**hosts: Host) -> ElementTree.Element:
    root = ElementTree.fromstring(acceptance.junit({"format": 1, "hosts": hosts}))  # noqa: S314 (ours)
    assert faults(root) == []
    return root


def cases(root: ElementTree.Element, tag: str) -> list[tuple[str, str]]:
    return [
        (case.get("classname", ""), case.get("name", ""))
        for case in root.iter("testcase")
        if case.find(tag) is not None
    ]


def test_each_check_of_a_host_and_of_its_cards_is_a_case() -> None:
    host = entry(machine("Tesla T4", 2))
    root = junit(gpu01=host)
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    expected = [("gpu01.host", "answer")]
    expected += [("gpu01.host", check["check"]) for check in host["acceptance"]["checks"]]
    for gpu in host["acceptance"]["gpus"]:
        expected += [(f"gpu01.gpu{gpu['index']}", check["check"]) for check in gpu["checks"]]
    assert names == expected
    assert cases(root, "failure") == cases(root, "error") == []


def test_what_was_measured_or_can_not_be_asked_is_skipped_with_its_reason() -> None:
    host = entry(machine("Tesla T4", 1))
    root = junit(gpu01=host)
    skipped = {name: case for case in root.iter("testcase") if (name := case.get("name"))
               and case.find("skipped") is not None}  # fmt: skip
    states = {check["check"]: check for check in host["acceptance"]["gpus"][0]["checks"]}
    states |= {check["check"]: check for check in host["acceptance"]["checks"]}
    assert set(skipped) == {
        name for name, check in states.items() if check["state"] in ("measured", "not applicable")
    }
    power = skipped["power"].find("skipped")
    assert power is not None
    assert power.get("message") == power.text == "measured: may take 70 W"
    assert power.get("type") == "measured"


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_every_fault_fails_its_own_case(fault: Any) -> None:
    facts = machine(fault.model, 2, busy=fault.busy)
    fault.change(facts)
    root = junit(gpu07=entry(facts, fault.declared))
    subject = "gpu07.host" if fault.gpu is None else f"gpu07.gpu{fault.gpu}"
    assert cases(root, "failure") == [(subject, fault.check)]


def test_a_failure_names_the_card_and_the_next_action() -> None:
    facts = machine("Tesla T4", 2)
    facts["nvml"]["gpus"][1]["pcie"]["width"] = 4
    facts["nvml"]["gpus"][1]["ecc"]["uncorrected"] = 2
    root = junit(gpu07=entry(facts))
    first, second = root.iter("failure")
    assert first.get("type") == "degraded"
    text = first.text or ""
    assert text.startswith("GPU 1 GPU-00000001-1111-2222-3333-444444444444 (Tesla T4, ")
    assert "the PCIe link has 4 of 16 lanes\ncure: reseat (switch the host off" in text
    assert second.get("type") == "failed"
    assert (second.get("message") or "").endswith(
        "2 uncorrected memory errors since the driver was loaded; "
        "0 corrected and 0 uncorrected in the card's life"
    )
    assert "nvidia-smi --gpu-reset -i GPU-00000001" in (second.text or "")


def test_a_host_without_an_answer_is_an_error() -> None:
    lost = {"status": "unreachable", "message": "no route\x1b[0m", "acceptance": None}
    broken = entry(machine("Tesla T4", 1)) | {"status": "error", "message": "it broke"}
    root = junit(gpu01=lost, gpu02=broken)
    assert cases(root, "error") == [("gpu01.host", "answer"), ("gpu02.host", "answer")]
    assert [error.get("message") for error in root.iter("error")] == ["no route", "it broke"]
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("25", "2", "0")


def test_simulated_gpus_are_called_so() -> None:
    facts = machine()
    assert junit(gpu01=entry(facts)).find(".//system-out") is None
    facts["simulated"] = True
    output = junit(gpu01=entry(facts)).find(".//system-out")
    assert output is not None
    assert "nothing here says anything of a real one" in (output.text or "")
