"""Slurm's words of an inventory: what is refused before any host is asked."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from provision.errors import InputError
from provision.inventory import Sources, Words, parse
from provision.roles import JUDGES, PREFIXES, all_options

GOOD: dict[str, Any] = {
    "gpu_stack": {"tensorflow": "2.9"},
    "slurm_state": "present",
    "slurm_controller": "gpu01",
}


def fleet(**changed: Any) -> Any:
    variables = {key: value for key, value in {**GOOD, **changed}.items() if value is not None}
    export = {
        "_meta": {"hostvars": {}},
        "all": {"children": ["gpu"]},
        "gpu": {"hosts": ["gpu01"], "vars": copy.deepcopy(variables)},
    }
    text = "".join(f"{key}: x\n" for key in variables)
    words = Words(all_options(), PREFIXES, JUDGES)
    return parse(export, words, Sources({"lab/hosts.yml": text}))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"slurm_state": "absent", "slurm_controller": None},
        {"slurm_state": None, "slurm_controller": None},
        {"slurm_controller": "{{ groups.gpu | first }}"},
        {"slurm_partitions": [{"name": "short", "max_time": "4:00:00", "default": True}]},
        {"slurm_extra": ["KillWait=60"], "slurm_max_time": "UNLIMITED"},
        {"slurm_accounting": True, "slurm_compute": False, "slurm_address": "10.0.0.7"},
    ],
)
def test_right_words_are_taken(changed: dict[str, Any]) -> None:
    assert list(fleet(**changed).hosts) == ["gpu01"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"slurm_controller": None}, "slurm_state: present, and no slurm_controller"),
        ({"slurm_controller": ""}, "slurm_state: present, and no slurm_controller"),
        ({"slurm_controller": "a b"}, "is no name of a host"),
        ({"slurm_cluster": "Lab"}, "is no name of a cluster"),
        ({"slurm_partitions": [{"name": "a", "gpus": 1}]}, "gpus is no word of a partition"),
        ({"slurm_max_time": "week"}, "is no time"),
        ({"slurm_extra": ["SlurmUser=root"]}, "SlurmUser is decided by this program"),
        ({"slurm_memory_reserve": -1}, "is no amount of memory"),
        ({"slurm_address": "a,b"}, "is no address"),
    ],
)
def test_wrong_words_are_refused(changed: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as error:
        fleet(**changed)
    assert expected in error.value.message
