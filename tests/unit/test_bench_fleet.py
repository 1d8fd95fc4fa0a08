"""What measures many hosts: what a machine must have for them, and what is counted of whom."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bench import bundling, cold, fleet, page, page_fleet, processes, rerun, spending, together

ROOT = Path(__file__).resolve().parents[2]
ENOUGH = fleet.Room(processes=30_000, memory=32 << 30, ports=30_000, files=4096)
LITTLE: Any = {"processes": 4_000, "memory": 8 << 30, "ports": 500, "files": 256}


def test_a_thousand_hosts_fit_where_there_is_room() -> None:
    assert fleet.lacking(1000, ENOUGH) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("processes", "kernel.pid_max"),
        ("memory", "memory: "),
        ("ports", "net.ipv4.ip_local_port_range"),
        ("files", "ulimit -n"),
    ],
)
def test_what_a_machine_lacks_is_reported_before_the_first_host(
    name: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = fleet.Room(**{**vars(ENOUGH), name: LITTLE[name]})
    (lack,) = fleet.lacking(1000, has)
    assert expected in lack
    monkeypatch.setattr(fleet, "room", lambda: has)
    target = fleet.Target("192.0.2.1", "lab", tmp_path / "key", "box", "ssh-ed25519 AAAA")
    with pytest.raises(SystemExit, match="1000 hosts take more than this machine has"):
        fleet.up(None, target, 1000, tmp_path).__enter__()  # type: ignore[arg-type]


def test_the_first_to_break_is_reported_first() -> None:
    every = fleet.lacking(1000, fleet.Room(**LITTLE))
    assert [lack.partition(":")[0] for lack in every] == [
        *("memory", "processes", "ports", "open files of a process")
    ]


def test_this_machines_room_is_read() -> None:
    assert min(vars(fleet.room()).values()) > 0
    assert fleet.lacking(10, fleet.room()) == []


def test_a_master_is_ended_by_its_own_protocol(tmp_path: Path) -> None:
    """A process for each of a thousand would be counted as the controller's own time."""
    folder = tmp_path / ("long" * 30)  # longer than a socket's address
    folder.mkdir()
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as master:
        handle = os.open(folder, os.O_RDONLY)
        master.bind(f"/proc/self/fd/{handle}/master")
        os.close(handle)
        master.listen()

        def answer() -> None:
            peer, _address = master.accept()
            with peer:
                while sum(map(len, heard)) < 24:
                    heard.append(peer.recv(4096))

        thread = threading.Thread(target=answer)
        thread.start()
        fleet.close_masters(folder)
        thread.join(5)
    assert b"".join(heard) == struct.pack("!6I", 8, 1, 4, 8, 0x10000005, 0)
    fleet.close_masters(folder)  # one that has ended is no fault
    fleet.close_masters(tmp_path / "none")


# In a process of its own: it adopts orphans from then on.
WEIGHED = """\
import dataclasses, json, sys
from pathlib import Path
from bench import processes
processes.WEIGH_SECONDS = 0.05
program = "import os, time; b = bytearray(os.urandom(1)) * (64 << 20); os.fork(); time.sleep(4)"
for weigh in (True, False):
    cost = processes.measure([sys.executable, "-c", program], log=Path(sys.argv[1]), weigh=weigh)
    print(json.dumps(dataclasses.asdict(cost)))
"""


def test_the_memory_of_all_descendants_is_weighed_and_shared_pages_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WEIGHED, str(tmp_path / "log")],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    weighed, not_weighed = (json.loads(line) for line in done.stdout.splitlines())
    assert 64 << 20 < weighed["memory"] < 110 << 20
    assert not_weighed["memory"] == 0


