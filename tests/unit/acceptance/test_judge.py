"""The verdict: every fault is named by its own check alone, and no healthy machine by any."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.acceptance import judge, words

from tests.collection import ROOT
from tests.unit.acceptance.machines import (
    A100,
    FAULTS,
    Fault,
    event,
    healthy,
    machine,
    on_a_lone_card,
)
from tests.unit.acceptance.worked import worked
from tests.verdicts import red

Verdict = dict[str, Any]


@pytest.mark.parametrize("name", healthy())
def test_a_healthy_machine_is_ok(name: str) -> None:
    verdict = judge.judge(healthy()[name])
    assert red(verdict) == []
    assert verdict["verdict"] == ("not applicable" if name == "no GPU" else "ok")
    assert verdict["action"] == "nothing"


def test_there_are_forty_healthy_machines_and_25_faults() -> None:
    assert len(healthy()) >= 40
    assert len(FAULTS) >= 25
    named = {fault.check for fault in FAULTS.values()}
    # These report and do not judge.
    assert {name for name, _ in (*judge.OF_HOST, *judge.OF_GPU)} - named == {
        "replays", "power", "users", "iommu", "cpu_clock"
    }  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_fault_is_named_by_its_own_check_alone(fault: Fault) -> None:
    facts = machine(fault.model, 2, busy=fault.busy)
    fault.change(facts)
    verdict = judge.judge(facts, fault.declared)
    assert red(verdict) == [(fault.check, fault.gpu, fault.state, fault.action)]
    assert (verdict["verdict"], verdict["action"]) == (fault.state, fault.action)


def test_one_line_names_the_sick_card() -> None:
    facts = machine("Tesla T4", 4)
    facts["nvml"]["gpus"][2]["pcie"]["width"] = 4
    assert words.host("gpu07", entry(judge.judge(facts))) == [
        "gpu07: degraded: 4 GPUs; checks: 40 ok, 13 measured, 17 not applicable",
        "  GPU 2 GPU-00000002-1111-2222-3333-444444444444 (Tesla T4, serial 042102, slot 3, "
        "0000:19:00.0): degraded: the PCIe link has 4 of 16 lanes; next: reseat (switch the host "
        "off, put the card and its riser in again, then try another slot)",
    ]


def entry(verdict: Verdict) -> dict[str, Any]:
    return {"status": verdict["verdict"], "message": "", "acceptance": verdict}


def test_a_lost_card_has_the_place_that_no_other_has() -> None:
    facts = machine("Tesla T4", 4)
    facts["nvml"]["gpus"][2] = {"index": 2, "error": "GPU is lost"}
    facts["log"]["cards"]["0000:19:00.0"] = {"uuid": "GPU-1", "serial": "0421"}
    verdict = judge.judge(facts)
    assert [gpu["pci"] for gpu in verdict["gpus"]] == [gpu["pci"] for gpu in facts["bus"]]
    (line,) = words.faults(verdict)
    assert line.startswith(
        "GPU 2 GPU-1 (serial 0421, slot 3, 0000:19:00.0): failed: the card does not answer"
    )


def test_a_lost_card_has_no_place_where_two_could_be_it() -> None:
    facts = machine("Tesla T4", 4)
    facts["nvml"]["gpus"] = [*facts["nvml"]["gpus"][:2], {"index": 2, "error": "GPU is lost"}]
    facts["nvml"]["topology"] = {"0-1": "PIX"}
    assert judge.judge(facts)["gpus"][2]["pci"] is None


@pytest.mark.parametrize("fault", ["not in NVML", "no library", "NVML hangs"])
def test_the_kernels_last_word_on_a_card_that_nvml_has_not_is_evidence(fault: str) -> None:
    facts = machine("Tesla T4", 2)
    FAULTS[fault].change(facts)
    facts["log"]["xids"] += [event(1, 31), event(1, 79)]
    (check,) = [entry for entry in judge.judge(facts)["checks"] if entry["state"] == "failed"]
    assert check["evidence"][-1] == "0000:18:00.0: Xid 79: m"


def test_a_card_of_a_virtual_machine_is_no_lost_one() -> None:
    facts = machine("Tesla T4", 2)
    passed = facts["bus"][0] | {"pci": "0000:10:00.0", "driver": "vfio-pci"}
    facts["bus"].insert(0, passed)
    facts["nvml"]["gpus"][1] = {"index": 1, "error": "GPU is lost"}
    assert judge.judge(facts)["gpus"][1]["pci"] == "0000:18:00.0"


def test_what_was_measured_alone_is_no_pass() -> None:
    facts = machine("Tesla T4", 1)
    facts["nvml"]["gpus"][0]["temperature_slowdown"] = None
    (gpu,) = judge.judge(facts)["gpus"]
    states = {entry["check"]: entry["state"] for entry in gpu["checks"]}
    assert states["temperature"] == "measured"
    assert states["replays"] == "measured"


def test_a_card_at_work_is_named_with_its_user_and_not_blamed() -> None:
    (gpu,) = judge.judge(machine("Tesla T4", 1, busy=True))["gpus"]
    (users,) = [entry for entry in gpu["checks"] if entry["check"] == "users"]
    assert (users["state"], users["evidence"]) == ("measured", ["process 4711 of ada"])


def test_the_worst_of_several_errors_of_a_card_is_named() -> None:
    facts = machine("Tesla T4", 1)
    for number in (31, 63, 79, 79):
        facts["log"]["xids"].append(event(0, number))
    (gpu,) = judge.judge(facts)["gpus"]
    (xid,) = [entry for entry in gpu["checks"] if entry["check"] == "xid"]
    assert xid["reason"].startswith("Xid 79: ")
    assert xid["reason"].endswith(" (2 times)")
    assert len(xid["evidence"]) == 4


@pytest.mark.parametrize("name", on_a_lone_card())
def test_the_only_cards_errors_of_programs_are_reported_and_no_fault(name: str) -> None:
    events = on_a_lone_card()[name]
    facts = machine("Tesla T4", 1)
    facts["log"]["xids"] = events
    (gpu,) = judge.judge(facts)["gpus"]
    (xid,) = [entry for entry in gpu["checks"] if entry["check"] == "xid"]
    assert (gpu["verdict"], xid["state"], xid["action"]) == ("ok", "measured", "nothing")
    assert f"{len(events)} times in a day by {len(events)} processes" in xid["reason"]
    assert xid["reason"].endswith("whether it is the program or the card")
    assert xid["how"].startswith("run what failed on another card")
    # Its own errors are its own, whatever else there is.
    facts["log"]["xids"] = [*events, event(0, 79)]
    assert judge.judge(facts)["verdict"] == "failed"


def test_a_card_that_a_virtual_machine_has_is_no_other_to_compare_with() -> None:
    facts = machine("Tesla T4", 2)
    facts["bus"][1]["driver"] = "vfio-pci"
    del facts["nvml"]["gpus"][1]
    facts["log"]["xids"] = on_a_lone_card()["a program of one block on the only card"]
    assert judge.judge(facts)["verdict"] == "ok"


def test_a_verdict_has_what_its_readers_know() -> None:
    facts = machine(A100, 2, mig=True)
    verdict = judge.judge(facts)
    checks, gpus = verdict.pop("checks"), verdict.pop("gpus")
    assert verdict == {
        "format": 1, "verdict": "ok", "action": "nothing", "pairs": {"0-1": "NV12"},
        "sets": {"2": [0, 1]}, "driver": "550.163.01", "simulated": False, "level": "quick",
        "stand_in": False, "tensorflow": None,
    }  # fmt: skip
    assert [entry["check"] for entry in checks] == [name for name, _ in judge.OF_HOST]
    measured = ("pcie", "ecc", "rows", "pages", "temperature", "power", "clock", "memory", "fan",
                "persistence", "capability", "power_limit", "power_limit_default")  # fmt: skip
    for index, (gpu, read) in enumerate(zip(gpus, facts["nvml"]["gpus"], strict=True)):
        assert [entry["check"] for entry in gpu.pop("checks")] == [name for name, _ in judge.OF_GPU]
        assert gpu == {
            "index": index, "slot": str(index + 1), "numa_node": 0, "verdict": "ok",
            "action": "nothing",
            **{name: read[name] for name in ("uuid", "serial", "name", "pci", "vbios", "part")},
            "measured": {**{name: read[name] for name in measured}, "mig": True},
        }  # fmt: skip


def test_the_verdict_of_a_machine_that_worked_says_how() -> None:
    facts = worked(count=2)
    facts["work"]["level"] = "long"
    verdict = judge.judge(facts)
    assert (verdict["level"], verdict["tensorflow"]) == ("long", "2.9.3")
    assert set(verdict) - set(judge.judge(machine())) == {"scaling"}
    assert verdict["scaling"]["model"] == "ResNet-50"
    names = [name for name, _ in (*judge.OF_HOST, *judge.WORK_OF_HOST)]
    assert [entry["check"] for entry in verdict["checks"]] == names
    names = [name for name, _ in (*judge.OF_GPU, *judge.WORK_OF_GPU, *judge.LONG_OF_GPU)]
    assert [entry["check"] for entry in verdict["gpus"][1]["checks"]] == names
    assert set(verdict["gpus"][1]["utilization"]) == {"together"}
    facts["work"]["level"] = "normal"
    names.remove("burn_in")
    assert [entry["check"] for entry in judge.judge(facts)["gpus"][1]["checks"]] == names


def state(state: str, action: str = "nothing") -> dict[str, Any]:
    return {"state": state, "action": action}


def of_card(verdict: str, action: str = "nothing") -> dict[str, Any]:
    return {"verdict": verdict, "action": action}


@pytest.mark.parametrize(
    ("checks", "gpus", "expected"),
    [
        ([], [], ("not applicable", "nothing")),
        ([state("measured")], [], ("not applicable", "nothing")),
        ([state("measured"), state("ok")], [], ("ok", "nothing")),
        ([], [of_card("ok"), of_card("not applicable")], ("ok", "nothing")),
        ([state("degraded", "watch")], [of_card("ok")], ("degraded", "watch")),
        # Only what makes the verdict says what to do; of that the strongest.
        ([state("degraded", "service")], [of_card("failed", "reset")], ("failed", "reset")),
        ([state("failed", "configure")], [of_card("degraded", "reseat")], ("failed", "configure")),
        ([state("failed", "reboot")], [of_card("failed", "reset")], ("failed", "reboot")),
        ([state("failed", "reset")], [of_card("failed", "service")], ("failed", "service")),
    ],
)
def test_the_verdict_of_a_host(
    checks: list[Any], gpus: list[Any], expected: tuple[str, str]
) -> None:
    assert judge.of_host(checks, gpus) == expected


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ([], ("not applicable", "nothing")),
        ([state("ok"), state("measured")], ("ok", "nothing")),
        ([state("degraded", "service"), state("failed", "reset")], ("failed", "reset")),
        ([state("degraded", "reset"), state("degraded", "reseat")], ("degraded", "reseat")),
        ([state("degraded", "reseat"), state("degraded", "reset")], ("degraded", "reseat")),
    ],
)
def test_the_verdict_of_a_card(checks: list[Any], expected: tuple[str, str]) -> None:
    assert judge.of_checks(checks) == expected


def test_two_lost_cards_have_their_places_in_the_order_of_the_bus() -> None:
    facts = machine("Tesla T4", 4)
    for index in (1, 2):
        facts["nvml"]["gpus"][index] = {"index": index, "error": "GPU is lost"}
    facts["log"]["cards"] = {facts["bus"][2]["pci"]: {"uuid": "GPU-2", "serial": "2"}}
    facts["log"]["xids"] = [event(1, 79), event(2, 62)]
    gpus = judge.judge(facts)["gpus"]
    assert [(gpu["pci"], gpu["slot"], gpu["uuid"]) for gpu in gpus[1:3]] == [
        ("0000:18:00.0", "2", None), ("0000:19:00.0", "3", "GPU-2"),
    ]  # fmt: skip
    asked = [entry for entry in gpus[1]["checks"] if entry["reason"] != words.SILENT]
    assert [entry["check"] for entry in asked] == ["answers", "xid"]
    assert asked[1]["reason"].startswith("Xid 79: ")


@pytest.mark.parametrize("log", [None, {"xids": [], "cards": None}])
def test_a_lost_card_has_its_place_without_names_too(log: dict[str, Any] | None) -> None:
    facts = {**machine("Tesla T4", 2), "log": log}
    facts["nvml"]["gpus"][1] = {"index": 1, "error": "GPU is lost"}
    gpu = judge.judge(facts)["gpus"][1]
    assert (gpu["pci"], gpu["uuid"]) == ("0000:18:00.0", None)


def test_without_a_declaration_no_gpu_is_not_applicable() -> None:
    facts = machine(count=0)
    facts["nvml"]["error"] = "driver not loaded"
    assert judge.judge(facts)["verdict"] == "not applicable"


def test_the_models_that_are_given_are_compared_and_none_need_be_given() -> None:
    facts = machine("Tesla T4", 1)
    facts.pop("models", None)

    def models(*given: Any) -> str:
        checks = judge.judge(facts, 1, *given)["checks"]
        return next(str(check["state"]) for check in checks if check["check"] == "models")

    assert models({"Tesla T4": ["1eb8"]}) == "ok"
    assert models({"NVIDIA A10": ["2236"]}) == "failed"
    assert models() == models(None) == "not applicable"


def test_pairs_are_named_as_nvidia_smi_names_them() -> None:
    facts = machine("NVIDIA GeForce RTX 3090", 4, bridged=((0, 3),))
    verdict = judge.judge(facts)
    assert verdict["pairs"] == {
        "0-1": "PIX", "0-2": "PXB", "0-3": "NV2", "1-2": "PIX", "1-3": "PXB", "2-3": "PIX"
    }  # fmt: skip
    assert verdict["sets"] == {"2": [0, 3], "3": [0, 1, 3], "4": [0, 1, 2, 3]}


def test_the_page_names_every_check() -> None:
    page = (ROOT / "docs" / "acceptance.md").read_text("utf-8")
    for subject, checks in (("host", judge.OF_HOST), ("GPU", judge.OF_GPU)):
        for name, _ in checks:
            assert f"| `{name}` | {subject} |" in page
    assert f"has {len(healthy())} healthy machines" in page
    assert f"and {len(FAULTS)} faults" in page
