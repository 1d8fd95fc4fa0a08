"""Which cards are asked what, with which devices visible, and who is asked again."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from gpu_stack.acceptance import judge, words, work

from tests.unit.acceptance import trained
from tests.unit.acceptance.machines import machine
from tests.unit.acceptance.worked import answer, broken, card

Asked = tuple[str, str, int]


class Recorder:
    """A runner whose programs give the answers of the test; keeps what was asked of it."""

    python = sys.executable

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.seconds: list[float] = []
        # {(program, CUDA_VISIBLE_DEVICES): its answers, one after the other}
        self.answers: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(
        self, program: str, given: dict[str, Any], visible: str, patience: float
    ) -> dict[str, Any]:
        assert patience > given.get("seconds", 0)
        self.asked.append((program, visible, given["count"]))
        prepared = self.answers.get((program, visible))
        if prepared:
            return prepared.pop(0)
        if program == "listed":
            return answer(version="2.9.3", built_with_cuda=True, physical=0, addresses=["x"])
        if program == "copies":
            return answer(host=[{"wrong": 0, "to": 1.0, "back": 1.0}] * given["count"], pairs={})
        if program == "burn":
            self.seconds.append(given["seconds"])
            return answer(seconds=given["seconds"], products=16, differing=0, paces=[1.0])
        if given["count"] > 1 or program in ("mirrored", "checkpoints", "export"):
            return answer(**trained.host(given["count"], given["kind"])[program])
        healthy: dict[str, Any] = card("x", given["kind"])[program]
        return healthy

    def of(self, program: str) -> list[str]:
        return [visible for name, visible, _ in self.asked if name == program]


def look(facts: dict[str, Any], runner: Any, level: str = "normal", **more: Any) -> dict[str, Any]:
    """With CUDA_VISIBLE_DEVICES obeyed: that is another check's."""
    for gpu in facts["nvml"]["gpus"]:
        gpu["pci"] = "x"
    return work.look(facts, level, runner, minutes=2, **more)


def uuids(facts: dict[str, Any]) -> list[str]:
    return [gpu["uuid"] for gpu in facts["nvml"]["gpus"]]


def test_every_program_sees_its_card_alone() -> None:
    facts, runner = machine(count=2), Recorder()
    answers = look(facts, runner)
    first, second = uuids(facts)
    assert sorted(runner.of("product")) == [first, second]
    assert runner.of("copies") == [f"{first},{second}"]
    assert sorted(runner.of("listed")) == sorted([f"{first},{second}", first, second, "0", "1"])
    assert answers["kind"] == "GPU"
    assert answers["order"] == ["0", "1"]
    assert set(answers["cards"]["0"]) == {*work.ON_EACH, *work.ON_EACH_REAL}


def test_logical_cpu_devices_stand_in_for_simulated_gpus() -> None:
    facts, runner = machine(count=2), Recorder()
    facts["simulated"] = True
    answers = look(facts, runner)
    assert answers["kind"] == "CPU"
    assert {visible for _, visible, _ in runner.asked} == {"-1"}
    assert set(answers["cards"]["1"]) == set(work.ON_EACH)
    assert [count for program, _, count in runner.asked if program == "copies"] == [2]


OOM = "ResourceExhaustedError: OOM when allocating tensor on /device:GPU:0 by allocator GPU_0_bfc"


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (79 * 2**30, ["NVML: right after it 79.0 GiB of the card's memory were free"]),
        (2**30, ["NVML: right after it 1.0 GiB of the card's memory were free"]),
        (None, []),
    ],
)
def test_a_card_that_has_no_memory_left_is_asked_how_much_is_free(
    left: int | None, words: list[str]
) -> None:
    """And where that is enough, the program is asked once more, and then the card accused."""
    facts, runner = machine(count=2), Recorder()
    _first, second = uuids(facts)
    runner.answers["xla", second] = [broken(OOM), broken(OOM)]
    asked = []
    answers = look(facts, runner, free=lambda uuid: (asked.append(uuid), left)[1])
    entry = answers["cards"]["1"]["xla"]
    assert set(asked) == {second}
    assert (entry["free"], entry["log"]) == (left, ["its last words", *words])
    accused = left == 79 * 2**30
    assert runner.of("xla").count(second) == (2 if accused else 1)
    checks = judge.judge({**facts, "work": answers})["gpus"][1]["checks"]
    (xla,) = [check for check in checks if check["check"] == "xla"]
    assert xla["state"] == ("failed" if accused else "not applicable")
    assert xla["evidence"] == (entry["log"] if accused else [])