def test_ours_alone_is_weighed_in_a_run_that_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    class Up:
        def __init__(self, _podman: Any, target: Any, count: int, folder: Path) -> None:
            self.fleet = fleet.Fleet(target, tuple(range(count)), folder)

        def __enter__(self) -> fleet.Fleet:
            return self.fleet

        def __exit__(self, *_error: object) -> None:
            pass

    def ours(hosts: fleet.Fleet, _ground: Any, weigh: Any = None) -> processes.Cost:
        calls.append(f"ours{len(hosts.ports)}{' weighed' if weigh else ''}")
        if weigh:
            weigh()
        return processes.Cost(2.0, 1.0, 0, 7 if weigh else 0)

    def ssh(hosts: fleet.Fleet, _ground: Any) -> processes.Cost:
        calls.append(f"ssh{len(hosts.ports)}")
        return processes.Cost(1.0, 0.5, 0)

    monkeypatch.setattr(rerun, "ours", ours)
    monkeypatch.setattr(rerun, "ALL", {"ours": ours, "ssh": ssh, "pyinfra": ssh})
    monkeypatch.setattr(rerun, "host_cpu", lambda *_arguments: 0.0)
    monkeypatch.setattr(rerun, "host_memory", lambda *_arguments: 9)
    monkeypatch.setattr(rerun.fleet, "up", Up)
    monkeypatch.setattr(rerun.Ground, "prepare", lambda _self: None)
    target = fleet.Target("192.0.2.1", "lab", tmp_path / "key", "box", "ssh-ed25519 AAAA")
    results = rerun.measure(
        None,  # type: ignore[arg-type]
        target,
        rerun.Ground(tmp_path, tmp_path, tmp_path, {}),
        counts=(1, 3),
        rounds=1,
        say=lambda _text: None,
        ways=("ours", "ssh"),
        weigh=True,
    )
    assert calls == ["ours1", "ssh1", "ours1 weighed", "ours3", "ssh3", "ours3 weighed"]
    assert len(results["runs"]["3"]["ours"]) == 1
    assert results["memory"]["3"] == {"controller": 7, "hosts": 9}


