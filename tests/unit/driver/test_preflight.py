"""Preflight: every rule trips on its case and keeps quiet on the neighbouring one."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from gpu_stack import preflight
from gpu_stack.change import change
from gpu_stack.components import NAMES, gpu_env, nvidia_driver
from gpu_stack.components.cuda import rules as cuda_rules
from gpu_stack.components.nvidia_driver import driver_packages, kernel_rules
from gpu_stack.components.nvidia_driver import rules as driver_rules
from gpu_stack.components.tensorflow import rules as tensorflow_rules
from gpu_stack.host import gpu_models, processes
from gpu_stack.host.context import Result

from .trees import DRIVER, KERNEL, ROW, context, places, status, tree

GB = 10**9
DOCKER = {
    "installed": True, "snap": False, "running": True, "owed": False, "runtime": None,
    "fault": None,
}  # fmt: skip
CONTAINERD = {"installed": True, "wanted": True, "fault": None, "loses": None}
CRIO = {"installed": False, "wanted": False, "fault": None, "loses": None}
GOOD: dict[str, Any] = {
    "platform": {"architecture": "x86_64", "distribution": "debian", "release": "11"},
    "container": False,
    "simulated_gpu": False,
    "gpus": [{"device": "0x1eb8"}],
    "receipt": None,
    "state": {
        "nvidia_driver": {
            "version": None,
            "packages": {},
            "pins": None,
            "nouveau_loaded": False,
            "loaded": None,
            "kernels": [KERNEL],
        },
        "cuda": {"version": None},
        "cudnn": {"version": None},
        "nvidia_container_toolkit": {
            "version": None,
            "docker": DOCKER,
            "engine": {"others": [], "stale": []},
            "cdi": {"podman": None},
            "containerd": CONTAINERD,
            "crio": CRIO,
        },
        "tensorflow": {"version": None},
    },
    "preflight": {
        "avx": True,
        "disk": {
            "/usr": {"free": 50 * GB, "device": 1},
            "/opt/tensorflow": {"free": 50 * GB, "device": 1},
        },
        "processes": [],
        "secure_boot": False,
        "module_key": False,
        "headers": {KERNEL: "offered"},
        "compilers": {"kernel": 10, "installed": [10], "default": 10},
        "unfinished": [],
        "foreign": [],
        "signed_by": [],
        "installer": [],
        "usr_local_cuda": None,
        "conda": [],
        "sshd_without_pam": None,
        "trusted_gpg": False,
        "system_tensorflow": [],
        "running": None,
        "users": [],
        "clock": [5, 60],
    },
}
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
    change("nvidia_container_toolkit", "docker daemon", "old", "restarted", "it needs that"),
    change("gpu_workspace", "workspace ada", None, "as wished", "wished for, and missing"),
    change("gpu_front_door", "front door gpu01", None, "as wished", "wished for, and missing"),
]
DOOR = {"ports": {}, "sites": []}
ADA = {"name": "ada", "gpus": [1], "port": 8801, "memory": "2g"}
WORKSPACES = {"docker": True, "ports": [], "memory": 4 << 30, "in_use": {}}
PEOPLE = {"options": {"gpu_workspaces": [ADA]}, "gpus": [{"device": "0x20b0"}] * 2}

SHELL = {"user": "bob", "at": "pts/3", "from": "192.0.2.7", "idle": 7300}
AT_A_LOADED_DRIVER = {"preflight.users": [SHELL], "state.nvidia_driver.loaded": "460.91.03"}
JOB = {"pid": 4711, "user": "ada", "command": "python train.py"}


WITH_CUDNN = {**ROW, "cudnn": {"version": "8.1.0.77", "cuda": "11.2", "sha256": "0" * 64}}


def held(version: str) -> dict[str, Any]:
    return {
        "libcuda1": {"version": version, "want": "hold", "status": "installed"},
    }


# rule id: (what trips it, what is close to it and does not); paths into the found state, "options"
# and "row" beside it.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "run-in-progress": (
        {"preflight.running": OTHER},
        {"preflight.running": {**OTHER, "ended": True, "finishing": "dpkg (pid 12)"}},
    ),
    "run-cut-off": ({"preflight.running": {**OTHER, "silent": True}}, {"preflight.running": OTHER}),
    "avx": ({"preflight.avx": False}, {"preflight.avx": None}),
    "disk": (
        {"preflight.disk": {"/usr": {"free": 3 * GB, "device": 1}}},
        {"preflight.disk": {"/usr": {"free": 3 * GB, "device": 1}}, "state.cuda.version": "11.2.1"},
    ),
    "gpu-processes": (
        {"preflight.processes": [JOB]},
        {"preflight.processes": [JOB], "options": {"nvidia_driver_wait_for_gpu_processes": 60}},
    ),
    "maintenance-window": (
        {"options": {"gpu_maintenance_window": "Sat 22:00-04:00"}},
        {"options": {"gpu_maintenance_window": ["Sat 22:00-04:00", "00:30-01:01"]}},
    ),
    "logged-in": (AT_A_LOADED_DRIVER, {"preflight.users": [SHELL]}),
    "logged-in-told": (
        {**AT_A_LOADED_DRIVER, "options": {"nvidia_driver_logged_in_users": "ignore"}},
        AT_A_LOADED_DRIVER,
    ),
    "boot-full": (
        {"preflight.boot": {"free": GB // 20, "needed": GB // 10}},
        {
            "preflight.boot": {"free": GB // 20, "needed": GB // 10},
            "options": {"nvidia_driver_scope": "userspace"},
        },
    ),
    "gpu-driver-window": ({"gpus": [{"device": "0x2b85"}]}, {"gpus": [{"device": "0x20b0"}]}),
    "gpu-without-code": (
        {"gpus": [{"device": "0x2b85"}]},
        {"gpus": [{"device": "0x2b85"}], "row": {**ROW, "tensorflow": {"version": "2.22.0"}}},
    ),
    "gpu-translated": (
        {"gpus": [{"device": "0x2330"}]},
        {"gpus": [{"device": "0x2330"}], "row": {**ROW, "tensorflow": {"version": "2.12.1"}}},
    ),
    "secure-boot": (
        {"preflight.secure_boot": True},
        {"preflight.secure_boot": True, "options": {"nvidia_driver_scope": "userspace"}},
    ),
    "nouveau": (
        {"state.nvidia_driver.nouveau_loaded": True},
        {
            "state.nvidia_driver.nouveau_loaded": True,
            "options": {"nvidia_driver_reboot": True},
        },
    ),
    "rebooted-in-vain": (
        {"state.nvidia_driver.reboot_in_vain": "nouveau is loaded"},
        {"state.nvidia_driver.reboot_in_vain": ""},
    ),
    "headers": (
        {"preflight.headers": {KERNEL: "absent"}},
        {"preflight.headers": {KERNEL: "unknown"}},
    ),
    "no-kernel": (
        {"state.nvidia_driver.kernels": []},
        {"state.nvidia_driver.kernels": [], "container": True},
    ),
    "kernel-compiler": (
        {"preflight.compilers": {"kernel": 12, "installed": [11], "default": 11}},
        {"preflight.compilers": {"kernel": 12, "installed": [11, 12], "default": 11}},
    ),
    "dpkg-broken": (
        {"preflight.unfinished": [["postfix", "half-installed"]]},
        {"preflight.unfinished": [["libcuda1", "half-installed"]]},
    ),
    "dpkg-interrupted": (
        {"preflight.unfinished": [["postfix", "half-configured"]]},
        {"preflight.unfinished": []},
    ),
    "held": (
        {"state.nvidia_driver.packages": held("535.309.01-0+deb11u1")},
        {
            "state.nvidia_driver.packages": held("535.309.01-0+deb11u1"),
            "state.nvidia_driver.pins": "ours",
        },
    ),
    "unplanned-removal": (
        {"preflight.transaction": {"removed": [["solver", "1.0", []]], "held": []}},
        {"preflight.transaction": {"removed": [], "held": []}},
    ),
    "foreign-driver": (
        {"preflight.foreign": ["nvidia-tesla-470-driver"]},
        {"preflight.foreign": ["nvidia-smi"]},
    ),
    "signed-by": (
        {"preflight.signed_by": [["https://x/debian", "bullseye", ["/a.list", "/b.list"]]]},
        {"preflight.signed_by": []},
    ),
    "runfile-driver": (
        {"preflight.installer": ["/usr/bin/nvidia-uninstall"]},
        {"preflight.installer": []},
    ),
    "packaged-driver": (
        {"row": RUNFILE_ROW, "state.nvidia_driver.leftovers": {"libcuda1": "470.256.02-2"}},
        {
            "row": RUNFILE_ROW,
            "state.nvidia_driver.leftovers": {"libcuda1": "470.256.02-2"},
            "options": {"nvidia_driver_switch": "switch"},
        },
    ),
    "driver-method": (
        {"state.nvidia_driver.method": "network", "state.nvidia_driver.version": "535.104.05"},
        {
            "state.nvidia_driver.method": "distribution",
            "state.nvidia_driver.version": "535.104.05",
        },
    ),
    "unowned-cuda": (
        {
            "preflight.usr_local_cuda": {
                "path": "/usr/local/cuda-10.1",
                "named_in": ["/etc/profile.d/cuda.sh"],
            }
        },
        {"preflight.usr_local_cuda": {"path": "/usr/local/cuda-10.1", "named_in": []}},
    ),
    "conda": ({"preflight.conda": ["/root/.bashrc"]}, {"preflight.conda": []}),
    "cudnn-archive": (
        {"options": {"cudnn_archive_absent": "/srv/cudnn.tgz"}, "row": WITH_CUDNN},
        {"options": {"cudnn_archive_absent": ""}, "row": WITH_CUDNN},
    ),
    "sshd-pam": ({"preflight.sshd_without_pam": "/x"}, {"preflight.sshd_without_pam": None}),
    "trusted-gpg": ({"preflight.trusted_gpg": True}, {"preflight.trusted_gpg": False}),
    "system-tensorflow": (
        {"preflight.system_tensorflow": ["2.9.1 in /x"]},
        {"preflight.system_tensorflow": []},
    ),
    "driver-hangs": (
        {"preflight.driver_hangs": "nvidia-smi did not answer within 120 s"},
        {"preflight.driver_hangs": None},
    ),
    "bashrc-user": (
        {"state.gpu_env": {"left": {"ada": gpu_env.NO_USER}}},
        {"state.gpu_env": {"left": {"ada": "it is not a regular file"}}},
    ),
    "bashrc-left": (
        {"state.gpu_env": {"left": {"ada": "it is not a regular file"}}},
        {"state.gpu_env": {"left": {"ada": gpu_env.NO_USER}}},
    ),
    "docker-config": (
        {"state.nvidia_container_toolkit.docker": {**DOCKER, "fault": "not JSON: line 3"}},
        {
            "state.nvidia_container_toolkit.docker": {**DOCKER, "fault": "not JSON: line 3"},
            "options": {"nvidia_container_toolkit_docker": "none"},
        },
    ),
    "docker-missing": (
        {
            "state.nvidia_container_toolkit.docker": {**DOCKER, "installed": False, "snap": True},
            "options": {"nvidia_container_toolkit_docker": "required"},
        },
        {"state.nvidia_container_toolkit.docker": {**DOCKER, "installed": False}},
    ),
    "docker-other": (
        {
            "state.nvidia_container_toolkit.engine": {"others": ["docker.io", "runc"]},
            "options": {"nvidia_container_toolkit_docker_engine": "docker-ce"},
        },
        {"state.nvidia_container_toolkit.engine": {"others": ["docker.io", "runc"]}},
    ),
    "docker-snap": (
        {"state.nvidia_container_toolkit.docker": {**DOCKER, "snap": True}},
        {
            "state.nvidia_container_toolkit.docker": {**DOCKER, "snap": True},
            "options": {"nvidia_container_toolkit_docker": "none"},
        },
    ),
    "docker-containers": (
        {"preflight.docker": {"count": 2, "live_restore": False}},
        {"preflight.docker": {"count": 2, "live_restore": True}},
    ),
    "containerd-config": (
        {"state.nvidia_container_toolkit.containerd": {**CONTAINERD, "fault": "version 1"}},
        {
            "state.nvidia_container_toolkit.containerd": {
                **CONTAINERD,
                "wanted": False,
                "fault": "version 1",
            }
        },
    ),
    "containerd-containers": (
        {"state.nvidia_container_toolkit.containerd": {**CONTAINERD, "loses": "KillMode"}},
        {
            "state.nvidia_container_toolkit.containerd": {
                **CONTAINERD,
                "wanted": False,
                "loses": "KillMode",
            }
        },
    ),
    "crio-config": (
        {"options": {"nvidia_container_toolkit_crio": "required"}},
        {"options": {"nvidia_container_toolkit_crio": "auto"}},
    ),
    "crio-containers": (
        {"state.nvidia_container_toolkit.crio": {**CRIO, "wanted": True, "loses": "conmon"}},
        {"state.nvidia_container_toolkit.crio": {**CRIO, "loses": "conmon"}},
    ),
    "podman-too-old": (
        {
            "state.nvidia_container_toolkit.cdi": {"podman": "3.0.1"},
            "options": {"nvidia_container_toolkit_cdi": "required"},
        },
        {"state.nvidia_container_toolkit.cdi": {"podman": "3.0.1"}},
    ),
}
CASES.update(
    {
        "workspace-docker": (
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "docker": False}},
            {"preflight.workspaces": {**WORKSPACES, "docker": False}},
        ),
        "workspace-port": (
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "ports": [8801]}},
            {**PEOPLE, "preflight.workspaces": WORKSPACES},
        ),
        "workspace-user": (
            {
                "options": {"gpu_workspaces": [{**ADA, "user": "1000:1000"}]},
                "gpus": PEOPLE["gpus"],
                "preflight.workspaces": {**WORKSPACES, "users": {"ada": "is alice"}},
            },
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "users": {}}},
        ),
        "workspace-root": (
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "root": "/srv holds more"}},
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "root": None}},
        ),
        "workspace-volume": (
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "volumes": {"ada": "/tmp/x: ..."}}},
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "volumes": {}}},
        ),
        "workspace-gpu": ({**PEOPLE, "gpus": [{"device": "0x20b0"}]}, PEOPLE),
        "workspace-memory": (
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "memory": (2 << 30) - 1}},
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "memory": 2 << 30}},
        ),
        "workspace-in-use": (
            {**PEOPLE, "preflight.workspaces": {**WORKSPACES, "in_use": {"ada": 2}}},
            {
                "gpus": PEOPLE["gpus"],
                "options": {**PEOPLE["options"], "gpu_workspace_in_use": "stop"},
                "preflight.workspaces": {**WORKSPACES, "in_use": {"ada": 2}},
            },
        ),
    }
)
BY_ACME = {
    "gpu_front_door_name": "gpu01",
    "gpu_front_door_tls": "acme",
    "gpu_workspaces": [{"name": "ada", "gpus": "none"}],
}
CASES.update(
    {
        "front-door-port": (
            {"preflight.front_door": {**DOOR, "ports": {"443": ["apache2"]}}},
            {"preflight.front_door": DOOR},
        ),
        "front-door-site": (
            {"preflight.front_door": {**DOOR, "sites": ["/etc/nginx/conf.d/a has the name"]}},
            {"preflight.front_door": DOOR},
        ),
        "front-door-nobody": (
            {"options": {"gpu_front_door_name": "gpu01", "gpu_workspaces": []}},
            {"options": {"gpu_front_door_name": "", "gpu_workspaces": []}},
        ),
        "front-door-terms": (
            {"options": {**BY_ACME, "gpu_front_door_acme_agree": False}},
            {"options": {**BY_ACME, "gpu_front_door_acme_agree": True}},
        ),
    }
)
VENVS = {"2.9.3-x": {"kind": "anew", "more": ["pandas 2.0.3"], "using": [], "kept": "/opt/x.save"}}
USED = {
    "2.9.3-x": {
        **VENVS["2.9.3-x"],
        "more": [],
        "using": [{"pid": 7, "user": "ada", "command": "x"}],
    }
}
CASES.update(
    {
        "venv-parents": (
            {
                "state.tensorflow": {
                    "version": None,
                    "root": {"parents": "/opt is writable for all"},
                }
            },
            {"state.tensorflow": {"version": None, "root": {"parents": None}}},
        ),
        "venv-in-use": ({"preflight.venvs": USED}, {"preflight.venvs": VENVS}),
        "venv-kept": ({"preflight.venvs": VENVS}, {"preflight.venvs": USED}),
    }
)
RULES = {rule.id: rule for rule in preflight.RULES}


def test_ports_are_named_in_one_order() -> None:
    ports = {"443": ["apache2"], "80": ["caddy"], "8080": ["x"]}
    found = {**GOOD, "preflight": {**GOOD["preflight"], "front_door": {**DOOR, "ports": ports}}}
    changed = [one for one in CHANGES if one["component"] == "gpu_front_door"]
    told = [one["message"].split()[1] for one in preflight.blockers(found, changed, {}, ROW)]
    assert told == ["80", "443", "8080"]


def test_people_are_named_in_one_order() -> None:
    people = [{**ADA, "name": name, "gpus": [7]} for name in ("eve", "bob")]
    changed = [one for one in CHANGES if one["component"] == "gpu_workspace"]
    arguments = ({**GOOD, "gpus": []}, changed, {"gpu_workspaces": people}, ROW)
    told = [one["message"].split()[0] for one in preflight.blockers(*arguments)]
    assert told == ["bob", "eve"]


def reasons(
    case: dict[str, Any], changes: list[dict[str, Any]] = CHANGES
) -> dict[str, dict[str, Any]]:
    """{rule id: reason} of blockers and warnings for GOOD with the case's differences."""
    found = copy.deepcopy(GOOD)
    for path, value in case.items():
        if path in ("options", "row"):
            continue
        *parents, last = path.split(".")
        here = found
        for name in parents:
            here = here[name]
        here[last] = value
    arguments = (found, changes, case.get("options", {}), case.get("row", ROW))
    return {
        one["id"]: one for one in preflight.blockers(*arguments) + preflight.warnings(*arguments)
    }