def test_all_together_have_as_much_memory_as_the_one_with_the_least() -> None:
    facts, runner = machine(count=2), Recorder()
    together = ",".join(uuids(facts))
    left = dict(zip(uuids(facts), (70, 1), strict=True))
    runner.answers["mirrored", together] = [broken(OOM)]
    answers = look(facts, runner, free=lambda uuid: left[uuid] * 2**30)
    assert answers["host"]["mirrored"]["free"] == 2**30
    assert runner.of("mirrored") == [together]


def test_a_stand_in_has_no_memory_of_a_card() -> None:
    facts, runner = machine(count=1), Recorder()
    facts["simulated"] = True
    runner.answers["xla", "-1"] = [broken(OOM)]
    answers = look(facts, runner, free=lambda _uuid: 70 * 2**30)
    assert "free" not in answers["cards"]["0"]["xla"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"processes": [{"pid": 7, "kind": "compute", "used": 1, "user": "ada"}]}, "in use: ada"),
        ({"processes": [{"pid": 7, "kind": "compute", "used": 1, "user": None}]},
         "in use: an unknown user"),
        ({"processes": None}, "the driver does not say who uses it"),
        ({"mig": {"mode": 1, "pending": 1, "instances": []}}, "MIG is on"),
        ({"compute_mode": "prohibited"}, "its compute mode lets no program compute"),
        ({"error": "GPU is lost"}, "the card does not answer"),
    ],
)  # fmt: skip
def test_a_card_that_may_not_be_loaded_is_left_alone(change: dict[str, Any], why: str) -> None:
    facts, runner = machine(count=3), Recorder()
    facts["nvml"]["gpus"][1].update(change)
    answers = look(facts, runner)
    first, second, third = uuids(facts)
    assert answers["skipped"] == {"1": why}
    assert answers["order"] == ["0", "2"]
    assert runner.of("copies") == [f"{first},{third}"]
    assert not any(second in visible for _, visible, _ in runner.asked)


def test_it_is_kept_which_card_had_which_index() -> None:
    facts = machine(count=3)
    facts["nvml"]["gpus"][1] = {"index": 1, "error": "GPU is lost"}
    answers = work.look(facts, "normal", Recorder())
    first, _lost, third = machine(count=3)["nvml"]["gpus"]
    assert answers["gpus"] == {
        "0": {"uuid": first["uuid"], "pci": first["pci"]},
        "1": {"uuid": None, "pci": None},
        "2": {"uuid": third["uuid"], "pci": third["pci"]},
    }


def test_a_display_is_no_work() -> None:
    facts = machine()
    facts["nvml"]["gpus"][0]["processes"] = [{"pid": 7, "kind": "graphics", "used": 1}]
    assert look(facts, Recorder())["skipped"] == {}


def test_where_all_cards_are_taken_nothing_is_asked() -> None:
    facts, runner = machine(count=1), Recorder()
    facts["nvml"]["gpus"][0]["mig"] = {"mode": 1, "pending": 1, "instances": ["x"]}
    answers = look(facts, runner)
    assert (answers["host"], answers["cards"], runner.asked) == ({}, {}, [])


def test_a_card_on_which_somebody_begins_is_asked_nothing_more() -> None:
    facts, runner = machine(count=2), Recorder()
    first, second = uuids(facts)

    def taken(uuid: str) -> str | None:
        return "in use: ada" if uuid == second and runner.of("xla").count(second) else None

    answers = look(facts, runner, "long", taken=taken)
    assert answers["skipped"] == {"1": "in use: ada"}
    # What it had answered before stands.
    assert set(answers["cards"]["1"]) == {"product", "pattern", "xla"}
    assert runner.of("copies") == [first]
    assert runner.of("burn") == [first]
    assert answers["host"]["listed"]["order"] == ["0", "1"]
    assert answers["host"]["copies"]["order"] == ["0"]


def strangers(**users: str) -> Any:
    """For work.look's: {index: who computes there}, as g1="in use: ada"."""
    index = {f"GPU-0000000{name[1:]}-1111-2222-3333-444444444444": word
             for name, word in users.items()}  # fmt: skip
    return lambda uuids: {uuid: index[uuid] for uuid in uuids if uuid in index}


USED = {"processes": [{"pid": 7, "kind": "compute", "used": 1, "user": "ada"}]}


@pytest.mark.parametrize(
    ("change", "own"),
    [(USED, "in use: ada"), ({"processes": None}, "the driver does not say who uses it")],
)
def test_with_nothing_a_host_in_use_is_left_alone_whole(change: dict[str, Any], own: str) -> None:
    facts, runner = machine(count=4), Recorder()
    facts["nvml"]["gpus"][1].update(change)
    facts["nvml"]["gpus"][2].update(mig={"mode": 1, "pending": 1, "instances": []})
    facts["nvml"]["gpus"][3].update(error="GPU is lost")
    disk: list[None] = []
    answers = look(facts, runner, strangers=strangers(), disk=lambda: disk.append(None))
    assert answers["skipped"] == {
        "0": "GPU 1: " + own, "1": own, "2": "MIG is on", "3": "the card does not answer",
    }  # fmt: skip
    assert (runner.asked, disk, answers["order"]) == ([], [], [])
    assert answers["storage"] is None