class Labs:
    """In place of hosts: labs that are up and down, and what is done to them."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def up(self, name: str, *_arguments: Any, **more: Any) -> Any:
        calls = self.calls
        calls.append(f"{name}: {' '.join(more.get('hosts', ['one']))}")

        class Lab:
            hosts = (type("Host", (), {"container": "box"}),)

            def down(self) -> None:
                calls.append("down")

        return Lab()


class Podman:
    def call(self, *_arguments: str) -> str:
        return "/\n"


@pytest.fixture
def labs(monkeypatch: pytest.MonkeyPatch) -> Labs:
    made = Labs()
    monkeypatch.setattr(together.locallab, "up", made.up)
    monkeypatch.setattr(together, "DISK_EACH", 1)
    return made


def test_six_at_once_are_measured_against_all_processors_at_work(
    labs: Labs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = iter([0.0, 700.0, 0.0, 160.0])
    monkeypatch.setattr(together, "_cpu", lambda *_arguments: next(used))
    monkeypatch.setattr(together.os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(together.state, "read", lambda *_arguments: {})
    monkeypatch.setattr(cold, "ours", lambda *_arguments: {"proven": 600.0})
    monkeypatch.setattr(cold, "by_hand", lambda *_arguments: {"proven": 120.0})
    ground = cold.Ground(tmp_path, tmp_path, None, Podman())  # type: ignore[arg-type]
    results = together.measure(ground, rounds=1, say=lambda _text: None)
    assert labs.calls == [
        "bench-six: host1 host2 host3 host4 host5 host6", "down", "bench-hand: hand", "down",
    ]  # fmt: skip
    assert results == {
        "cores": 2,
        "runs": [{"ours": 600.0, "cpu": 700.0, "hand": 120.0, "hand_cpu": 960.0, "least": 480.0}],
    }


def test_each_number_of_hosts_begins_with_an_empty_cache(
    labs: Labs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = iter([1000, 1001, 1002])
    monkeypatch.setattr(together.cached_lab, "write_inventory", lambda *_arguments: None)
    monkeypatch.setattr(together.cached_lab, "outside", lambda _lab: next(sent))
    monkeypatch.setattr(together, "_provision", lambda *_arguments: None)
    monkeypatch.setattr(cold, "playbook", lambda *_arguments: {"proven": 5.0})
    results = together.outside(tmp_path, Podman(), say=lambda _text: None)  # type: ignore[arg-type]
    assert labs.calls[::2] == [
        "bench-outside1: cache1 host1",
        "bench-outside3: cache1 host1 host2 host3",
        "bench-outside6: cache1 host1 host2 host3 host4 host5 host6",
    ]
    assert results["bytes"] == {"1": 1000, "3": 1001, "6": 1002}


def test_hosts_for_which_the_disk_has_no_room_are_not_begun(
    labs: Labs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "DISK_EACH", 1 << 60)
    with pytest.raises(SystemExit, match=r"7 hosts take \d+ GiB below /"):
        together.outside(tmp_path, Podman(), say=lambda _text: None)  # type: ignore[arg-type]
    assert labs.calls == []


def test_a_bundle_is_measured_against_real_copies_and_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours comes first in every second round; nothing of a round is left for the next."""
    calls: list[str] = []

    def make(_project: Path, target: Path, source: Path) -> dict[str, float]:
        calls.append(f"{target.name} of {source.name}")
        assert not target.exists()
        (target / "pool").mkdir(parents=True)
        (target / "pool" / "one.deb").write_bytes(b"x" * 1000)
        return {"wall": 3.0, "cpu": 2.0}

    real = bundling.copied

    def copied(source: Path, target: Path) -> dict[str, float]:
        calls.append("cp")
        assert not target.exists()
        return real(source, target)

    monkeypatch.setattr(bundling, "make", make)
    monkeypatch.setattr(bundling, "copied", copied)
    monkeypatch.setattr(bundling.os, "sync", lambda: None)
    monkeypatch.setattr(bundling, "VERIFY", ("true",))
    results = bundling.measure(
        tmp_path, tmp_path / "work", archive=Path("cudnn"), rounds=2, say=lambda _text: None
    )
    ours = "made of earlier"
    assert calls == ["earlier of cudnn", "cp", ours, ours, "cp"]
    assert (results["files"], results["bytes"]) == (1, 1000)
    assert [run["ours"] for run in results["runs"]] == [3.0, 3.0]
    # So few bytes can take no time that a clock shows.
    assert all(run["cp"] >= 0 and run["sha256sum"] >= 0 for run in results["runs"])
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("status", [5, 7])
def test_another_stack_stands_in_only_where_upstream_no_longer_has_the_demos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    made: list[str] = []

    def make(project: Path, target: Path, _source: Path) -> dict[str, float]:
        made.append(project.name)
        if project.name == "demo":
            raise bundling.FailedError("upstream no longer has what is locked", status)
        target.mkdir(exist_ok=True)
        return {"wall": 3.0, "cpu": 2.0}

    locked: list[str] = []
    monkeypatch.setattr(bundling, "make", make)
    monkeypatch.setattr(bundling, "one_round", lambda *_arguments: {"ours": 1.0})
    real = bundling._timed
    monkeypatch.setattr(
        bundling, "_timed", lambda command: locked.append(command[1]) or real(["true"])
    )
    work, messages = tmp_path / "work", []
    work.mkdir()
    if status != bundling.MOVED_ON:
        with pytest.raises(SystemExit, match="upstream"):
            bundling.measure(tmp_path / "demo", work, archive=work, rounds=1, say=messages.append)
        return
    results = bundling.measure(tmp_path / "demo", work, archive=work, rounds=1, say=messages.append)
    assert results["stand_in"] == "TensorFlow 2.21 on debian13"
    assert made == ["demo", "stand-in"]
    assert locked == ["lock", "bundle"]
    assert "upstream no longer has what is locked" in messages[1]
    part = results | {"runs": [{"ours": 1.0, "cp": 1.0, "sha256sum": 1.0}]}
    assert "another one was used: TensorFlow 2.21 on debian13" in page_fleet.bundle(part)


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(SystemExit, match="sh -c exit 3 failed"):
        bundling._timed(["sh", "-c", "exit 3"])


