"""Slurm: what the look sees of it, what the plan names, and a host's part of the cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from converged_host import Host
from gpu_stack.components import slurm
from gpu_stack.components.slurm import configuration, current, hardware, node, paths, wishes, words
from gpu_stack.host.context import Context, Result
from slurm_host import DEFAULTS, NODE, OPTIONS, PART, SHOWN, noted
from slurm_look import Answers, context, node_host, plan


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return node_host(tmp_path)


def test_a_node_that_is_as_wished_has_no_change(host: Host) -> None:
    assert plan(host) == []


def test_without_a_wish_and_without_slurm_nothing_is_asked(tmp_path: Path) -> None:
    def nobody(_argv: Sequence[str]) -> Result:
        raise AssertionError("nothing is to be run")

    bare = Context(root=str(tmp_path), options=DEFAULTS, runner=nobody)
    assert slurm.look(bare) == {"version": None, "here": False}
    assert slurm.differ({}, slurm.look(bare), DEFAULTS) == []


def test_a_cluster_that_is_no_longer_wished_goes(host: Host) -> None:
    assert plan(host, DEFAULTS) == [("cluster gpu", "here", None, "slurm_state is absent")]


def test_a_bare_host_gets_its_packages_and_the_cluster(tmp_path: Path) -> None:
    bare = Context(root=str(tmp_path), options=OPTIONS, runner=Answers())
    changes = slurm.differ({}, slurm.look(bare), OPTIONS)
    items = [change["item"] for change in changes]
    assert items == ["munge", "openssl", "slurm-client", "slurmd", "slurmctld", "cluster gpu"]
    accounts = {**OPTIONS, "slurm_accounting": True}
    bare = Context(root=str(tmp_path), options=accounts, runner=Answers())
    items = [change["item"] for change in slurm.differ({}, slurm.look(bare), accounts)]
    assert {"slurmdbd", "mariadb-server"} <= set(items)


@pytest.mark.parametrize(
    ("path", "old"),
    [(paths.SLURMD_ENVIRONMENT, "other content"), (paths.SLURMD_DROP_IN, "absent")],
)
def test_a_file_of_the_node_is_named(host: Host, path: str, old: str) -> None:
    if old == "absent":
        host.remove(path)
    else:
        host.write(path, "# somebody's\n")
    assert plan(host) == [(path, old, "as written", "Slurm needs it")]


def test_a_changed_key_is_named(host: Host) -> None:
    host.path(paths.MUNGE_KEY).chmod(0o600)
    host.write(paths.MUNGE_KEY, b"x" * 128)
    host.path(paths.MUNGE_KEY).chmod(0o400)
    assert plan(host) == [("munge.key", "another", "the cluster's", "nobody trusts this host")]


def test_a_key_that_others_can_read_is_named(host: Host) -> None:
    host.path(paths.MUNGE_KEY).chmod(0o440)
    assert [change[0] for change in plan(host)] == ["munge.key"]


def test_services_that_do_not_run_are_named(host: Host) -> None:
    host.remove(f"{current.WANTS}/munge.service")
    changes = plan(host, systemctl="active\nfailed")
    assert changes == [
        ("slurmd.service", "not running", "running", "no job gets here"),
        ("munge.service", "not enabled", "enabled", "it would end with a reboot"),
    ]


def test_a_service_that_a_killed_run_has_not_restarted_is_named(host: Host) -> None:
    noted(host, part=PART, unread=["munge", "slurmctld"])
    assert plan(host) == [
        ("munge.service", "as before", "restarted", "a run was cut off before that")
    ]


def test_a_host_with_a_gpu_less_is_named(host: Host) -> None:
    host.remove("/dev/nvidia1")
    (change,) = plan(host)
    assert change[:3] == (
        "node gpu02",
        "16 CPUs, 62208 MiB, gpu:tesla_t4:2",
        "16 CPUs, 62208 MiB, gpu:tesla_t4:1",
    )


def test_a_little_memory_is_no_change_and_much_is(host: Host) -> None:
    host.write("/proc/meminfo", f"MemTotal: {65959936 - 300 * 1024} kB\n")
    assert plan(host) == []
    host.write("/proc/meminfo", f"MemTotal: {65959936 - 900 * 1024} kB\n")
    assert [change[0] for change in plan(host)] == ["node gpu02"]


def test_what_slurmctld_says_of_the_node_is_compared(host: Host) -> None:
    other = SHOWN.replace("RealMemory=62208", "RealMemory=99999")
    assert plan(host, timeout=other) == [
        (
            "node gpu02",
            "16 CPUs, 99999 MiB, gpu:tesla_t4:2",
            "16 CPUs, 62208 MiB, gpu:tesla_t4:2",
            "slurmctld has other words of it",
        )
    ]
    unknown = plan(host, timeout="error: Unable to contact slurm controller (connect failure)")
    assert unknown[0][:3] == ("node gpu02", "unknown", "registered")
    assert unknown[0][3].startswith("slurmctld does not answer (")


def test_a_controllers_configuration_is_compared_with_its_parts(host: Host) -> None:
    own = {**PART, "name": "gpu01", "hostname": "box", "address": "10.0.0.1"}
    settings = {"settings": wishes.settings(OPTIONS),
                "host": {"hostname": "box", "address": "10.0.0.1"}}  # fmt: skip
    noted(host, part=own, **settings)
    for part in (own, PART):
        host.write(f"{paths.PARTS}/{part['name']}.json", json.dumps(part))
    shown = SHOWN.replace("gpu02", "gpu01")
    files = configuration.files({**settings}, [own, PART])
    files.update(node.files(context(host, OPTIONS), OPTIONS, own))
    for path, text in files.items():
        host.write(path, text)
    assert plan(host, OPTIONS, timeout=shown) == []
    # A node that no run reaches is not forgotten.
    assert "NodeName=gpu02 " in files[paths.SLURM_CONF]
    host.write(paths.GRES_CONF, "")
    assert plan(host, OPTIONS, timeout=shown) == [
        (paths.GRES_CONF, "other content", "as written", "Slurm needs it")
    ]
    host.write(paths.GRES_CONF, files[paths.GRES_CONF])
    longer = {**OPTIONS, "slurm_max_time": "1-00:00:00"}
    (change,) = plan(host, longer, timeout=shown)
    assert change == ("cluster gpu", "other settings", "as wished", "changed: max_time")


# a host's part


def test_the_part_is_what_the_host_has(host: Host) -> None:
    assert node.part(context(host, NODE), NODE) == PART


def test_gpus_that_are_not_slurms_are_closed_to_its_jobs(host: Host) -> None:
    options = {**NODE, "slurm_gpus": [1]}
    part = node.part(context(host, options), options)
    assert (part["gpus"], part["closed"]) == (PART["gpus"][1:], ["/dev/nvidia0"])
    text = node.files(context(host, options), options, part)[paths.SLURMD_DROP_IN]
    assert "\nInaccessiblePaths=-/dev/nvidia0\n" in text
    assert "Inaccessible" not in node.files(context(host, NODE), NODE, PART)[paths.SLURMD_DROP_IN]
    assert (paths.SLURMD_DROP_IN, "other content") in [change[:2] for change in plan(host, options)]


def test_a_gpu_that_jobs_can_open_though_it_is_closed_is_planned(host: Host) -> None:
    seen = slurm.look(context(host, NODE))
    seen["open"] = ["/dev/nvidia0"]
    changes = [(change["item"], change["from"]) for change in slurm.differ({}, seen, NODE)]
    assert changes == [("slurmd.service", "jobs can open /dev/nvidia0")]


def test_a_gpu_that_is_lost_is_not_made_up_for_with_one_that_is_not_slurms(host: Host) -> None:
    host.remove("/dev/nvidia1")
    last = {**NODE, "slurm_gpus": 1}
    part = node.part(context(host, last), last)
    assert (part["gpus"], part["closed"]) == ([], ["/dev/nvidia0"])


def test_what_a_host_says_is_closed_is_judged() -> None:
    assert words.part({**PART, "closed": ["/dev/nvidia0"]}) is None
    for wrong in (["/dev/sda"], ["/dev/nvidia0\nExecStart=/bin/sh"], [1]):
        assert words.part({**PART, "closed": wrong}) is not None, wrong
    assert words.part({**PART, "closed": 5}) is not None


def test_cores_of_several_kinds_count_as_one_kind(host: Host) -> None:
    host.remove("/sys/devices/system/cpu/cpu15/topology/core_id")
    part = node.part(context(host, NODE), NODE)
    assert (part["sockets"], part["cores"], part["threads"]) == (1, 15, 1)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100_sxm4_40gb"),
        ("NVIDIA GeForce RTX 3090", "geforce_rtx_3090"),
        ("Tesla T4", "tesla_t4"),
        ("???", "gpu"),
    ],
)
def test_a_models_name_becomes_a_type(model: str, kind: str) -> None:
    assert hardware.type_of(model) == kind


def test_gpus_of_two_models_are_counted_by_model() -> None:
    gpus = [{"type": kind, "file": f"/dev/nvidia{n}"} for n, kind in enumerate(("t4", "k80", "t4"))]
    assert hardware.gres(gpus) == "gpu:k80:1,gpu:t4:2"
