"""What of the CPUs' clock is read of /sys."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_stack.acceptance import cpus, machine
from gpu_stack.host.context import Context

from tests.host_tree import put
from tests.unit.acceptance import machines

FOLDER = "sys/devices/system/cpu/cpufreq"


def policy(root: Path, number: int, **values: str) -> None:
    texts = {
        "scaling_driver": "acpi-cpufreq", "scaling_governor": "powersave",
        "scaling_cur_freq": "800000", "cpuinfo_max_freq": "3500000", "scaling_max_freq": "3500000",
        **values,
    }  # fmt: skip
    for name, text in texts.items():
        put(root, f"{FOLDER}/policy{number}/{name}", text + "\n")


def test_governor_driver_and_clocks_are_read(tmp_path: Path) -> None:
    for number in range(12):
        policy(tmp_path, number)
    policy(tmp_path, 3, scaling_governor="performance", scaling_cur_freq="3400000",
           scaling_max_freq="3600000")  # fmt: skip
    seen = cpus.look(Context(root=str(tmp_path)))
    assert seen == {
        "driver": "acpi-cpufreq",
        "governors": {"performance": 1, "powersave": 11},
        # Of a few: the kernel may need its time for each.
        "now": [800, 800, 800, 800, 800, 3400, 800, 800],
        "most": 3500,
        "allowed": 3600,
    }
    assert seen.keys() == machines.cpus().keys()
    assert machine.look(Context(root=str(tmp_path)), ask=lambda: {
        "error": None, "driver": "550", "gpus": [], "topology": {}})["cpus"] == seen  # fmt: skip


def test_of_many_the_clocks_of_some_are_read(tmp_path: Path) -> None:
    """Of both sockets; the governors of all."""
    for number in range(100, 132):
        policy(tmp_path, number, scaling_cur_freq=f"{number}000")
    seen = cpus.look(Context(root=str(tmp_path)))
    assert seen is not None
    assert seen["governors"] == {"powersave": 32}
    assert seen["now"] == [100, 104, 108, 112, 116, 120, 124, 128]


@pytest.mark.parametrize("text", ["", "<unknown>", "-1"])
def test_a_clock_that_is_not_said_is_none(tmp_path: Path, text: str) -> None:
    clocks = dict.fromkeys(("scaling_cur_freq", "cpuinfo_max_freq", "scaling_max_freq"), text)
    policy(tmp_path, 0, scaling_driver="", **clocks)
    seen = cpus.look(Context(root=str(tmp_path)))
    assert seen is not None
    assert (seen["driver"], seen["now"], seen["most"], seen["allowed"]) == (
        None,
        [],
        None,
        None,
    )


def test_without_cpufreq_there_is_nothing(tmp_path: Path) -> None:
    assert cpus.look(Context(root=str(tmp_path))) is None
    put(tmp_path, f"{FOLDER}/boost", "1\n")
    assert cpus.look(Context(root=str(tmp_path))) is None
