"""A host's place in its cluster of Slurm's, as the inventory has it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.provision.gpu.plugins.action import slurm as action
from ansible_collections.provision.gpu.plugins.plugin_utils import host_options, slurm_hosts
from gpu_stack.components.slurm import wishes

DEFAULTS = {name: host_options.DEFAULTS[name] for name in action.OPTIONS}
STACK = {"tensorflow": "2.9"}
WISH = {"slurm_state": "present", "slurm_controller": "gpu01"}
HOSTS: dict[str, dict[str, Any]] = {
    "gpu01": {"ansible_host": "10.0.0.1", "gpu_stack": STACK, **WISH},
    "gpu02": {"ansible_host": "10.0.0.2", "gpu_stack": STACK, **WISH},
    "desk": {},
}


class Templar:
    """Nothing here is a template."""

    def template(self, value: Any) -> Any:
        return value


def place(name: str, hosts: dict[str, dict[str, Any]] = HOSTS, **changed: Any) -> dict[str, Any]:
    values = {**hosts[name], **changed}
    task_vars = {**values, "inventory_hostname": name, "hostvars": {**hosts, name: values}}
    options = {**DEFAULTS, **{key: values[key] for key in DEFAULTS if key in values}}
    return slurm_hosts.place(Templar(), task_vars, options)


def test_addresses_are_of_the_inventory() -> None:
    assert place("gpu02") == {
        "name": "gpu02", "address": "10.0.0.2", "controller_address": "10.0.0.1", "faults": [],
    }  # fmt: skip
    assert place("gpu01")["controller_address"] == "10.0.0.1"
    assert place("gpu01", slurm_address="192.0.2.7")["controller_address"] == "192.0.2.7"
    assert place("gpu02", ansible_host="")["address"] == "gpu02"


def test_a_host_without_slurm_is_asked_nothing() -> None:
    assert place("desk") == {}


def test_variables_of_a_play_are_those_that_the_role_has_said() -> None:
    """Of another host only its inventory's are known, and no role alone needs a gpu_stack."""
    variables = {slurm_hosts.SAID: {**DEFAULTS, **WISH, "slurm_address": "192.0.2.1"}}
    hosts = {"gpu01": {"ansible_host": "10.0.0.1", **variables}, "gpu02": {**variables}, "desk": {}}
    node = place("gpu02", hosts, **WISH, ansible_host="10.0.0.2")
    assert node["faults"] == []
    assert node["controller_address"] == "192.0.2.1"
    other = place("gpu02", hosts, **WISH, ansible_host="10.0.0.2", slurm_cluster="other")
    assert other["faults"] == ["slurm_cluster is 'other' here, and 'gpu' on gpu01"]
    wished = [{"name": "short", "nodes": ["gpu02", "desk"]}]
    faults = place("gpu01", hosts, **WISH, slurm_partitions=wished)["faults"]
    assert faults == ["slurm_partitions: short has the node desk, which is none of this cluster's"]


def test_the_parts_of_a_play_are_those_of_its_variables() -> None:
    asked = {"__slurm_asked": {"part": {"name": "gpu02"}, "release": "slurm-wlm 22.05.8"}}
    hostvars = {"gpu02": {**asked, slurm_hosts.SAID: WISH}}
    task_vars = {"ansible_play_hosts": ["gpu02"], "hostvars": hostvars}
    known = [{"name": "gpu02", "release": "slurm-wlm 22.05.8"}]
    assert action.parts(task_vars, "gpu01") == known
    assert action.parts(task_vars, "gpu07") == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"slurm_controller": ""}, "slurm_controller names no host"),
        ({"slurm_controller": "gpu09"}, "gpu09 is not in the inventory"),
        ({"slurm_controller": "desk"}, "desk has no gpu_stack and no role slurm in this play"),
        ({"slurm_cluster": "other"}, "slurm_cluster is 'other' here, and 'gpu' on gpu01"),
        ({"ansible_host": "127.0.0.1"}, "127.0.0.1 is how gpu02 reaches itself"),
    ],
)
def test_what_can_not_be_is_said(changed: dict[str, Any], expected: str) -> None:
    assert expected in place("gpu02", **changed)["faults"][0]


def test_a_controller_that_was_taken_out_of_a_wish_has_none() -> None:
    hosts = {**HOSTS, "gpu01": {**HOSTS["gpu01"], "gpu_stack": None}}
    assert "gpu01 has no gpu_stack" in place("gpu02", hosts)["faults"][0]


def test_a_node_without_jobs_is_no_part_of_a_cluster() -> None:
    """It became a node, while its GPUs counted as nobody's."""
    faults = place("gpu02", slurm_compute=False)["faults"]
    assert len(faults) == 1
    assert faults[0].startswith("slurm_compute is false here, and only gpu01, the controller, ")
    assert place("gpu01", slurm_compute=False)["faults"] == []


def test_a_partition_of_a_node_that_is_none_is_said() -> None:
    """slurmctld would end with it."""
    wished = [{"name": "short", "nodes": ["gpu01", "gpu02", "gpu09"]}]
    assert place("gpu01", slurm_partitions=wished)["faults"] == [
        "slurm_partitions: short has the node gpu09, which is none of this cluster's"
    ]
    faults = place("gpu01", slurm_partitions=[*wished, "x"], slurm_compute=False)["faults"]
    assert "short has the node gpu01" in faults[0]
    # The controller's alone.
    assert place("gpu02", slurm_partitions=wished)["faults"] == []


def test_a_controller_that_is_to_be_none_knows_who_stays() -> None:
    assert place("gpu01", slurm_state="absent")["staying"] == ["gpu02"]
    assert place("gpu02", slurm_state="absent")["staying"] == []


def test_slurm_goes_from_a_host_whose_controller_is_in_the_inventory_or_not() -> None:
    there = {"slurm_host": place("gpu02", slurm_state="absent")}
    lost = {"slurm_host": place("gpu02", slurm_state="absent", slurm_controller="gpu09")}
    assert [wishes.has_controller(options) for options in (there, lost, {})] == [True, False, False]


def test_the_parts_of_a_run_are_those_of_one_controller() -> None:
    part = {"name": "gpu02"}
    asked = {"__slurm_asked": {"part": part, "release": "slurm-wlm 22.05.8"}}
    hostvars = {
        "gpu01": {**HOSTS["gpu01"], "__slurm_asked": {}},
        "gpu02": {**HOSTS["gpu02"], **asked},
        "gpu03": {**asked, "slurm_controller": "gpu07"},
        # It speaks for another.
        "gpu04": {**HOSTS["gpu02"], **asked},
        "desk": {},
    }
    task_vars = {"ansible_play_hosts": list(hostvars), "hostvars": hostvars}
    known = {**part, "release": "slurm-wlm 22.05.8"}
    assert action.parts(task_vars, "gpu01") == [known]