def test_with_nothing_a_user_of_an_instance_counts() -> None:
    """MIG alone keeps a card from being loaded, and whoever computes there the others as well."""
    facts, runner = machine(count=2), Recorder()
    facts["nvml"]["gpus"][0].update(USED, mig={"mode": 1, "pending": 1, "instances": ["x"]})
    assert look(facts, runner, strangers=strangers())["skipped"] == {
        "0": "in use: ada", "1": "GPU 0: in use: ada",
    }  # fmt: skip
    assert runner.asked == []


def test_with_nothing_a_display_and_a_lost_card_are_nobody() -> None:
    facts, runner = machine(count=3), Recorder()
    facts["nvml"]["gpus"][0]["processes"] = [{"pid": 7, "kind": "graphics", "used": 1}]
    facts["nvml"]["gpus"][1] = {"index": 1, "error": "GPU is lost"}
    asked: list[list[str]] = []

    def nobody(uuids: list[str]) -> dict[str, str]:
        asked.append(uuids)
        return {}

    answers = look(facts, runner, strangers=nobody)
    assert answers["skipped"] == {"1": "the card does not answer"}
    assert len(runner.of("product")) == 2
    # Of all cards that answer, before each program.
    assert {len(uuids) for uuids in asked} == {2}
    assert len(asked) >= len(runner.asked)


def test_with_nothing_whoever_begins_ends_the_loading_of_all() -> None:
    facts, runner = machine(count=2), Recorder()
    first, second = uuids(facts)

    def ada(wanted: list[str]) -> dict[str, str]:
        assert wanted == [first, second]
        return {second: "in use: ada"} if runner.of("copies") else {}

    answers = look(facts, runner, "long", strangers=ada, disk=lambda: {"place": "/x"})
    assert answers["skipped"] == {"0": "GPU 1: in use: ada", "1": "in use: ada"}
    assert runner.asked[-1][0] == "copies"
    # What was measured before stands.
    assert set(answers["cards"]["0"]) == {*work.ON_EACH, *work.ON_EACH_REAL}
    assert answers["storage"] == {"place": "/x"}
    assert (runner.of("burn"), "dense" in answers["host"]) == ([], False)


def test_with_nothing_who_comes_while_cards_are_asked_ends_that_for_all() -> None:
    facts, runner = machine(count=2), Recorder()
    first, second = uuids(facts)
    answers = look(
        facts, runner,
        strangers=lambda _: {second: "in use: ada"} if ("xla", first, 1) in runner.asked else {},
    )  # fmt: skip
    assert answers["skipped"] == {"0": "GPU 1: in use: ada", "1": "in use: ada"}
    assert "convolution" not in answers["cards"]["0"]
    assert runner.of("copies") == []


class Clock:
    """A clock that goes on by a minute for each program that was asked."""

    def __init__(self, runner: Recorder) -> None:
        self.runner = runner

    def __call__(self) -> float:
        return 100.0 + 60 * len(self.runner.asked)


def test_after_the_patience_no_other_program_is_begun() -> None:
    facts, runner = machine(count=1), Recorder()
    answers = look(facts, runner, patience=5, clock=Clock(runner))
    assert [name for name, _, _ in runner.asked] == ["listed", "product", "pattern", "xla",
                                                     "convolution"]  # fmt: skip
    assert answers["late"]["0"] == ["pipeline", "dense", "resnet", "growth", "by_uuid", "by_index"]
    assert answers["late"]["host"] == ["copies", "mirrored", "checkpoints", "export", "dense"]
    # Nobody has taken the card.
    assert answers["skipped"] == {}


def test_the_patience_is_of_eight_minutes() -> None:
    facts, runner = machine(count=1), Recorder()
    look(facts, runner, clock=Clock(runner))
    assert len(runner.asked) == 8


def test_late_is_no_fault_and_no_pass() -> None:
    facts, runner = machine(count=2), Recorder()
    work_ = look(facts, runner, patience=0)
    verdict = judge.judge(dict(facts, work=work_))
    assert runner.asked == []
    names = {name for name, _ in (*judge.WORK_OF_HOST, *judge.WORK_OF_GPU)}
    checks = [*verdict["checks"], *(check for gpu in verdict["gpus"] for check in gpu["checks"])]
    states = {check["state"] for check in checks if check["check"] in names}
    assert states == {"not applicable"}
    entry = {"status": "ok", "message": "", "acceptance": verdict}
    line = words.host("gpu01", entry)[-1]
    assert line.startswith("  not asked for want of time: checkpoints, convolution, copies, ")
    assert [gpu["left_alone"] for gpu in verdict["gpus"]] == [None, None]


