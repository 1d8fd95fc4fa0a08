"""Slurm: what is written, and the words of an inventory that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from gpu_stack.components.slurm import configuration, paths, patterns, wishes, words
from slurm_host import DEFAULTS, NODE, OPTIONS, PART


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
    ("read", "value", "expected"),
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
def test_a_wrong_word_is_said(read: str, value: Any, expected: str) -> None:
    assert expected in (getattr(words, read)(value) or "")


def test_right_words_are_taken() -> None:
    for name, read in wishes.READ:
        assert read(DEFAULTS["slurm_" + name]) is None
    assert words.time("7-00:00:00") is words.time("UNLIMITED") is words.time("30") is None
    assert words.partitions([{"name": "a", "nodes": ["gpu01"], "groups": ["lab"]}]) is None
    assert words.extra(["SchedulerParameters=bf_max_job_test=500"]) is None  # noqa: S610  no Django
    assert words.extra(['MailDomain="a lab"']) is None  # noqa: S610  no Django


def test_names_and_addresses_of_the_inventory_are_read_as_well() -> None:
    for word, value, expected in (
        ("name", "gpu 02", "is no name of a host for Slurm"),
        ("name", "all", "is no name of a host for Slurm"),
        ("address", "2001:db8::1", "expected a name or an address of IPv4"),
    ):
        options = {**NODE, "slurm_host": {**NODE["slurm_host"], word: value}}
        (fault,) = wishes.faults(options)
        assert expected in fault
    assert wishes.faults(NODE) == []
