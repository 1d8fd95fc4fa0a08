"""Whether a training may begin, by what is asked and by what the hosts say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_stack.training import judge, ports

ADDRESSES = ["192.0.2.11", "192.0.2.12"]


def test_tf_config_has_all_workers_in_order_and_this_ones_number() -> None:
    assert json.loads(judge.tf_config(ADDRESSES, 2222, 1)) == {
        "cluster": {"worker": ["192.0.2.11:2222", "192.0.2.12:2222"]},
        "task": {"type": "worker", "index": 1},
    }


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert judge.place("2001:db8::7", 2222) == "[2001:db8::7]:2222"


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_an_address_that_no_peer_reaches_is_refused(address: str) -> None:
    (fault,) = judge.addresses({"gpu01": address, "gpu02": "192.0.2.12"})
    assert fault.startswith(f"gpu01: its peers can't reach it at {address}: gpu_train_address")
    assert judge.addresses({"gpu01": address}) == []


def test_two_hosts_of_one_address_are_named() -> None:
    (fault,) = judge.addresses({"gpu01": "192.0.2.11", "gpu02": "192.0.2.11"})
    assert fault == "gpu01 and gpu02 have one address, 192.0.2.11"


def look(**changed: Any) -> dict[str, Any]:
    """A host that is fit for a training."""
    return {
        "fault": None, "user": "ada", "folder": "/homes/ada/provision-train/x", "taken": False,
        "running": None, "free": 1 << 40, "any_port": 41000, "clock": 1000.0,
        "tensorflow": "2.9.3", "python": "/opt/tensorflow/x/bin/python", "ports": {},
        "gpus": {"uuids": ["GPU-a", "GPU-b"], "in_use": {}, "error": None}, **changed,
    }  # fmt: skip


def faults(changed: dict[str, Any], **asked: Any) -> list[str]:
    options = {"gpus": None, "in_use": "others", "resume": False, **asked}
    return judge.looks({"gpu01": look(), "gpu02": look(**changed)}, **options)


def test_hosts_that_are_fit_are_not_in_the_way() -> None:
    assert faults({}) == []


def test_hosts_of_different_tensorflow_are_each_named() -> None:
    (fault,) = faults({"tensorflow": "2.14.1"})
    assert fault.endswith("must not: 2.9.3 on gpu01; 2.14.1 on gpu02")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"tensorflow": None}, "gpu02: it has no finished environment of TensorFlow"),
        ({"fault": "there is no user eve here"}, "gpu02: there is no user eve here"),
        ({"taken": True}, "gpu02: a job of this name has been here"),
        ({"ports": {2222: "nginx of root (pid 7)"}}, "gpu02: port 2222 is held by nginx of root"),
        (
            {"gpus": {"uuids": [], "in_use": {}, "error": "NVML does not answer"}},
            "gpu02: NVML does not answer",
        ),
        ({"running": "eve"}, "gpu02: a job of this name is at work here, of eve: another name"),
        ({"free": 3 << 20}, "gpu02: 3 MiB are free for /homes/ada/provision-train/x, of 512"),
    ],
)
def test_what_is_in_the_way_on_a_host_is_named(changed: dict[str, Any], expected: str) -> None:
    (fault,) = faults(changed)
    assert fault.startswith(expected)


def test_a_job_of_the_same_name_is_gone_on_with_where_that_is_asked() -> None:
    assert faults({"taken": True}, resume=True) == []


BUSY = {"gpus": {"uuids": ["GPU-a", "GPU-b"], "in_use": {"GPU-b": "in use: eve"}, "error": None}}


def test_a_gpu_in_use_is_refused_unless_others_are_chosen() -> None:
    assert faults(BUSY) == ["gpu02: GPU 1 GPU-b: in use: eve"]
    assert faults(BUSY, gpus=[0]) == []
    assert faults(BUSY, gpus=[0], in_use="nothing") == ["gpu02: GPU 1 GPU-b: in use: eve"]


def test_a_gpu_that_is_not_there_is_named() -> None:
    assert faults({}, gpus=[2]) == [
        "gpu01: it has no GPU 2, but 2", "gpu02: it has no GPU 2, but 2"
    ]  # fmt: skip


def test_a_host_without_gpus_trains_on_its_cpu() -> None:
    assert faults({"gpus": {"uuids": [], "in_use": {}, "error": None}}) == []


def way(host: str, port: int, answer: str = ports.OPEN, *, nccl: bool = False) -> dict[str, Any]:
    return {"host": host, "address": "192.0.2.9", "port": port, "answer": answer, "any": nccl}


def test_a_closed_way_names_both_ends_and_the_firewall() -> None:
    answers = {
        "gpu01": [way("gpu02", 2222, "no answer within 4 s")],
        "gpu02": [way("gpu01", 2222), way("gpu01", 2223, "Connection refused")],
    }
    dropped, refused, hint = judge.reached(answers)
    assert dropped == (
        "gpu01 cannot reach gpu02:2222: no answer within 4 s, at 192.0.2.9: a firewall that drops "
        "it?"
    )
    assert refused == "gpu02 cannot reach gpu01:2223: Connection refused, at 192.0.2.9"
    assert "firewall" in hint
    assert judge.reached({"gpu02": [way("gpu01", 2222)]}) == []


def test_a_firewall_that_allows_the_workers_ports_alone_is_reported_with_nccls_way_out() -> None:
    """With it a training of GPUs hangs in its first step (tensorflow#37693)."""
    answers = {
        "gpu01": [way("gpu02", 2222), way("gpu02", 41000, "no answer within 4 s", nccl=True)]
    }
    closed, nccl, _hint = judge.reached(answers)
    assert closed.endswith("a firewall that drops it? (any port, as NCCL takes them)")
    assert "--communication ring" in nccl


@pytest.mark.parametrize(
    ("communication", "uuids", "hosts"),
    [
        ("NCCL", ["GPU-a"], ["gpu01", "gpu02"]),
        ("AUTO", ["GPU-a"], ["gpu01", "gpu02"]),
        ("RING", ["GPU-a"], []),
        ("NCCL", [], []),
    ],
)
def test_any_port_is_needed_by_nccl_between_gpus_alone(
    communication: str, uuids: list[str], hosts: list[str]
) -> None:
    look_of_both = look(gpus={"uuids": uuids, "in_use": {}, "error": None})
    assert (
        judge.needs_any_port({"gpu01": look_of_both, "gpu02": look_of_both}, communication) == hosts
    )


def test_clocks_that_are_apart_are_named_and_a_slow_look_is_not() -> None:
    looks = {
        "gpu01": look(clock=1000.0, between=[999.0, 1001.0]),
        # Asked later, and slow: its clock may be right.
        "gpu02": look(clock=1100.0, between=[1020.0, 1101.0]),
    }
    assert judge.clocks(looks) == ""
    looks["gpu02"]["clock"] = 1200.0
    assert judge.clocks(looks).startswith("the clock of gpu02 is 98 s ahead of that of gpu01: ")
    assert judge.clocks({"gpu01": look()}) == ""