def test_every_rule_has_both_cases() -> None:
    assert set(CASES) == set(RULES)
    assert len(RULES) == len(preflight.RULES)


def test_a_good_host_has_no_reason() -> None:
    assert reasons({}) == {}


@pytest.mark.parametrize("rule", sorted(CASES))
def test_the_rule_trips(rule: str) -> None:
    """Its own reason, and a message and a way out that say something."""
    found = reasons(CASES[rule][0])
    assert rule in found
    assert len(found[rule]["message"]) > 20
    assert found[rule]["hint"]


@pytest.mark.parametrize("rule", sorted(CASES))
def test_the_rule_keeps_quiet(rule: str) -> None:
    assert rule not in reasons(CASES[rule][1])


OF_A_COMPONENT = [n for n, rule in RULES.items() if rule.component not in (None, preflight.WORK)]


@pytest.mark.parametrize("rule", sorted(OF_A_COMPONENT))
def test_a_rule_of_a_component_that_does_not_change_keeps_quiet(rule: str) -> None:
    others = [one for one in CHANGES if one["component"] != RULES[rule].component]
    assert rule not in reasons(CASES[rule][0], others)


@pytest.mark.parametrize("rule", sorted(CASES))
def test_for_a_proof_alone_nobody_else_may_be_at_work_and_no_more(rule: str) -> None:
    owed = [change("receipt", "proof", "unfinished", "proven", "the last run did not finish")]
    expected = {rule} if RULES[rule].component == preflight.WORK else set()
    assert set(reasons(CASES[rule][0], owed)) == expected