def test_the_burn_in_and_second_tries_are_never_late() -> None:
    facts, runner = machine(count=1), Recorder()
    wrong = card("x", "GPU")["product"]
    wrong["facts"]["float32"]["error"] = 1.0
    runner.answers["product", uuids(facts)[0]] = [wrong]
    answers = look(facts, runner, "long", patience=2, clock=Clock(runner))
    asked = [name for name, _, _ in runner.asked]
    assert asked == ["listed", "product", "product", "burn"]
    assert answers["cards"]["0"]["product"]["first"] is wrong
    assert "burn" not in answers["late"]["0"]


def test_stand_ins_have_no_end() -> None:
    facts, runner = machine(count=1), Recorder()
    facts["simulated"] = True
    answers = look(facts, runner, patience=0, clock=Clock(runner))
    assert answers["late"] == {}
    assert set(answers["cards"]["0"]) == set(work.ON_EACH)


def test_a_file_is_read_before_anything_is_loaded() -> None:
    facts, runner = machine(count=1), Recorder()
    at: list[int] = []
    look(facts, runner, disk=lambda: at.append(len(runner.asked)))
    assert at == [0]


def test_a_suspect_that_somebody_has_taken_is_not_asked_again() -> None:
    facts, runner = machine(count=2), Recorder()
    second = uuids(facts)[1]
    wrong = card("x", "GPU")["xla"]
    wrong["facts"]["error"] = 1.0
    runner.answers["xla", second] = [wrong]

    def taken(uuid: str) -> str | None:
        return "in use: ada" if uuid == second and runner.of("pipeline").count(second) else None

    answers = look(facts, runner, taken=taken)
    assert runner.of("xla").count(second) == 1
    assert "first" not in answers["cards"]["1"]["xla"]


def test_without_tensorflow_nothing_is_asked() -> None:
    runner = Recorder()
    runner.python = "/nowhere/python"
    answers = look(machine(), runner)
    assert answers["missing"] == "there is no TensorFlow: /nowhere/python does not exist"
    assert runner.asked == []


def test_a_suspect_is_asked_again_alone() -> None:
    facts, runner = machine(count=2), Recorder()
    second = uuids(facts)[1]
    wrong = card("x", "GPU")["product"]
    wrong["facts"]["float32"]["error"] = 1.0
    runner.answers["product", second] = [wrong]
    answers = look(facts, runner)["cards"]["1"]["product"]
    assert answers["first"]["facts"]["float32"]["error"] == 1.0
    assert answers["facts"]["float32"]["error"] < 1e-4
    assert runner.of("product").count(second) == 2
    # After all that other cards were asked at the same time.
    assert runner.asked.index(("copies", ",".join(uuids(facts)), 2)) > max(
        place for place, (name, _, _) in enumerate(runner.asked) if name == "product"
    )


def test_what_fails_on_all_cards_is_not_asked_again() -> None:
    facts, runner = machine(count=2), Recorder()
    for uuid in uuids(facts):
        runner.answers["xla", uuid] = [broken("no libdevice")]
    answers = look(facts, runner)["cards"]
    assert "first" not in answers["0"]["xla"]
    assert len(runner.of("xla")) == 2


def test_the_only_card_of_a_host_is_asked_again() -> None:
    facts, runner = machine(count=1), Recorder()
    runner.answers["xla", uuids(facts)[0]] = [broken("it was ended by signal 11")]
    assert look(facts, runner)["cards"]["0"]["xla"]["first"]["error"]
    assert len(runner.of("xla")) == 2


def test_a_card_that_hangs_is_asked_nothing_more() -> None:
    facts, runner = machine(count=2), Recorder()
    second = uuids(facts)[1]
    runner.answers["product", second] = [broken("no answer within 300 s", silent=True)]
    answers = look(facts, runner)["cards"]
    assert set(answers["1"]) == {"product"}
    assert runner.of("product").count(second) == 1
    assert set(answers["0"]) == {*work.ON_EACH, *work.ON_EACH_REAL}


def test_the_level_long_burns_every_card_in_for_its_minutes() -> None:
    facts, runner = machine(count=2), Recorder()
    runner.answers["product", uuids(facts)[1]] = [broken("no answer within 300 s", silent=True)]
    answers = look(facts, runner, "long")["cards"]
    assert answers["0"]["burn"]["facts"]["products"] == 16
    # Not the one that hangs.
    assert "burn" not in answers["1"]
    assert (runner.of("burn"), runner.seconds) == ([uuids(facts)[0]], [120])
    assert not look(machine(), Recorder())["cards"]["0"].get("burn")
