"""Preflight: what the rules say of the recorded hosts.

The states that trip each rule, and their neighbours, are those of the mutants (tests/mutants).
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_stack import preflight
from gpu_stack.change import change
from gpu_stack.components import NAMES, nvidia_driver
from gpu_stack.components.nvidia_driver import driver_packages
from gpu_stack.components.nvidia_driver import rules as driver_rules
from gpu_stack.host import gpu_models

from .trees import KERNEL

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

import rule_states
from check_states import mutated
from rule_states import JOB, State
from states.rules.nvidia_container_toolkit import docked

GB = 10**9
# The recorded host with docker; of its stack, everything is to come.
GOOD: dict[str, Any] = docked()["found"]
ROW: dict[str, Any] = docked()["row"]
DRIVER: dict[str, Any] = ROW["nvidia_driver"]
RUNFILE_ROW = {
    **ROW,
    "nvidia_driver": {
        "branch": "470",
        "version": "470.256.02",
        "source": "runfile",
        "packages": {"userspace": {}, "kernel": {}, "desktop": {}},
        "runfile": {"url": "https://nvidia.example/x.run", "sha256": "0" * 64},
    },
}
OTHER = {"run": "a1", "who": "ada", "host": "ctrl1", "pid": 4711, "started": "2026-11-21 14:03 UTC"}
CHANGES = [
    change("nvidia_driver", "libcuda1", None, "470.256.02-2", "missing"),
    change("cuda", "libcudart11.0", None, "11.2", "missing"),
    change("cudnn", "cudnn", None, "8.1.0.77 for CUDA 11.2", "missing"),
    change("tensorflow", "venv", None, "2.9.3", "missing"),
    change("gpu_env", "~ada/.bashrc", None, "as wished", "it was asked for"),
    change("nvidia_container_toolkit", "nvidia-container-toolkit", None, "1.20.1-1", "missing"),
    change("gpu_workspace", "workspace ada", None, "as wished", "wished for, and missing"),
    change("gpu_front_door", "front door gpu01", None, "as wished", "wished for, and missing"),
]
SHELL = {"user": "bob", "at": "pts/3", "from": "192.0.2.7", "idle": 7300}


def held(version: str) -> dict[str, Any]:
    return {
        "libcuda1": {"version": version, "want": "hold", "status": "installed"},
    }


RULES = {rule.id: rule for rule in preflight.RULES}


def test_ports_are_named_in_one_order() -> None:
    ports = {"443": ["apache2"], "80": ["caddy"], "8080": ["x"]}
    facts = {**GOOD, "preflight": {"front_door": {"ports": ports, "sites": []}}}
    changed = [change for change in CHANGES if change["component"] == "gpu_front_door"]
    order = [
        blocker["message"].split()[1] for blocker in preflight.blockers(facts, changed, {}, ROW)
    ]
    assert order == ["80", "443", "8080"]


def test_people_are_named_in_one_order() -> None:
    people = [
        {"name": name, "gpus": [7], "shared": True, "port": port}
        for name, port in (("eve", 8801), ("bob", 8802))
    ]
    changed = [change for change in CHANGES if change["component"] == "gpu_workspace"]
    arguments = ({**GOOD, "gpus": []}, changed, {"gpu_workspaces": people}, ROW)
    order = [blocker["message"].split()[0] for blocker in preflight.blockers(*arguments)]
    assert order == ["bob", "eve"]


def reasons(
    case: dict[str, Any], changes: list[dict[str, Any]] = CHANGES
) -> dict[str, dict[str, Any]]:
    """{rule id: reason} of blockers and warnings for GOOD with the case's differences."""
    facts = copy.deepcopy(GOOD)
    for path, value in case.items():
        if path in ("options", "row"):
            continue
        *parents, last = path.split(".")
        here = facts
        for name in parents:
            here = here[name]
        here[last] = value
    arguments = (facts, changes, case.get("options", {}), case.get("row", ROW))
    return {
        blocker["id"]: blocker
        for blocker in preflight.blockers(*arguments) + preflight.warnings(*arguments)
    }