def test_who_is_at_work_is_named_with_the_way_out() -> None:
    found = reasons({"preflight.running": {**OTHER, "holder": 812}})["run-in-progress"]
    assert found["message"] == (
        "another run is at work on this host: ada on ctrl1 (pid 4711) since 2026-11-21 14:03 UTC"
    )
    assert "end process 812 on this host" in found["hint"]
    # Between taking the lock and writing its name there is a moment.
    assert "somebody" in reasons({"preflight.running": {}})["run-in-progress"]["message"]


def test_an_interrupted_dpkg_is_finished_by_those_who_say_so() -> None:
    case = CASES["dpkg-interrupted"][0]
    only = [one for one in CHANGES if one["component"] == "tensorflow"]
    assert "dpkg-interrupted" not in reasons(case, only)


def test_a_dependency_that_our_own_run_left_half_installed_is_no_reason_to_stop() -> None:
    """gcc-10 is none of the lock's packages, and CUDA's toolkit brings it."""
    half = {"preflight.unfinished": [["gcc-10", "half-installed"]]}
    assert "dpkg-broken" in reasons(half)
    assert "dpkg-broken" not in reasons({**half, "unfinished": True})
    assert "dpkg-broken" not in reasons({**half, "preflight.dpkg_at_work": True})


@pytest.mark.parametrize("rule", sorted(CASES))
def test_nothing_to_change_is_no_reason_to_stop(rule: str) -> None:
    assert reasons(CASES[rule][0], []) == {}