def step(action: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {"action": action, "seconds": seconds, "task": "cuda : tree | Move it", **more}


def test_a_runs_seconds_are_reported_by_what_they_were_spent_on() -> None:
    seconds = spending.spent(
        [
            step("provision.gpu.exact_packages", 40.0),
            step("provision.gpu.named_packages", 5.0),
            step("provision.gpu.gpu_venv", 20.0),
            step("ansible.builtin.stat", 0.2),
            step("ansible.builtin.command", 8.0),
        ],
        90.0,
    )
    assert seconds == {
        "packages": 45.0,
        "wheels": 20.0,
        "Ansible between them": 16.8,
        "cuda : tree | Move it": 8.0,
        "small steps": 0.2,
    }
    assert sum(seconds.values()) == pytest.approx(90.0)
    assert spending.spent([step("provision.gpu.gpu_venv", 9.0)], 5.0)["Ansible between them"] == 0


def test_a_limit_is_from_one_moment_to_the_next() -> None:
    moments = {"begun": 3.0, "fetched": 10.0, "unpacked": 40.5}
    assert spending.limits(moments) == {"line": 7.0, "unpack": 30.5}
    assert spending.limits(moments | {"compiled": 60.5})["compile"] == 20.0
    assert spending.limits({}) == {}


def test_the_limits_are_measured_by_what_the_host_has(tmp_path: Path) -> None:
    """The script itself, on real archives; the commands to fetch and build are stand-ins."""
    (tmp_path / "a").write_text("a")
    for command in (
        ["tar", "-czf", "one.tgz", "a"],
        [sys.executable, "-m", "zipfile", "-c", "one.whl", "a"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    variables = spending.variables(
        "echo fetched >note", f"{tmp_path}/none*.deb", f"{tmp_path}/*.tgz", f"{tmp_path}/*.whl",
        f"cp -r . {tmp_path}/seen",
    )  # fmt: skip
    script = (cold.WAYS / "limits.sh").read_text("utf-8").replace("/var/tmp", str(tmp_path))
    done = subprocess.run(
        ["bash", "-s"], input=variables + script, capture_output=True, text=True, check=True
    )
    moments = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("BENCH ")]
    assert moments == ["begun", *spending.MOMENTS]
    assert (tmp_path / "seen" / "note").read_text() == "fetched\n"
    assert len(list((tmp_path / "seen").glob("tmp.*/a"))) == 2
    assert not (tmp_path / "limits").exists()


def test_limits_that_cannot_be_measured_cost_no_other_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []

    def typed(*_arguments: Any, **_more: Any) -> dict[str, float]:
        raise SystemExit("the script failed: no such module")

    monkeypatch.setattr(cold, "typed", typed)
    assert cold.limits(None, tmp_path, "", say=messages.append) == {}  # type: ignore[arg-type]
    assert messages == ["the limits were not measured: the script failed: no such module"]
    monkeypatch.setattr(
        cold, "typed", lambda *_a, **_m: {"begun": 2.0, "fetched": 5.0, "unpacked": 9.0}
    )
    file = ("cat", tmp_path)
    least = cold.limits(None, tmp_path, "", file, say=messages.append)  # type: ignore[arg-type]
    assert least == {"line": 5.0, "unpack": 4.0}  # what was sent before is received too


def test_the_page_says_where_the_seconds_went() -> None:
    run = {"installed": 90.0, "proven": 95.0, "verified": 99.0, "steps": 5, "long": 70.0}
    part = {
        "ours": [run | {"spent": {"packages": 45.0, "wheels": 20.0, "small steps": 0.2}}],
        "by_hand": [{"installed": 80.0, "proven": 85.0}],
        "limits": {"line": 7.0, "unpack": 30.0},
    }
    text = page._cold(part)
    assert "(last run): packages 45 s, wheels 20 s." in text
    least = "receiving the same bytes 7 s, unpacking the same archives 30 s."
    assert f"Each alone, on all processors: {least}" in text
