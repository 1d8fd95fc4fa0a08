"""Slurm: what the look sees of it, what the plan names, what is written, what is in its way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
import slurm_host
from converged_host import Host
from gpu_stack.components import slurm
from gpu_stack.components.slurm import (
    configuration,
    controller,
    current,
    hardware,
    jobs,
    node,
    nodes,
    obstacles,
    paths,
    patterns,
    wishes,
    words,
)
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError
from slurm_host import DEFAULTS, NODE, OPTIONS, PART, SHOWN, noted

RUNNING = "\n".join(["active"] * 5)


class Answers:
    """A host's programs: the words of each by its first arguments."""

    def __init__(self, **told: str) -> None:
        self.told = {"systemctl": RUNNING, "timeout": SHOWN, **told}

    def __call__(self, argv: Sequence[str]) -> Result:
        text = self.told.get(argv[0], "")
        if argv[0] == "systemctl":
            text = "\n".join(text.split("\n")[: len(argv) - 2])
        return Result(1 if text.startswith("error") else 0, text, text)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A node as PART says, with two GPUs and all that a run brings."""
    host = made.make(tmp_path)
    slurm_host.bring(host)
    return host


def context(host: Host, options: dict[str, Any], **told: str) -> Context:
    return Context(root=str(host.root), options=options, runner=Answers(**told))


def plan(host: Host, options: dict[str, Any] = NODE, **told: str) -> list[tuple[Any, ...]]:
    seen = slurm.look(context(host, options, **told))
    found = slurm.differ({}, seen, options)
    return [(change["item"], change["from"], change["to"], change["reason"]) for change in found]


# the look and the plan


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
    found = slurm.differ({}, slurm.look(bare), OPTIONS)
    items = [change["item"] for change in found]
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
    assert [one[0] for one in plan(host)] == ["munge.key"]


def test_services_that_do_not_run_are_named(host: Host) -> None:
    host.remove(f"{current.WANTS}/munge.service")
    found = plan(host, systemctl="active\nfailed")
    assert found == [
        ("slurmd.service", "not running", "running", "no job gets here"),
        ("munge.service", "not enabled", "enabled", "it would end with a reboot"),
    ]


def test_a_service_that_a_killed_run_has_not_restarted_is_named(host: Host) -> None:
    slurm_host.noted(host, part=PART, unread=["munge", "slurmctld"])
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
    assert [one[0] for one in plan(host)] == ["node gpu02"]


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
    one = {**NODE, "slurm_gpus": [1]}
    part = node.part(context(host, one), one)
    assert (part["gpus"], part["closed"]) == (PART["gpus"][1:], ["/dev/nvidia0"])
    text = node.files(context(host, one), one, part)[paths.SLURMD_DROP_IN]
    assert "\nInaccessiblePaths=-/dev/nvidia0\n" in text
    assert "Inaccessible" not in node.files(context(host, NODE), NODE, PART)[paths.SLURMD_DROP_IN]
    assert (paths.SLURMD_DROP_IN, "other content") in [change[:2] for change in plan(host, one)]


def test_a_gpu_that_jobs_can_open_though_it_is_closed_is_planned(host: Host) -> None:
    seen = slurm.look(context(host, NODE))
    seen["open"] = ["/dev/nvidia0"]
    found = [(change["item"], change["from"]) for change in slurm.differ({}, seen, NODE)]
    assert found == [("slurmd.service", "jobs can open /dev/nvidia0")]


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


# what is written


def written(parts: Sequence[dict[str, Any]] = (PART,), **options: Any) -> dict[str, str]:
    settings = wishes.settings({**OPTIONS, **options})
    host = {"hostname": "ctl", "address": "10.0.0.1"}
    return configuration.files({"settings": settings, "host": host}, parts)


def test_the_configuration_is_of_the_parts() -> None:
    files = written()
    conf = files[paths.SLURM_CONF].splitlines()
    assert "SlurmctldHost=ctl(10.0.0.1)" in conf
    assert "DefMemPerCPU=3888" in conf
    assert (
        "NodeName=gpu02 NodeHostname=box NodeAddr=10.0.0.2 CPUs=16 Sockets=2 CoresPerSocket=4 "
        "ThreadsPerCore=2 RealMemory=62208 Gres=gpu:tesla_t4:2 State=UNKNOWN" in conf
    )
    assert (
        "PartitionName=gpu Nodes=ALL Default=YES DefaultTime=1:00:00 MaxTime=7-00:00:00 State=UP"
        in conf
    )
    assert "NodeName=gpu02 Name=gpu Type=tesla_t4 File=/dev/nvidia1" in files[paths.GRES_CONF]
    assert "ConstrainDevices=yes" in files[paths.CGROUP_CONF]


def test_partitions_and_further_lines_are_written() -> None:
    wished = [{"name": "short", "max_time": "4:00:00"},
              {"name": "long", "nodes": ["gpu02"], "priority": 2, "max_nodes": 1, "groups": ["lab"],
               "default": True}]  # fmt: skip
    conf = written(slurm_partitions=wished, slurm_extra=["KillWait=60"], slurm_accounting=True)[
        paths.SLURM_CONF
    ]
    assert "PartitionName=short Nodes=ALL Default=NO DefaultTime=1:00:00 MaxTime=4:00:00" in conf
    assert "PartitionName=long Nodes=gpu02 Default=YES" in conf
    assert "MaxNodes=1 PriorityTier=2 AllowGroups=lab" in conf
    assert "\nKillWait=60\n" in conf
    assert "AccountingStorageTRES=gres/gpu" in conf
    assert "AccountingStorage" not in written()[paths.SLURM_CONF]


def test_no_password_is_in_the_databases_configuration() -> None:
    text = configuration.dbd_conf({"address": "10.0.0.1"})
    assert "StoragePass" not in text
    assert "StorageUser=slurm" in text


def test_slurmd_is_told_its_name_where_the_host_has_another() -> None:
    assert "-N gpu02" in configuration.slurmd_environment("gpu02", "box", "10.0.0.1")
    assert "-N" not in configuration.slurmd_environment("box", "box", "10.0.0.1")


def test_every_line_that_is_decided_here_can_not_be_said_again() -> None:
    settings = {**wishes.settings(OPTIONS), "accounting": True}
    host = {"hostname": "ctl", "address": "10.0.0.1"}
    names = [name for name, _ in configuration.decided(settings, host)]
    names += ["NodeName", "PartitionName", "DefMemPerCPU"]
    assert [name for name in names if name.lower() not in patterns.DECIDED] == []


def test_a_node_that_slurmctld_does_not_know_is_in_no_partition() -> None:
    """slurmctld ends with "Invalid node names in partition", and with it what runs."""
    wished = [{"name": "a", "nodes": ["gpu02", "gpu09"]}, {"name": "b", "nodes": ["gpu09"]}]
    conf = written(slurm_partitions=wished)[paths.SLURM_CONF]
    assert "PartitionName=a Nodes=gpu02 Default=YES" in conf
    assert "PartitionName=b Default=NO" in conf


def test_a_driver_that_hangs_does_not_keep_slurmd_from_its_jobs() -> None:
    (line,) = [line for line in configuration.slurmd_drop_in(PART).split("\n") if "smi" in line]
    assert line.startswith("ExecStartPre=-+/usr/bin/timeout --kill-after=5 45 ")


# words of an inventory


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        ("cluster", "My Cluster", "is no name of a cluster"),
        ("controller", "a b", "is no name of a host"),
        ("controller", "Default", "is no name of a host"),
        ("address", "10.0.0.1;x", "is no address"),
        ("address", "2001:db8::1", "an address of IPv4"),
        ("time", "a day", "is no time"),
        ("reserve", -1, "is no amount of memory"),
        ("partitions", ["gpu"], "is no partition"),
        ("partitions", [{"name": "default"}], "is no name of a partition"),
        ("partitions", [{"name": "a", "size": 1}], "size is no word of a partition"),
        ("partitions", [{"name": "a", "max_time": "x"}], "a: max_time"),
        ("partitions", [{"name": "a", "priority": 0}], "no number from 1"),
        ("partitions", [{"name": "a", "default": "yes"}], "expected true or false"),
        ("partitions", [{"name": "a", "nodes": "ALL"}], "expected a list of names"),
        ("partitions", [{"name": "a", "groups": ["a b"]}], "is no name"),
        ("partitions", [{"name": "a"}, {"name": "a"}], "partition a is named twice"),
        (
            "partitions",
            [{"name": "a", "default": True}, {"name": "b", "default": True}],
            "only one partition",
        ),
        ("extra", ["no line"], "is no line of slurm.conf"),
        ("extra", ["a=b\nc=d"], "is no line of slurm.conf"),
        ("extra", ["ProctrackType=proctrack/linuxproc"], "is decided by this program"),
        ("extra", ["NODENAME=x"], "is decided by this program"),
        ("extra", ["PrEpPlugins=none"], "is decided by this program"),
        ("extra", ["KillWait=60 SlurmUser=root"], "expected one Name=Value"),
        ("extra", ["KillWait=60\\"], "expected one Name=Value"),
        ("extra", ["KillWait=60#"], "expected one Name=Value"),
    ],
)
def test_a_wrong_word_is_said(read: str, value: Any, said: str) -> None:
    assert said in (getattr(words, read)(value) or "")


def test_right_words_are_taken() -> None:
    for name, read in wishes.READ:
        assert read(DEFAULTS["slurm_" + name]) is None
    assert words.time("7-00:00:00") is words.time("UNLIMITED") is words.time("30") is None
    assert words.partitions([{"name": "a", "nodes": ["gpu01"], "groups": ["lab"]}]) is None
    assert words.extra(["SchedulerParameters=bf_max_job_test=500"]) is None  # noqa: S610  no Django
    assert words.extra(['MailDomain="a lab"']) is None  # noqa: S610  no Django


def test_names_and_addresses_of_the_inventory_are_read_as_well() -> None:
    for word, value, said in (
        ("name", "gpu 02", "is no name of a host for Slurm"),
        ("name", "all", "is no name of a host for Slurm"),
        ("address", "2001:db8::1", "expected a name or an address of IPv4"),
    ):
        options = {**NODE, "slurm_host": {**NODE["slurm_host"], word: value}}
        (fault,) = wishes.faults(options)
        assert said in fault
    assert wishes.faults(NODE) == []


# what slurmctld says


@pytest.mark.parametrize(
    ("state", "ready"),
    [("IDLE", True), ("MIXED", True), ("ALLOCATED", True), ("IDLE*", False), ("IDLE+DRAIN", False),
     ("DOWN", False), ("MIXED+PLANNED", True), ("DOWN*+DRAIN", False),
     ("IDLE+NOT_RESPONDING", False), ("UNKNOWN", False)],
)  # fmt: skip
def test_a_node_is_ready_or_not(state: str, ready: bool) -> None:
    assert nodes.is_ready(nodes.parse(SHOWN.replace("State=IDLE", f"State={state}"))) is ready


@pytest.mark.parametrize(
    ("reason", "said", "cure"),
    [
        ("Low RealMemory (reported:100 < 100.00% of configured:200)", "less memory", "run again"),
        ("gres/gpu count reported lower than configured (1 < 2)", "fewer GPUs", "nvidia-smi -L"),
        ("Not responding", "does not reach its slurmd", "TCP 6818"),
        ("Node unexpectedly rebooted", "Node unexpectedly rebooted", "state=resume"),
    ],
)
def test_a_reason_is_said_with_its_cure(reason: str, said: str, cure: str) -> None:
    line = SHOWN.replace("State=IDLE", "State=DOWN+DRAIN") + f" Reason={reason} [root@2026-11-26]"
    wrong, todo = nodes.why(nodes.parse(line))
    assert said in wrong
    assert cure in todo


def test_a_users_words_in_a_reason_are_none_of_slurms() -> None:
    quoted = "provision: prolog: in use outside of job 9: pid 5 of eve (x State=IDLE Gres=no)"
    line = SHOWN.replace("State=IDLE", "State=IDLE+DRAIN") + f" Reason={quoted} [root@2026-11-26]"
    seen = nodes.parse(line)
    assert (seen["reason"], seen["by"], seen["marks"]) == (quoted, "root", ["DRAIN"])
    assert nodes.unlike(seen, PART) == ""


def test_an_error_of_munge_is_said() -> None:
    told = "slurm_load_node error: Protocol authentication error"
    assert "munge key" in nodes.why(nodes.ask(lambda _argv: Result(1, "", told), "gpu02"))[0]
    assert "error" in nodes.ask(lambda _argv: Result(0, "", ""), "gpu02")


def test_jobs_are_reported_by_who_and_where() -> None:
    told = "7|ada|gpu|gpu02|RUNNING\nno line\n8|bob|gpu|gpu[01-02]|RUNNING\n"
    found, unknown = jobs.at_work(lambda _argv: Result(0, told, ""), "gpu02")
    assert unknown == ""
    assert jobs.words(found) == "job 7 of ada on gpu02, job 8 of bob on gpu[01-02]"
    assert jobs.words(found * 3).endswith(" and 2 more")
    assert jobs.at_work(lambda _argv: Result(1, "", "no answer"))[1] == "no answer"


# what prevents it


def test_what_would_end_a_job_is_known() -> None:
    noted = {"settings": {**wishes.settings(OPTIONS), "partitions": [{"name": "a"}]}}
    wished = {"settings": {**wishes.settings(OPTIONS), "partitions": [{"name": "b"}]}}
    less = {**PART, "gpus": PART["gpus"][:1]}
    assert controller.endangered(noted, noted, [PART], [PART]) == (set(), set())
    assert controller.endangered(noted, wished, [PART], [less]) == ({"gpu02"}, {"a"})
    assert controller.endangered(noted, noted, [PART], []) == ({"gpu02"}, set())
    assert controller.endangered({}, wished, [], [PART]) == (set(), set())


def test_clocks_apart_are_refused_and_slow_tasks_are_not() -> None:
    node.clocks_agree(100, 3000, 9000)
    with pytest.raises(RefusalError, match="400 s ahead of its controller's"):
        node.clocks_agree(1000, 600, 1001)
    with pytest.raises(RefusalError, match="500 s behind its controller's"):
        node.clocks_agree(100, 603, 103)


def test_the_survey_reads_what_is_in_the_way(host: Host, tmp_path: Path) -> None:
    facts = {"platform": {"distribution": "debian", "release": "12"}}
    seen = obstacles.survey(context(host, NODE), facts)
    assert seen["theirs"] == seen["faults"] == []
    assert (seen["release"], seen["steps"], seen["removal"]) == ([22, 5], 0, "")
    host.remove(paths.NOTED)
    host.write(paths.SLURM_CONF, "ClusterName=theirs\n")
    assert obstacles.survey(context(host, NODE), facts)["theirs"] == [paths.SLURM_CONF]
    host.write("/sys/fs/cgroup/cgroup.controllers", "cpu\n")
    assert obstacles.cgroup(context(host, NODE)) == 2


def test_a_reserve_that_leaves_jobs_nothing_is_refused(host: Host) -> None:
    facts = {"platform": {"distribution": "debian", "release": "12"}}
    options = {**NODE, "slurm_memory_reserve": 64 * 1024}
    (fault,) = obstacles.survey(context(host, options), facts)["faults"]
    assert fault == "slurm_memory_reserve: 65536 MiB of this host's 64414 leave jobs none"


@pytest.mark.parametrize(
    ("controller", "node", "said"),
    [
        ("22.05.8", "20.11.4", None),
        ("23.11.4", "22.05.8", None),
        ("24.11.5", "23.11.4", None),
        ("24.11.5", "22.05.8", "24.11 serves nodes from 23.02 to its own"),
        ("23.11.4", "21.08.5", "23.11 serves nodes from 22.05 to its own"),
        ("22.05.8", "24.11.5", "22.05 serves none that is newer"),
        ("25.11.0", "22.05.8", None),
        ("", "22.05.8", None),
    ],
)
def test_releases_that_a_controller_serves(controller: str, node: str, said: str | None) -> None:
    read = [obstacles.version("slurm-wlm " + text) for text in (controller, node)]
    why = obstacles.unserved(*read)
    assert why is said is None or (said is not None and said in (why or ""))


def test_a_controller_stays_as_long_as_it_has_nodes(host: Host) -> None:
    host.write(f"{paths.PARTS}/gpu03.json", json.dumps({**PART, "name": "gpu03"}))
    facts = {"platform": {"distribution": "debian", "release": "12"}}
    assert obstacles.survey(context(host, DEFAULTS), facts)["removal"] == ""
    leaves = {**DEFAULTS, "slurm_host": {**OPTIONS["slurm_host"], "staying": ["gpu03"]}}
    seen = obstacles.survey(context(host, leaves), facts)
    assert seen["removal"].startswith("gpu03 is still of this controller's cluster")


def test_slurm_can_not_go_under_a_job(host: Host) -> None:
    host.write("/proc/77/comm", "slurmstepd\n")
    host.write("/proc/77/status", "Uid:\t0\t0\t0\t0\n")
    facts = {"platform": {"distribution": "debian", "release": "12"}}
    told = "7|ada|gpu|gpu02|RUNNING"
    seen = obstacles.survey(context(host, DEFAULTS, timeout=told), facts)
    assert seen["removal"].startswith("job 7 of ada on gpu02: run again")
    host.write("/proc/77/status", "Uid:\t1000\t1000\t1000\t1000\n")  # somebody's of that name
    assert obstacles.survey(context(host, DEFAULTS), facts)["removal"] == ""


def test_faults_of_the_inventory_are_the_preflights(host: Host) -> None:
    options = {**NODE, "slurm_host": {**NODE["slurm_host"], "faults": ["gpu09 is not there"]},
               "slurm_max_time": "x"}  # fmt: skip
    found = plan(host, options)
    assert [one[0] for one in found] == ["cluster gpu"]
    faults = obstacles.survey(context(host, options), {"platform": {}})["faults"]
    assert faults[1] == "gpu09 is not there"
    assert faults[0].startswith("slurm_max_time: 'x' is no time")