def test_all_reasons_come_at_once() -> None:
    everything = {}
    for rule in ("avx", "secure-boot", "headers", "held", "runfile-driver"):
        everything.update(CASES[rule][0])
    assert {"avx", "secure-boot", "headers", "held", "runfile-driver"} <= set(reasons(everything))


def test_rules_cope_before_the_look_ran() -> None:
    assert reasons({"preflight": {}}) == {}


def test_a_full_boot_is_told_with_numbers_and_where_nothing_is_rebuilt_not() -> None:
    case = CASES["boot-full"][0]
    message = reasons(case)["boot-full"]["message"]
    assert "50 MB are free where 100 MB are needed" in message
    hold = [change("nvidia_driver", "libcuda1 hold", "not held", "held", "x")]
    assert reasons(case, hold) == {}
    assert "boot-full" not in reasons({"preflight.boot": {"free": GB // 10, "needed": GB // 10}})


def test_another_ways_driver_is_no_reason_to_stop_where_the_run_may_switch() -> None:
    switch = {"options": {"nvidia_driver_switch": "switch"}}
    for rule in ("runfile-driver", "packaged-driver", "driver-method"):
        assert "nvidia_driver_switch: switch" in reasons(CASES[rule][0])[rule]["hint"]
        assert rule not in reasons({**CASES[rule][0], **switch})
    # Its own .run file is no other way's.
    assert "runfile-driver" not in reasons({**CASES["runfile-driver"][0], "row": RUNFILE_ROW})
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
    for rule in ("headers", "kernel-compiler"):
        assert rule not in reasons({**CASES[rule][0], "row": signed})
    ubuntu = {**CASES["headers"][0], "platform.distribution": "ubuntu"}
    assert "apt install linux-image-generic" in reasons(ubuntu)["headers"]["hint"]
    assert "apt install linux-image-amd64" in reasons(CASES["headers"][0])["headers"]["hint"]


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


# the look, on recorded trees


def test_avx_is_read_from_the_processors_flags(tmp_path: Path) -> None:
    tree(tmp_path, {"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu sse4_2 avx avx2\n"})
    assert preflight.look(context(tmp_path))["avx"] is True
    tree(tmp_path, {"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu sse4_2 avxish\n"})
    assert preflight.look(context(tmp_path))["avx"] is False
    assert preflight.look(context(tmp_path / "none"))["avx"] is None


def test_processes_are_found_by_their_open_device_files(tmp_path: Path) -> None:
    """The persistence daemon holds the devices too, and is not anybody's job."""
    tree(
        tmp_path,
        {
            "/proc/77/comm": "python\n",
            "/proc/77/cmdline": "python\0train.py\0",
            "/proc/77/status": "Name:\tpython\nUid:\t1001\t1001\t1001\t1001\n",
            "/proc/88/comm": "nvidia-persiste\n",
            "/etc/passwd": "root:x:0:0::/root:/bin/sh\nada:x:1001:1001::/home/ada:/bin/bash\n",
        },
        {
            "/proc/77/fd/3": "/dev/nvidia-uvm",
            "/proc/77/fd/0": "/dev/null",
            "/proc/88/fd/4": "/dev/nvidiactl",
        },
    )
    expected = {"pid": 77, "user": "ada", "command": "python train.py"}
    assert processes.processes(context(tmp_path)) == [expected]


def test_processes_that_only_nvidia_smi_sees_are_added(tmp_path: Path) -> None:
    answer = {"nvidia-smi": Result(0, "991, /usr/bin/python3\n", "")}
    (found,) = processes.processes(context(tmp_path, answers=answer))
    assert (found["pid"], found["command"]) == (991, "/usr/bin/python3")
    broken = {"nvidia-smi": Result(9, "NVIDIA-SMI has failed because it couldn't communicate", "")}
    assert processes.processes(context(tmp_path, answers=broken)) == []


@pytest.mark.parametrize(("value", "expected"), [(b"\x01", True), (b"\x00", False)])
def test_secure_boot_is_the_variables_fifth_byte(
    tmp_path: Path, value: bytes, expected: bool
) -> None:
    name = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    tree(tmp_path, {name: b"\x06\x00\x00\x00" + value})
    assert kernel_rules.secure_boot(context(tmp_path)) is expected


def test_headers_are_installed_offered_absent_or_unknown(tmp_path: Path) -> None:
    offered = Result(
        0, f"linux-headers-{KERNEL}:\n  Installed: (none)\n  Candidate: 5.10.262-1\n", ""
    )
    gone = Result(0, "", "")
    assert kernel_rules.headers(context(tmp_path, answers={"apt-cache": gone}), KERNEL) == "unknown"
    tree(tmp_path, {"/var/lib/apt/lists/deb.debian.org_x_Packages.lz4": ""})
    assert kernel_rules.headers(context(tmp_path, answers={"apt-cache": gone}), KERNEL) == "absent"
    assert (
        kernel_rules.headers(context(tmp_path, answers={"apt-cache": offered}), KERNEL) == "offered"
    )
    tree(tmp_path, {f"/lib/modules/{KERNEL}/build/Makefile": ""})
    assert kernel_rules.headers(context(tmp_path), KERNEL) == "installed"


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("Linux version 5.10.0-46-amd64 (debian-kernel@lists.debian.org) (gcc-10 (Debian 10.2.1-6) "
         "10.2.1 20210110, GNU ld (GNU Binutils for Debian) 2.35.2) #1 SMP", 10),
        ("Linux version 6.5.0-14-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-12 (Ubuntu "
         "12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld", 12),
        ("Linux version 4.19.0-20-amd64 (x) (gcc version 8.3.0 (Debian 8.3.0-6)) #1 SMP", 8),
        ("Linux version 6.18.44 (builder@x) (gcc (GCC) 15.3.0, GNU ld (GNU Binutils) 2.46) #1", 15),
        ("Linux version 6.1 (x) (clang version 17.0.6) #1", None),
    ],
)  # fmt: skip
def test_the_kernels_compiler(tmp_path: Path, version: str, major: int | None) -> None:
    tree(tmp_path, {"/proc/version": version, "/usr/bin/x86_64-linux-gnu-gcc-10": ""},
         {"/usr/bin/gcc-10": "x86_64-linux-gnu-gcc-10", "/usr/bin/gcc": "gcc-10"})  # fmt: skip
    found = kernel_rules.compilers(context(tmp_path))
    assert found == {"kernel": major, "installed": [10], "default": 10}


def test_packages_from_elsewhere_and_half_way(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "/var/lib/dpkg/status": status(
                ("cuda-drivers", "535.54-1"),
                ("nvidia-driver-535-server", "535.54-1"),
                ("nvidia-smi", "470.256.02-2"),
                ("nvidia-driver", "470.256.02-2"),
                ("libc6", "2.31-13", "install", "half-configured"),
            )
        },
    )
    found = preflight.look(context(tmp_path))
    assert found["foreign"] == ["cuda-drivers", "nvidia-driver-535-server"]
    assert found["unfinished"] == [["libc6", "half-configured"]]