def everything(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The host's own plan, and a change of each component that its stack has."""
    here = data["found"]["state"]
    return rule_states.plan_of(data, None) + [
        change for change in CHANGES if change["component"] in here
    ]


def of_state(
    state: State, plan: Callable[[dict[str, Any]], list[dict[str, Any]]] = everything
) -> dict[str, dict[str, Any]]:
    """{rule id: reason} for a state of the mutants."""
    data = mutated(state.base(), state.changes)
    arguments = (data["found"], plan(data), data["options"], data["row"])
    return {
        blocker["id"]: blocker
        for blocker in preflight.blockers(*arguments) + preflight.warnings(*arguments)
    }


def test_before_anything_was_looked_at_each_rule_has_an_answer() -> None:
    """A plan is made a first time without the preflight's facts; it was a KeyError of a rule's."""
    for state in rule_states.states():
        data = mutated(state.base(), state.changes)
        data["found"]["preflight"] = {}
        plan = rule_states.plan_of(data, state.only)
        arguments = (data["found"], plan, data["options"], data["row"])
        tripped = {reason["id"] for reason in preflight.blockers(*arguments)}
        assert "serving-docker" not in tripped, state
        preflight.warnings(*arguments)


def tripping(rule: str) -> list[State]:
    return [state for state in rule_states.states() if state.rule == rule and state.trips]


def quiet(rule: str) -> list[State]:
    """Those that are quiet whatever else is changed on the host."""
    whatever = (None, (RULES[rule].component,))
    found = [state for state in rule_states.states() if state.rule == rule and not state.trips]
    return [rule for rule in found if rule.only in whatever]


def test_every_rule_has_both_cases() -> None:
    assert all(tripping(rule) and quiet(rule) for rule in RULES)
    assert len(RULES) == len(preflight.RULES)


def test_a_good_host_has_no_reason() -> None:
    assert reasons({}) == {}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_rule_trips(rule: str) -> None:
    """Its own reason, and a message and a way out that say something."""
    for state in tripping(rule):
        tripped = of_state(state)
        if rule not in tripped:  # what another component changes as well clears it
            tripped = of_state(state, functools.partial(rule_states.plan_of, only=state.only))
        assert rule in tripped, state.fact
        assert len(tripped[rule]["message"]) > 20
        assert tripped[rule]["hint"]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_rule_keeps_quiet(rule: str) -> None:
    for state in quiet(rule):
        assert rule not in of_state(state), state.fact


OF_A_COMPONENT = [n for n, rule in RULES.items() if rule.component not in (None, preflight.WORK)]


@pytest.mark.parametrize("rule", sorted(OF_A_COMPONENT))
def test_a_rule_of_a_component_that_does_not_change_keeps_quiet(rule: str) -> None:
    def others(data: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            change for change in everything(data) if change["component"] != RULES[rule].component
        ]

    for state in tripping(rule):
        assert rule not in of_state(state, others), state.fact


@pytest.mark.parametrize("rule", sorted(RULES))
def test_for_a_proof_alone_nobody_else_may_be_at_work_and_no_more(rule: str) -> None:
    owed = [change("receipt", "proof", "unfinished", "proven", "the last run did not finish")]
    expected = {rule} if RULES[rule].component == preflight.WORK else set()
    for state in tripping(rule):
        assert set(of_state(state, lambda _data: owed)) == expected, state.fact


def test_who_is_at_work_is_named_with_the_way_out() -> None:
    reason = reasons({"preflight.running": {**OTHER, "holder": 812}})["run-in-progress"]
    assert reason["message"] == (
        "another run is at work on this host: ada on ctrl1 (pid 4711) since 2026-11-21 14:03 UTC"
    )
    assert "end process 812 on this host" in reason["hint"]
    # Between taking the lock and writing its name there is a moment.
    assert "somebody" in reasons({"preflight.running": {}})["run-in-progress"]["message"]


def test_an_interrupted_dpkg_is_finished_by_those_who_say_so() -> None:
    case = {"preflight.unfinished": [["postfix", "half-configured"]]}
    assert "dpkg-interrupted" in reasons(case)
    only = [change for change in CHANGES if change["component"] == "tensorflow"]
    assert "dpkg-interrupted" not in reasons(case, only)


def test_a_dependency_that_our_own_run_left_half_installed_is_no_reason_to_stop() -> None:
    """gcc-10 is none of the lock's packages, and CUDA's toolkit brings it."""
    half = {"preflight.unfinished": [["gcc-10", "half-installed"]]}
    assert "dpkg-broken" in reasons(half)
    assert "dpkg-broken" not in reasons({**half, "unfinished": True})
    assert "dpkg-broken" not in reasons({**half, "preflight.dpkg_at_work": True})


@pytest.mark.parametrize("rule", sorted(RULES))
def test_nothing_to_change_is_no_reason_to_stop(rule: str) -> None:
    for state in tripping(rule):
        assert of_state(state, lambda _data: []) == {}, state.fact


def test_all_reasons_come_at_once() -> None:
    data = rule_states.machine()
    together = {"avx", "secure-boot", "headers", "held", "runfile-driver"}
    for rule in sorted(together):
        mutated(data, tripping(rule)[0].changes)
    assert together <= set(rule_states.reasons(data))


def test_rules_cope_before_the_look_ran() -> None:
    assert reasons({"preflight": {}}) == {}


def test_a_full_boot_is_reported_with_numbers_and_where_nothing_is_rebuilt_not() -> None:
    case = {"preflight.boot": {"free": GB // 20, "needed": GB // 10}}
    message = reasons(case)["boot-full"]["message"]
    assert "50 MB are free where 100 MB are needed" in message
    hold = [change("nvidia_driver", "libcuda1 hold", "not held", "held", "x")]
    assert reasons(case, hold) == {}
    assert "boot-full" not in reasons({"preflight.boot": {"free": GB // 10, "needed": GB // 10}})


def test_another_ways_driver_is_no_reason_to_stop_where_the_run_may_switch() -> None:
    switch = {"options": {"nvidia_driver_switch": "switch"}}
    installer = {"preflight.installer": ["/usr/bin/nvidia-uninstall"]}
    leftovers = {"row": RUNFILE_ROW, "state.nvidia_driver.leftovers": {"libcuda1": "470.256.02-2"}}
    network = {"state.nvidia_driver.method": "network", "state.nvidia_driver.version": "535.104.05"}
    for rule, case in (
        ("runfile-driver", installer), ("packaged-driver", leftovers), ("driver-method", network)
    ):  # fmt: skip
        assert "nvidia_driver_switch: switch" in reasons(case)[rule]["hint"]
        assert rule not in reasons({**case, **switch})
    # Its own .run file is no other way's.
    assert "runfile-driver" not in reasons({**installer, "row": RUNFILE_ROW})
    # Nothing is installed any more: there is nothing to switch.
    gone = {"state.nvidia_driver.method": "network", "state.nvidia_driver.version": None}
    assert "driver-method" not in reasons(gone)
    gone = {**gone, "state.nvidia_driver.leftovers": {"nvidia-utils-535": "535.104.05-0ubuntu1"}}
    assert "driver-method" in reasons(gone)


def test_what_the_plan_removes_is_no_foreign_driver() -> None:
    case = {"preflight.foreign": ["libnvidia-compute-535-server"]}
    away = change("nvidia_driver", "libnvidia-compute-535-server", "535.1", None, "another branch")
    assert "foreign-driver" in reasons(case)
    assert "foreign-driver" not in reasons(case, [*CHANGES, away])


def test_a_branch_that_is_removed_or_a_run_file_waits_for_gpu_processes() -> None:
    case = {"preflight.processes": [JOB], "row": RUNFILE_ROW}
    for item, new in ((nvidia_driver.RUNFILE_ITEM, "470.256.02"), ("nvidia-utils-535", None)):
        only = [change("nvidia_driver", item, "535.104.05", new, "x")]
        assert "gpu-processes" in reasons(case, only)


def test_modules_that_canonical_signed_need_no_key_of_ones_own() -> None:
    kernel = {"linux-modules-nvidia-470-server-generic": "5.4.0-216.236"}
    signed = {**ROW, "nvidia_driver": {**DRIVER, "packages": {"userspace": {}, "kernel": kernel}}}
    assert "secure-boot" in reasons({"preflight.secure_boot": True})
    assert "secure-boot" not in reasons({"preflight.secure_boot": True, "row": signed})


def test_what_builds_a_module_is_not_missed_where_it_comes_built() -> None:
    kernel = {"linux-modules-nvidia-470-server-generic": "5.4.0-216.236"}
    signed = {**ROW, "nvidia_driver": {**DRIVER, "packages": {"userspace": {}, "kernel": kernel}}}
    absent = {"preflight.headers": {KERNEL: "absent"}}
    other = {"preflight.compilers": {"kernel": 12, "installed": [11], "default": 11}}
    for rule, case in (("headers", absent), ("kernel-compiler", other)):
        assert rule in reasons(case)
        assert rule not in reasons({**case, "row": signed})
    ubuntu = {**absent, "platform.distribution": "ubuntu"}
    assert "apt install linux-image-generic" in reasons(ubuntu)["headers"]["hint"]
    assert "apt install linux-image-amd64" in reasons(absent)["headers"]["hint"]


def test_the_run_file_needs_room_where_it_is_unpacked() -> None:
    case = {"preflight.disk": {"/var/tmp": {"free": GB, "device": 3}}}
    assert "disk" not in reasons(case)
    message = reasons({**case, "row": RUNFILE_ROW})["disk"]["message"]
    assert "nvidia_driver in /var/tmp" in message


def test_gpu_processes_are_named() -> None:
    message = reasons({"preflight.processes": [JOB]})["gpu-processes"]["message"]
    assert "pid 4711 of ada: python train.py" in message


def test_a_missing_hold_may_be_put_right_under_a_job() -> None:
    hold = [change("nvidia_driver", "libcuda1 hold", "not held", "held", "x")]
    assert reasons({"preflight.processes": [JOB]}, hold) == {}
    reboot = [change("nvidia_driver", "running driver", "nouveau", "470", "x", reboot=True)]
    assert reasons({"preflight.processes": [JOB]}, reboot) == {}
    case = {"preflight.processes": [JOB], "options": {"nvidia_driver_reboot": True}}
    assert "gpu-processes" in reasons(case, reboot)


def test_room_is_added_up_per_file_system() -> None:
    """6 GB would do for each of the two, not for both on one disk."""
    rooms = {
        "/usr": {"free": 7 * GB, "device": 1},
        "/opt/tensorflow": {"free": 7 * GB, "device": 1},
    }
    assert "disk" not in reasons({"preflight.disk": rooms})
    for room in rooms.values():
        room["free"] = 6 * GB
    assert "disk" in reasons({"preflight.disk": rooms})
    runtime = {"preflight.disk": rooms, "options": {"cuda_profile": "runtime"}}
    assert "disk" not in reasons(runtime)
    rooms["/opt/tensorflow"]["device"] = 2
    assert "disk" not in reasons({"preflight.disk": rooms})


def test_local_connection_cannot_reboot_whatever_is_allowed() -> None:
    case = {
        "state.nvidia_driver.nouveau_loaded": True,
        "options": {"nvidia_driver_reboot": True, "ansible_connection": "local"},
    }
    assert "nouveau" in reasons(case)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("0x102d", "Kepler"),
        ("0x13c2", "Maxwell"),
        ("0x17fd", "Maxwell"),
        ("0x15f8", "Pascal"),
        ("0x1b06", "Pascal"),
        ("0x1db4", "Volta"),
        ("0x1eb8", "Turing"),
        ("0x2182", "Turing"),
        ("0x20b5", "Ampere"),
        ("0x2204", "Ampere"),
        ("0x2484", "Ampere"),
        ("0x2684", "Ada"),
        ("0x2330", "Hopper"),
        ("0x2901", "Blackwell"),
        ("0x2b85", "Blackwell"),
        ("0x3182", "Blackwell"),
        ("0x0020", None),
        ("", None),
    ],
)
def test_generation_of_a_known_card(device: str, name: str | None) -> None:
    """K80, GTX 970, M40, P100, 1080 Ti, V100, T4, 1660 Ti, A100, 3090, 3070, 4090, H100, B200..."""
    assert gpu_models.generation(device) == name


def test_generations_do_not_overlap() -> None:
    ranges = sorted(gpu_models.GENERATIONS)
    assert all(ranges[i][1] < ranges[i + 1][0] for i in range(len(ranges) - 1))
    assert {name for _f, _l, name in ranges} == set(driver_rules.DRIVER_BRANCHES)


@pytest.mark.parametrize(("branch", "blocked"), [("470", False), ("535", True)])
def test_kepler_ends_with_470(branch: str, blocked: bool) -> None:
    row = {**ROW, "nvidia_driver": {**DRIVER, "branch": branch}}
    assert ("gpu-driver-window" in reasons({"gpus": [{"device": "0x102d"}], "row": row})) is blocked


def test_the_held_rule_speaks_of_the_scopes_packages_only() -> None:
    """In a container somebody's held kernel package is not in the way."""
    assert "nvidia-kernel-dkms" not in driver_packages.wanted_packages(DRIVER, "userspace", {})


RUNNING = change("nvidia_driver", "running driver", "460", "470", "another module", reboot=True)
PINNED = change("nvidia_driver", "/etc/apt/preferences.d/x", None, "as written", "no pin")
PACKAGE = change("nvidia_driver", "libcuda1", "460", "470", "another version")
NAMESAKE = change("cuda", "libcuda1", None, "470", "missing")


@pytest.mark.parametrize(
    ("changes", "allowed", "loaded", "asked"),
    [
        ([RUNNING], True, "460", {"maintenance-window", "logged-in"}),
        ([RUNNING], False, "460", set()),
        ([PACKAGE], True, None, {"maintenance-window"}),
        ([PACKAGE], False, "460", {"maintenance-window", "logged-in"}),
        ([PINNED], True, "460", set()),
        ([PINNED, NAMESAKE], True, "460", set()),
    ],
)
def test_people_and_the_clock_are_asked_before_what_disturbs(
    changes: list[dict[str, Any]], allowed: bool, loaded: str | None, asked: set[str]
) -> None:
    """Packages of the driver, and a reboot that this run would do; a pin disturbs nobody."""
    options = {"gpu_maintenance_window": "Mon 08:00-09:00", "nvidia_driver_reboot": allowed}
    case = {
        "preflight.users": [SHELL],
        "state.nvidia_driver.loaded": loaded,
        "options": options,
    }
    assert set(reasons(case, changes)) == asked


def test_before_the_look_no_window_is_closed() -> None:
    facts = {**copy.deepcopy(GOOD), "preflight": {}}
    options = {"gpu_maintenance_window": "Mon 08:00-09:00"}
    assert preflight.blockers(facts, CHANGES, options, ROW) == []


def test_the_rules_come_in_their_order_and_new_ones_last() -> None:
    first = len(preflight.ORDER)
    assert [rule.id for rule in preflight.RULES[:first]] == list(preflight.ORDER)
    # Slurm's come last, those about a driver under its jobs among them.
    # So does TensorFlow's about models that another release serves.
    later = ("slurm", "serving-image")
    others = [
        rule
        for rule in preflight.RULES[first:]
        if rule.component and not any(word in rule.id for word in later)
    ]
    places = [NAMES.index(rule.component) for rule in others]
    assert others
    assert places == sorted(places)
    other = preflight.RULES[0]._replace(id="another")
    assert preflight._place(other) == len(preflight.ORDER)
