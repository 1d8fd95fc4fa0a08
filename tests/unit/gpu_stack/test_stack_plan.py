"""The plan is a pure function; tags select; a host without a row is told what the lock has."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import converged_host as made
import gpu_stack.plan
import pytest
from hypothesis import given
from hypothesis import strategies as st

COMPONENTS = ["cuda", "cudnn", "gpu_env", "tensorflow"]


def bare() -> dict[str, Any]:
    """What is found on a host that has nothing."""
    facts = made.bare()
    # These tests are about the components; what a receipt changes has tests of its own below.
    facts["receipt"] = {"lock_digest": made.LOCK["digest"]}
    return facts


def shuffled(value: Any, random_order: random.Random) -> Any:
    """The same value with the keys of its mappings in another order."""
    if isinstance(value, dict):
        keys = list(value)
        random_order.shuffle(keys)
        return {key: shuffled(value[key], random_order) for key in keys}
    if isinstance(value, list):
        return [shuffled(item, random_order) for item in value]
    return value


def plan(
    found: dict[str, Any], only: list[str] | None = None, skip: list[str] | None = None
) -> Any:
    return gpu_stack.plan.plan(made.LOCK, made.WISH, {}, found, only, skip)


@given(st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(random_order: random.Random) -> None:
    facts = bare()
    other = gpu_stack.plan.plan(
        shuffled(made.LOCK, random_order), made.WISH, {}, shuffled(facts, random_order), ["all"], []
    )
    assert other == plan(facts)


def test_the_plan_changes_none_of_its_arguments() -> None:
    facts = bare()
    before = copy.deepcopy(facts)
    lock = copy.deepcopy(made.LOCK)
    gpu_stack.plan.plan(lock, made.WISH, {}, facts, ["cuda"], [])
    assert (facts, lock) == (before, made.LOCK)


names = st.sampled_from([*COMPONENTS, "all", "always", "tagged", "untagged", "verify", "other"])


@given(st.lists(names), st.lists(names))
def test_selected_and_left_out_share_out_what_is_to_change(
    only: list[str], skip: list[str]
) -> None:
    result = plan(bare(), only, skip)
    assert sorted(result["components"] + result["not_selected"]) == COMPONENTS
    assert result["components"] == [name for name in COMPONENTS if name in result["components"]]
    selected = {change["component"] for change in result["changes"] if change["selected"]}
    assert selected == set(result["components"])
    assert set(result["repairs"]) <= set(result["components"])


@pytest.mark.parametrize(
    ("only", "skip", "expected"),
    [
        (["all"], [], COMPONENTS),
        ([], [], COMPONENTS),
        (["tagged"], [], COMPONENTS),
        (["cudnn"], [], ["cudnn"]),
        (["tensorflow", "cuda"], [], ["cuda", "tensorflow"]),
        (["all"], ["tensorflow"], ["cuda", "cudnn", "gpu_env"]),
        (["cuda"], ["cuda"], []),
        (["verify"], [], []),
        (["always"], [], []),
        (["untagged"], [], []),
        (["all"], ["tagged"], []),
        (["all"], ["always"], COMPONENTS),
    ],
)
def test_tags_select_as_ansible_does(only: list[str], skip: list[str], expected: list[str]) -> None:
    assert plan(bare(), only, skip)["components"] == expected


def test_a_host_without_a_row_is_told_what_the_lock_has() -> None:
    facts = bare()
    facts["platform"]["release"] = "12"
    result = plan(facts)
    assert result["changes"] == []
    assert result["stack"] is None
    [blocker] = result["blockers"]
    assert blocker["id"] == "no-row"
    assert blocker["message"] == (
        "the lock has no row for debian 12 x86_64 with tensorflow 2.9; "
        "it has: debian 11 x86_64 with tensorflow 2.9"
    )
    assert "provision lock" in blocker["hint"]


def test_another_wish_is_another_row() -> None:
    wish = {"tensorflow": "2.9", "cudnn": {"version": "8.5.0.96", "cuda": "11.2"}}
    [blocker] = gpu_stack.plan.plan(made.LOCK, wish, {}, bare())["blockers"]
    assert blocker["id"] == "no-row"
    assert "with cudnn (cuda 11.2, version 8.5.0.96), tensorflow 2.9;" in blocker["message"]


def test_repairs_join_lists_and_keep_other_values() -> None:
    def change(component: str, repair: dict[str, Any]) -> dict[str, Any]:
        return {"component": component, "repair": repair}

    assert gpu_stack.plan.merge_repairs(
        [
            change("cuda", {"cuda_reinstall": ["b"]}),
            change("cuda", {"cuda_reinstall": ["a", "b"]}),
            change("cudnn", {"cudnn_reinstall": True}),
            change("cudnn", {}),
        ]
    ) == {"cuda": {"cuda_reinstall": ["a", "b"]}, "cudnn": {"cudnn_reinstall": True}}


def test_check_mode_reports_a_change_and_its_diff(tmp_path: Path, monkeypatch: Any) -> None:
    host = made.make(tmp_path)
    result = gpu_stack.plan.finish(host.plan(), check_mode=True)
    assert result["changed"] is False
    assert result["diff"] == {"before": "", "after": ""}
    host.remove("/usr/bin/ptxas")
    result = gpu_stack.plan.finish(host.plan(), check_mode=True)
    assert result["changed"] is True
    assert result["diff"]["before"] == "cuda ptxas: missing\n"
    assert result["diff"]["after"].startswith("cuda ptxas: nvidia-cuda-toolkit 11.2.2-3+deb11u3 (")
    assert gpu_stack.plan.finish(host.plan(), check_mode=False)["changed"] is False


def test_a_run_that_did_not_finish_is_proven_by_the_next(tmp_path: Path) -> None:
    """A failed proof must not be passed by because nothing is left to install."""
    host = made.make(tmp_path)
    host.write("/var/lib/provision/unfinished.json", "{}")
    plan_made = host.plan()
    assert plan_made["components"] == ["receipt"]
    assert plan_made["changes"][0]["reason"] == "the last run did not finish"


def test_a_receipt_of_another_lock_owes_a_proof(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    host.write("/var/lib/provision/receipt.json", '{"lock_digest": "sha256:other"}')
    assert host.plan()["components"] == ["receipt"]
    host.remove("/var/lib/provision/receipt.json")
    assert host.plan()["changes"][0]["reason"] == "no run has finished here yet"


def test_an_owed_proof_is_no_work_for_one_component_or_the_second_look(tmp_path: Path) -> None:
    """`--tags cuda` and the look before the receipt leave it out, and report no drift."""
    host = made.make(tmp_path)
    host.remove("/var/lib/provision/receipt.json")
    for only, skip in ((["cuda"], []), (["all"], ["receipt"])):
        left_out = host.plan(only=only, skip=skip)
        assert left_out["components"] == []
        assert left_out["not_selected"] == []