def test_a_dpkg_at_work_is_seen(tmp_path: Path) -> None:
    tree(tmp_path, {"/proc/7/comm": "dpkg-deb\n", "/proc/8/comm": "apt-get\n"})
    assert preflight.look(context(tmp_path))["dpkg_at_work"] is False
    tree(tmp_path, {"/proc/9/comm": "dpkg\n", "/proc/9/status": "Uid:\t0\t0\t0\t0\n"})
    assert preflight.look(context(tmp_path))["dpkg_at_work"] is True


def test_a_killed_dpkg_left_a_journal(tmp_path: Path) -> None:
    """Its last steps, in order: the newest counts, and what they finished is finished."""
    steps = [("slow", "unpacked"), ("slow", "half-configured"), ("libc6", "installed")]
    journal = {
        f"/var/lib/dpkg/updates/{number:04}": f"Package: {name}\nStatus: install ok {state}\n"
        for number, (name, state) in enumerate(steps)
    }
    old = status(("libc6", "2.31-13", "install", "half-configured"))
    tree(tmp_path, {"/var/lib/dpkg/status": old, **journal})
    assert preflight.look(context(tmp_path))["unfinished"] == [["slow", "half-configured"]]


def test_one_repository_with_two_keys(tmp_path: Path) -> None:
    """apt stops altogether, and its message names no file."""
    tree(
        tmp_path,
        {
            "/etc/apt/sources.list.d/a.list": (
                "deb [signed-by=/usr/share/keyrings/cuda.gpg] https://nvidia.example/x86_64/ /\n"
            ),
            "/etc/apt/sources.list.d/b.list": "deb https://nvidia.example/x86_64 /\n",
            "/etc/apt/sources.list": "deb https://nvidia.example/other /\n",
        },
    )
    assert preflight.look(context(tmp_path))["signed_by"] == [
        [
            "https://nvidia.example/x86_64",
            "/",
            ["/etc/apt/sources.list.d/a.list", "/etc/apt/sources.list.d/b.list"],
        ]
    ]


