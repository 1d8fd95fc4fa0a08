"""No GPU is promised to Slurm and to a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import allocation
from gpu_stack.components.slurm import rules
from gpu_stack.host import gpu_shares as share
from gpu_stack.host.context import Context

from provision.models import Wish
from provision.roles import slurm
from tests import host_tree

UUIDS = [f"GPU-{number}" for number in range(4)]


def person(name: str, gpus: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "gpus": gpus, "shared": False, **more}


@pytest.mark.parametrize("value", ["all", 0, 2, [0], [3, 1]])
def test_a_value_is_all_a_number_or_a_list(value: Any) -> None:
    assert share.fault(value) is None


@pytest.mark.parametrize("value", ["none", -1, True, [], [0, "1"], [0, 0], None, {}])
def test_another_value_is_refused(value: Any) -> None:
    assert share.fault(value)


def test_a_number_is_of_the_last_ones() -> None:
    assert share.of_slurm("all", 3) == [0, 1, 2]
    assert share.of_slurm(2, 4) == [2, 3]
    assert share.of_slurm([3, 0], 4) == [0, 3]
    for value in (5, [4]):
        with pytest.raises(ValueError, match="this host has 4"):
            share.of_slurm(value, 4)


def test_a_node_gets_its_share() -> None:
    gpus = [{"type": "t4", "file": f"/dev/nvidia{number}"} for number in range(3)]
    assert share.chosen(gpus, "all") == gpus
    assert share.chosen(gpus, 1) == gpus[2:]
    assert share.chosen(gpus, [0, 2]) == [gpus[0], gpus[2]]
    # What is not there is for a rule to say.
    assert share.chosen(gpus[:1], 2) == gpus[:1]
    assert share.chosen(gpus, 0) == []


@pytest.mark.parametrize(
    ("value", "people", "count", "why"),
    [
        ("all", [person("ada", 1)], 0, "Slurm gives out all GPUs of the host, and ada would"),
        (1, [person("ada", "all")], 0, "ada gets all GPUs of the host, and Slurm would give"),
        ([1, 2], [person("ada", [2])], 0, "GPU 2 is promised twice, to Slurm and to ada"),
        (2, [person("ada", [3])], 4, "GPU 3 is promised twice, to Slurm and to ada"),
        (2, [person("ada", 3)], 4, "ada asks for 3 GPUs, and Slurm leaves 2 of 4"),
        (2, [person("ada", 2), person("bob", 1)], 4, "ada, bob are promised 3 GPUs, and Slurm"),
        (2, [person("ada", 2), person("bob", [0])], 4, "ada, bob are promised 3 GPUs"),
        ("all", [person("ada", "none")], 2, None),
        (0, [person("ada", "all")], 2, None),
        (2, [person("ada", 2), person("bob", "none")], 4, None),
        (2, [person("ada", 2, shared=True), person("bob", 2, shared=True)], 4, None),
        ([2, 3], [person("ada", [0]), person("bob", 1)], 4, None),
        ([2, 3], [person("ada", ["GPU-0"])], 0, None),
        (2, [], 4, None),
    ],
)
def test_who_is_promised_what(
    value: Any, people: list[dict[str, Any]], count: int, why: str | None
) -> None:
    message = share.clash(value, people, count)
    assert (message or "").startswith(why or "")
    assert (message is None) == (why is None)


def test_only_a_node_promises_gpus() -> None:
    assert share.promised({}) == 0
    assert share.promised({"slurm_state": "present"}) == "all"
    assert share.promised({"slurm_state": "present", "slurm_compute": False}) == 0
    assert share.promised({"slurm_state": "present", "slurm_gpus": [1]}) == [1]


def fault(**values: Any) -> str | None:
    given = {
        "slurm_gpus": "all", "slurm_state": "present", "slurm_compute": True, "gpu_count": 0,
        "gpu_workspaces": [{"name": "ada", "gpus": 1, "port": 8801}], **values,
    }  # fmt: skip
    found = slurm.SharedGpus().fault(given, Wish(), lambda _text: "")
    return found and found.message


def test_an_inventory_that_promises_a_gpu_twice_is_refused() -> None:
    assert fault() == "Slurm gives out all GPUs of the host, and ada would get some of them"
    assert fault(slurm_gpus=2, gpu_count=2) == "ada asks for 1 GPUs, and Slurm leaves 0 of 2"
    assert fault(slurm_gpus=3, gpu_count=2) == "slurm_gpus is 3, and this host has 2 GPUs"
    for values in (
        {"slurm_state": "absent"},
        {"slurm_compute": False},
        {"slurm_gpus": 1, "gpu_count": 2},
        {"gpu_workspaces": []},
        # Judged on the host.
        {"gpu_workspaces": "{{ people }}"},
        # Another rule's.
        {"gpu_workspaces": [{"name": "ada"}]},
    ):
        assert fault(**values) is None, values


def test_what_an_inventory_does_not_say_has_its_default() -> None:
    ada = [{"name": "ada", "gpus": 1, "port": 8801}]
    for values, word in (
        ({"slurm_state": "present", "gpu_workspaces": ada}, "gpu_workspaces"),
        ({"slurm_state": "present", "gpu_workspaces": ada, "slurm_gpus": "all"}, "slurm_gpus"),
    ):
        fault = slurm.SharedGpus().fault(values, Wish(), lambda _text: "")
        assert fault is not None
        assert fault.word == word
    assert slurm.SharedGpus().fault({"slurm_state": "present"}, Wish(), lambda _text: "") is None


def test_what_people_have_is_read_only_where_slurm_is_to_give_out_gpus(tmp_path: Path) -> None:
    host_tree.put(tmp_path, "/etc/gpu-workspace/ada/gpus.json", "[0]")
    root = str(tmp_path)
    assert rules.gpus_of_people(Context(root=root, options={"slurm_state": "present"})) == {
        "ada": [0]
    }
    assert rules.gpus_of_people(Context(root=root, options={})) == {}


def test_who_has_a_gpu_that_would_be_slurms_is_named_in_order() -> None:
    facts: dict[str, Any] = {
        "gpus": [{}, {}],
        "preflight": {"gpus_of_people": {"zoe": [0], "ada": [0]}},
        "state": {"gpu_serving": {"models": {"mnist": {"record": {"gpus": [1]}}}}},
    }

    def named(slurm_gpus: Any) -> list[str]:
        options = {"slurm_state": "present", "slurm_gpus": slurm_gpus}
        return [message for message, _ in rules._held_by_others(facts, [], options)]

    assert named("all") == [
        "GPU 0 would be Slurm's, and ada has it now",
        "GPU 1 would be Slurm's, and model mnist has it now",
        "GPU 0 would be Slurm's, and zoe has it now",
    ]
    facts["state"] = {}
    assert named([1]) == []


def test_workspaces_get_none_of_slurms_gpus() -> None:
    people = [person("ada", 1), person("bob", 1)]
    assert allocation.allocated(people, UUIDS, {}, of_slurm=[0, 1]) == {"ada": [2], "bob": [3]}
    # Who had one that is Slurm's now gets another.
    kept = {"ada": [1]}
    assert allocation.allocated(people, UUIDS, kept, of_slurm=[1]) == {"ada": [0], "bob": [2]}
    with pytest.raises(ValueError, match="bob asks for 1 GPUs, and 0 of the host's 4 are left"):
        allocation.allocated(people, UUIDS, {}, of_slurm=[0, 1, 2])
    for gpus in ([1], ["GPU-1"], "all"):
        with pytest.raises(ValueError, match="GPU 1 is promised twice, to Slurm and to eve"):
            allocation.allocated([person("eve", gpus)], UUIDS, {}, of_slurm=[1])
