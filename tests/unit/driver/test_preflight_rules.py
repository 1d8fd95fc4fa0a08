"""The edges of preflight's rules."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_stack import preflight, room, rules
from gpu_stack.change import change
from gpu_stack.components import gpu_env
from gpu_stack.components.cudnn import rules as cudnn_rules
from gpu_stack.components.gpu_env import rules as env_rules
from gpu_stack.components.gpu_front_door import rules as front_door_rules
from gpu_stack.components.gpu_serving import rules as serving_rules
from gpu_stack.components.gpu_workspace import rules as workspace_rules
from gpu_stack.host import other_sources

from .test_preflight import CHANGES, GB, GOOD, JOB, ROW, held, reasons, rule_states
from .trees import KERNEL

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

from states.rules.gpu_serving import serving_before
from states.rules.gpu_workspace import shared


def test_reasons_are_reported_in_the_order_of_generations() -> None:
    """Two cards that are too new, and the same one twice."""
    gpus = [{"device": "0x2b85"}, {"device": "0x2684"}, {"device": "0x2684"}]
    arguments = (copy.deepcopy(GOOD) | {"gpus": gpus}, CHANGES, {}, ROW)
    reasons = [
        blocker
        for blocker in preflight.blockers(*arguments)
        if blocker["id"] == "gpu-driver-window"
    ]
    assert [reason["message"].split()[1] for reason in reasons] == ["Ada", "Blackwell"]


def test_a_branch_may_have_more_numbers() -> None:
    row = {**ROW, "nvidia_driver": {**ROW["nvidia_driver"], "branch": "470.256"}}
    assert reasons({"row": row}) == {}
    row = {**ROW, "nvidia_driver": {**ROW["nvidia_driver"], "branch": 390}}
    assert "gpu-driver-window" in reasons({"row": row})


def test_a_candidate_of_a_release_is_of_that_release() -> None:
    case = {"gpus": [{"device": "0x2330"}], "row": {**ROW, "tensorflow": {"version": "2.16.0rc1"}}}
    assert "gpu-translated" not in reasons(case)


def test_kernels_without_headers_are_reported_in_order() -> None:
    facts = copy.deepcopy(GOOD)
    names = [f"5.10.0-{number}-amd64" for number in (13, 11, 14, 12)]
    facts["preflight"]["headers"] = dict.fromkeys(names, "absent")
    kernels = [
        blocker["message"].split()[4] for blocker in preflight.blockers(facts, CHANGES, {}, ROW)
    ]
    assert kernels == sorted(names)


SIGNED = {"userspace": {}, "kernel": {"linux-modules-nvidia-470-server-generic": "1"}}
SIGNED_ROW = {**ROW, "nvidia_driver": {**ROW["nvidia_driver"], "packages": SIGNED}}
# In the order in which a host's kernels are looked at.
NEWEST, RUNNING = "5.10.0-47-amd64", KERNEL


def test_kernels_without_a_signed_module_are_reported_in_order() -> None:
    facts = copy.deepcopy(GOOD)
    facts["preflight"]["offered_modules"] = dict.fromkeys((NEWEST, RUNNING), "absent")
    blockers = preflight.blockers(facts, CHANGES, {}, SIGNED_ROW)
    kernels = [blocker["message"].split()[-1] for blocker in blockers]
    assert kernels == [RUNNING, NEWEST]


def test_kernels_that_refuse_a_signed_module_are_reported_in_order() -> None:
    facts, kernels = copy.deepcopy(GOOD), (NEWEST, RUNNING)
    version = ROW["nvidia_driver"]["version"]
    facts["state"]["nvidia_driver"].update(
        modules=dict.fromkeys(kernels, version), signatures=dict.fromkeys(kernels, "unsigned")
    )
    facts["preflight"].update(secure_boot=True, module_signers={kernel: {} for kernel in kernels})
    blockers = preflight.blockers(facts, CHANGES, {}, SIGNED_ROW)
    refused = [blocker["message"].partition("kernel ")[2].split()[0] for blocker in blockers]
    assert refused == [RUNNING, NEWEST]


def test_both_programs_of_a_run_file_are_named() -> None:
    both = ["/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer"]
    message = reasons({"preflight.installer": both})["runfile-driver"]["message"]
    assert "(/usr/bin/nvidia-uninstall, /usr/bin/nvidia-installer)" in message


def test_cudas_profile_changes_nothing_for_the_driver() -> None:
    """Runtime needs more room in /usr than the driver: a disk for the driver will do."""
    rooms = {"/usr": {"free": room.NEEDS["nvidia_driver"]["/usr"], "device": 1}}
    case = {"preflight.disk": rooms, "options": {"cuda_profile": "runtime"}}
    driver = [change for change in CHANGES if change["component"] == "nvidia_driver"]
    assert reasons(case, driver) == {}


def test_full_disks_are_reported_each_in_order() -> None:
    rooms = {
        "/usr": {"free": 1, "device": 9},
        "/opt/tensorflow": {"free": 2 * GB, "device": 3},
        "/var/cache/apt": {"free": 50 * GB, "device": 4},
    }
    arguments = (copy.deepcopy(GOOD), CHANGES, {}, ROW)
    arguments[0]["preflight"]["disk"] = rooms
    messages = [blocker["message"] for blocker in preflight.blockers(*arguments)]
    assert [message.split("(")[1] for message in messages] == [
        "tensorflow in /opt/tensorflow)",
        "cuda in /usr, nvidia_driver in /usr)",
    ]
    assert "2.0 GB are free where 2.7 GB are needed" in messages[0]
    assert "0.0 GB are free where 4.3 GB are needed" in messages[1]


def test_a_component_of_which_nothing_is_known_needs_its_room() -> None:
    """And one that installs nothing needs none."""
    facts = copy.deepcopy(GOOD)
    facts["preflight"]["disk"] = {"/usr": {"free": 1, "device": 1}}
    del facts["state"]["cuda"]
    cuda = [change for change in CHANGES if change["component"] == "cuda"]
    assert [blocker["id"] for blocker in preflight.blockers(facts, cuda, {}, ROW)] == ["disk"]
    other = [change("gpu_env", "/etc/environment", None, "x", "y")]
    assert preflight.blockers(facts, other, {}, ROW) == []


def test_a_reboot_that_is_not_allowed_disturbs_no_job() -> None:
    """Nor does one that is owed by another component."""
    case = {"preflight.processes": [JOB], "options": {"nvidia_driver_reboot": True}}
    other = [change("cuda", "libcudart11.0", None, "x", "y", reboot=True)]
    assert reasons(case, other) == {}
    hold = change("nvidia_driver", "libcuda1 hold", "not held", "held", "x")
    assert reasons(case, [hold]) == {}
    assert reasons(case, [hold, *other]) == {}
    package = [change("nvidia_driver", "nvidia-driver", None, "470.256.02-2", "x")]
    assert "gpu-processes" in reasons({"preflight.processes": [JOB]}, package)


def test_one_change_that_reboots_is_enough_to_disturb_a_job() -> None:
    case = {"preflight.processes": [JOB], "options": {"nvidia_driver_reboot": True}}
    hold = change("nvidia_driver", "libcuda1 hold", "not held", "held", "x")
    module = change("nvidia_driver", "module in the kernel", "a", "b", "x", reboot=True)
    assert "gpu-processes" in reasons(case, [hold, module])


@pytest.mark.parametrize(
    ("item", "to", "disturbs"),
    [
        ("nvidia-driver-535", None, True),
        ("nvidia-driver-535", "535.1", False),
        ("/etc/modprobe.d/x.conf", None, False),
        ("driver (.run)", "470.256.02", True),
        ("libcuda1", "470.256.02-2", True),
    ],
)
def test_a_driver_that_goes_is_changed_under_its_jobs(
    item: str, to: str | None, disturbs: bool
) -> None:
    changes = [change("nvidia_driver", item, "1", to, "x")]
    assert ("gpu-processes" in reasons({"preflight.processes": [JOB]}, changes)) is disturbs
    other = [change("cuda", item, "1", to, "x")]
    assert "gpu-processes" not in reasons({"preflight.processes": [JOB]}, other)


def test_a_driver_that_the_plan_removes_is_no_foreign_one() -> None:
    case = {"preflight.foreign": ["nvidia-driver-535"]}
    gone = change("nvidia_driver", "nvidia-driver-535", "535", None, "x")
    moved = change("nvidia_driver", "nvidia-driver-535", "535", "535.1", "x")
    assert "foreign-driver" not in reasons(case, [gone])
    assert "foreign-driver" in reasons(case, [moved])


def test_holds_are_reported_in_order_and_with_the_way_out() -> None:
    versions = {"nvidia-smi": "535", "libcuda1": "535", "nvidia-persistenced": "535"}
    packages = {
        name: {"version": version, "want": "hold", "status": "installed"}
        for name, version in versions.items()
    }
    packages["somebodys"] = packages["libcuda1"]
    reason = reasons({"state.nvidia_driver.packages": packages})["held"]
    assert reason["message"].endswith("libcuda1 535, nvidia-persistenced 535, nvidia-smi 535")
    assert reason["hint"].endswith("apt-mark unhold libcuda1 nvidia-persistenced nvidia-smi")


def test_a_host_whose_driver_was_not_looked_at_has_no_holds() -> None:
    facts = copy.deepcopy(GOOD)
    facts["state"]["nvidia_driver"] = {"kernels": [KERNEL]}
    assert preflight.blockers(facts, CHANGES, {}, ROW) == []
    assert reasons({"state.nvidia_driver.packages": None}) == {}
    assert held("x")


def test_a_strangers_half_package_is_named_beside_ours() -> None:
    case = {"preflight.unfinished": [["libcuda1", "half-installed"], ["b", "half-installed"],
                                     ["a", "unpacked"]]}  # fmt: skip
    facts = copy.deepcopy(GOOD)
    facts["preflight"].update({"unfinished": case["preflight.unfinished"]})
    blockers = preflight.blockers(facts, CHANGES, {}, ROW)
    assert [entry["id"] for entry in blockers] == ["dpkg-broken"]
    assert "the package b in state half-installed" in blockers[0]["message"]


def test_a_lock_without_driver_or_cuda_is_no_fault() -> None:
    """A stack may be TensorFlow alone; what it locks is then nothing of the two."""
    facts = copy.deepcopy(GOOD)
    facts["preflight"].update({"unfinished": [["libcuda1", "half-installed"]]})
    only = [change for change in CHANGES if change["component"] == "tensorflow"]
    row = {"tensorflow": ROW["tensorflow"]}
    blockers = preflight.blockers(facts, only, None, row)
    assert [entry["id"] for entry in blockers] == ["dpkg-broken"]
    row["cuda"] = {}
    assert [blocker["id"] for blocker in preflight.blockers(facts, only, None, row)] == [
        "dpkg-broken"
    ]


def test_a_lock_without_tensorflow_is_no_fault_of_a_model() -> None:
    data = serving_before()
    arguments = (data["found"], [], data["options"], {})
    assert serving_rules.serving_release(*arguments) == []
    assert serving_rules.serving_image_release(*arguments) == []
    (reason,) = serving_rules.serving_tensorrt(
        *arguments[:2],
        {"gpu_servings": [{**data["options"]["gpu_servings"][0], "tensorrt": True}]},
        {},
    )
    assert "it needs TensorRT's libnvinfer, and no lock has it" in reason[0]


def test_a_conflict_of_keys_is_reported_for_every_repository() -> None:
    conflicts = [["https://a", "x", ["/1", "/2"]], ["https://b", "y", ["/3"]]]
    facts = copy.deepcopy(GOOD)
    facts["preflight"]["signed_by"] = conflicts
    blockers = preflight.blockers(facts, CHANGES, {}, ROW)
    assert [reason["message"].split(": ")[1] for reason in blockers] == [
        "https://a x is named with different keys (Signed-By) in /1 and /2",
        "https://b y is named with different keys (Signed-By) in /3",
    ]


@pytest.mark.parametrize(
    ("aside", "expected"),
    [
        ([], ["a", "b", "c"]),
        # What is left of the first agrees with itself; the second is not touched by it.
        (["/1"], ["b", "c"]),
        # Two of the last are left, and they may contradict each other.
        (["/5"], ["a", "b", "c"]),
        (["/4", "/5"], ["a", "b"]),
    ],
)
def test_a_conflict_that_the_run_puts_aside_is_none(aside: list[str], expected: list[str]) -> None:
    facts = copy.deepcopy(GOOD)
    facts["preflight"]["signed_by"] = [
        ["a", "x", ["/1", "/2"]], ["b", "x", ["/3"]], ["c", "x", ["/4", "/5", "/6"]],
    ]  # fmt: skip
    changes = [change("cuda", file, "there", other_sources.ASIDE, "x") for file in aside]
    changes.append(change("cuda", "/2", "there", "written", "x"))
    reasons_told = preflight.blockers(facts, changes, {}, ROW)
    words = [reason["message"].split(": ")[1].split()[0] for reason in reasons_told]
    assert words == expected


@pytest.mark.parametrize(
    ("cuda", "expected"),
    [
        ({"source": "network"}, []),
        ({"source": "local"}, []),
        ({"source": "distribution"}, ["unowned-cuda"]),
        # What of CUDA is there goes, and the stack has none.
        (None, ["unowned-cuda"]),
    ],
)
def test_a_cuda_of_nobody_is_in_nobodys_way_where_the_place_is_nvidias(
    cuda: Any, expected: list[str]
) -> None:
    facts = copy.deepcopy(GOOD)
    facts["preflight"]["usr_local_cuda"] = {"path": "/usr/local/cuda", "named_in": ["/f"]}
    changes = [change("cuda", "libcudart11.0", "11.2", None, "x")]
    row = {**ROW, "cuda": {**(ROW.get("cuda") or {}), **cuda} if cuda else None}
    assert [blocker["id"] for blocker in preflight.blockers(facts, changes, {}, row)] == expected


def test_a_proof_that_is_owed_is_stopped_by_another_run_alone() -> None:
    """Nothing is installed for it: a full disk is not in its way."""
    proof = [change("receipt", "proof", "unfinished", "proven", "x")]
    facts = copy.deepcopy(GOOD)
    facts["preflight"].update({"signed_by": [["u", "s", ["/f"]]], "running": {"who": "a"}})
    (blocker,) = preflight.blockers(facts, proof, {}, ROW)
    assert (blocker["id"], blocker["component"]) == ("run-in-progress", None)


def test_users_of_bash_are_reported_in_order() -> None:
    left = dict.fromkeys(("eve", "bob"), gpu_env.NO_USER)
    left |= dict.fromkeys(("dan", "ada"), "it is not a regular file")
    facts = {"state": {"gpu_env": {"left": left}}}
    ((message, _hint),) = env_rules.bashrc_user(facts, [], {}, ROW)
    assert message.startswith("gpu_env_bashrc_users names bob, eve:")
    people = [message.split("/")[0] for message, _hint in env_rules.bashrc_left(facts, [], {}, ROW)]
    assert people == ["~ada", "~dan"]


@pytest.mark.parametrize("state", [{}, {"gpu_env": {}}, {"gpu_env": {"left": None}}])
def test_a_host_where_nobodys_file_is_left_gives_no_reason(state: dict[str, Any]) -> None:
    assert env_rules.bashrc_user({"state": state}, [], {}, ROW) == []
    assert env_rules.bashrc_left({"state": state}, [], {}, ROW) == []


def test_people_are_reported_in_order_of_their_names() -> None:
    people = (("bob", 8801, "7"), ("ada", 8802, "8"))
    options = {
        "gpu_workspaces": [
            {"name": name, "gpus": "none", "port": port, "user": user}
            for name, port, user in people
        ]
    }
    for rule, key in (
        (workspace_rules.workspace_user, "users"),
        (workspace_rules.workspace_volume, "volumes"),
    ):
        facts: dict[str, Any] = {"preflight": {"workspaces": {key: {"bob": "b", "ada": "a"}}}}
        first, second = (message for message, _hint in rule(facts, [], options, ROW))
        assert "ada" in first
        assert "bob" in second
        for seen in ({}, {key: None}):
            assert rule({"preflight": {"workspaces": seen}}, [], options, ROW) == []


def test_a_workspace_without_a_limit_takes_nothing_from_the_sum_of_the_others() -> None:
    """To the byte: ada alone may use more than this host has."""
    data = shared()
    _ada, bob = data["options"]["gpu_workspaces"]
    del bob["memory"]
    for memory, ids in (((3 << 30) - 1, ["workspace-memory"]), (3 << 30, [])):
        data["found"]["preflight"]["workspaces"]["memory"] = memory
        reasons = rule_states.reasons(data, ("gpu_workspace",))
        assert list(reasons) == ids


def test_terms_are_nobodys_where_no_door_is_wished_for() -> None:
    options = {"gpu_front_door_tls": "acme"}
    assert front_door_rules.front_door_terms({}, [], options, ROW) == []
    options["gpu_front_door_name"] = "gpu01.example.org"
    assert len(front_door_rules.front_door_terms({}, [], options, ROW)) == 1


def test_links_of_cudnn_need_no_archive() -> None:
    options = {"cudnn_archive_absent": "/srv/cudnn.tgz"}
    row = {"cudnn": {"version": "8.1.0.77", "cuda": "11.2", "sha256": "d" * 64}}
    for item, count in (("current", 0), ("8.1.0.77-cuda11.2", 1)):
        changes = [change("cudnn", item, None, "present", "the lock says so")]
        assert len(cudnn_rules.cudnn_archive_absent({}, changes, options, row)) == count


def test_all_reasons_why_a_package_would_go_are_reported() -> None:
    why = ["needs libcublas11", "conflicts with libcuda1"]
    assert rules.some_packages([["solver", "1.0", why], ["tool", "2", []]]) == (
        "solver 1.0 (needs libcublas11; conflicts with libcuda1), tool 2"
    )