def test_a_cuda_of_nobody_and_one_of_a_package(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "/usr/local/cuda-10.1/bin/nvcc": "",
            "/etc/profile.d/cuda.sh": "export PATH=/usr/local/cuda/bin:$PATH\n",
        },
        {"/usr/local/cuda": "cuda-10.1"},
    )
    expected = {"path": "/usr/local/cuda-10.1", "named_in": ["/etc/profile.d/cuda.sh"]}
    assert cuda_rules.usr_local_cuda(context(tmp_path)) == expected
    tree(
        tmp_path,
        {
            "/var/lib/dpkg/status": status(("cuda-toolkit-10-1", "10.1.243-1")),
            "/var/lib/dpkg/info/cuda-toolkit-10-1.list": "/.\n/usr/local\n/usr/local/cuda-10.1\n",
        },
    )
    assert cuda_rules.usr_local_cuda(context(tmp_path)) is None


def test_conda_in_a_login_file(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "/root/.bashrc": "# >>> conda initialize >>>\n",
            "/root/.profile": "# PATH=/opt/miniconda3/bin is what others write\n",
        },
    )
    assert tensorflow_rules.conda(context(tmp_path)) == ["/root/.bashrc"]
    tree(tmp_path, {"/root/.profile": "export PATH=/opt/miniconda3/bin:$PATH\n"})
    assert tensorflow_rules.conda(context(tmp_path)) == ["/root/.bashrc", "/root/.profile"]


def test_every_place_something_goes_to_has_its_room(tmp_path: Path) -> None:
    found = preflight.look(context(tmp_path, options={"cudnn_root": "/data/cudnn"}))
    assert set(found["disk"]) == places("/data/cudnn")


def test_the_installer_of_the_run_file(tmp_path: Path) -> None:
    tree(tmp_path, {"/usr/bin/nvidia-uninstall": ""})
    assert preflight.look(context(tmp_path))["installer"] == ["/usr/bin/nvidia-uninstall"]


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
    found = {**copy.deepcopy(GOOD), "preflight": {}}
    options = {"gpu_maintenance_window": "Mon 08:00-09:00"}
    assert preflight.blockers(found, CHANGES, options, ROW) == []


def test_the_rules_come_in_their_order_and_new_ones_last() -> None:
    first = len(preflight.ORDER)
    assert [rule.id for rule in preflight.RULES[:first]] == list(preflight.ORDER)
    others = [rule for rule in preflight.RULES[first:] if rule.component]
    places = [NAMES.index(rule.component) for rule in others]
    assert others
    assert places == sorted(places)
    other = preflight.RULES[0]._replace(id="another")
    assert preflight._place(other) == len(preflight.ORDER)
