"""What a run tells Slurm: verdicts, drains before the driver changes, and their end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import recorded_life as recorded
from gpu_stack.components import nvidia_driver, slurm
from gpu_stack.components.nvidia_driver import rules as driver_rules
from gpu_stack.components.slurm import drain, jobs_first, node_files, shipped
from gpu_stack.components.slurm.program import node
from gpu_stack.host import gpu_shares
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError
from gpu_stack.plan import plan

from provision.render import shipped_files
from tests.collection import ROOT

RUN = recorded.OURS.replace("acceptance: GPU 1 has Xid 79", "run: the NVIDIA driver is changed")


class Host:
    """A node of Slurm's in a folder, and a Slurm that does what it is told."""

    def __init__(self, root: Path, shown: str = recorded.IDLE, jobs: str = "") -> None:
        self.root, self.shown, self.jobs = root, shown, jobs
        self.updates: list[list[str]] = []
        (root / "etc/provision-slurm").mkdir(parents=True)
        (root / node.SETTINGS.lstrip("/")).write_text('{"node": "gpu01", "gpus": [0, 1]}')
        self.context = Context(root=str(root), runner=self.run)

    def run(self, argv: list[str]) -> Result:
        if self.shown == recorded.SILENT:
            return Result(1, "", recorded.SILENT)
        if argv[0] == "squeue":
            return Result(0, self.jobs, "")
        if argv[:2] == ["scontrol", "show"]:
            return Result(0, self.shown, "")
        if argv[:2] == ["scontrol", "listpids"]:
            return Result(0, recorded.LISTPIDS, "")
        assert argv[:3] == ["scontrol", "update", "nodename=gpu01"], argv
        self.updates.append(argv[3:])
        self.shown = RUN if argv[3] == "state=drain" else recorded.IDLE
        return Result(0, "", "")

    def bring(self, state: str, check_mode: bool = False, **params: Any) -> dict[str, Any]:
        given = {"state": state, "verdict": "", "reason": "", "level": "quick", **params}
        return drain.bring(self.context, given, check_mode)

    @property
    def note(self) -> dict[str, Any] | None:
        return drain.noted(self.context)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


# an acceptance's verdict


def test_a_failed_host_is_drained_with_the_reason(host: Host) -> None:
    seen = host.bring("judged", verdict="failed", reason="GPU 1: failed: Xid 79; next: reboot")
    assert (seen["changed"], seen["said"]) == (True, "drained")
    why = "reason=provision: acceptance: quick: GPU 1: failed: Xid 79; next: reboot"
    assert host.updates == [["state=drain", why]]


@pytest.mark.parametrize("verdict", ["ok", "degraded", "not applicable"])
def test_a_host_that_is_no_longer_failed_comes_back(tmp_path: Path, verdict: str) -> None:
    host = Host(tmp_path, recorded.OURS)
    assert host.bring("judged", verdict=verdict)["said"] == "taken back"
    assert host.updates == [["state=undrain"]]


def drained_at(level: str) -> str:
    """What Slurm shows of a node that an acceptance of this level has drained."""
    return recorded.OURS.replace("acceptance: GPU 1 has", f"acceptance: {level}: GPU 1 has")


@pytest.mark.parametrize(
    ("by", "level", "verdict", "back"),
    [
        ("normal", "quick", "ok", False),
        ("long", "normal", "ok", False),
        ("normal", "normal", "ok", True),
        ("normal", "long", "degraded", True),
        ("quick", "quick", "ok", True),
        ("normal", "normal", "not applicable", False),
    ],
)
def test_an_acceptance_that_asks_less_does_not_take_a_node_back(
    tmp_path: Path, by: str, level: str, verdict: str, back: bool
) -> None:
    """Wrong results are not seen by one that computes nothing."""
    host = Host(tmp_path, drained_at(by))
    seen = host.bring("judged", verdict=verdict, level=level)
    assert seen["changed"] is back
    assert seen["said"] == ("taken back" if back else (
        f"stays drained until an acceptance of the level {by} finds it well: "
        f"provision: acceptance: {by}: GPU 1 has Xid 79"
    ))  # fmt: skip


def test_a_reason_says_which_acceptance_drained(host: Host) -> None:
    host.bring("judged", verdict="failed", level="normal", reason="GPU 1: failed: wrong results")
    why = "reason=provision: acceptance: normal: GPU 1: failed: wrong results"
    assert host.updates == [["state=drain", why]]


def test_an_acceptance_that_asks_less_does_not_replace_the_reason(tmp_path: Path) -> None:
    """Else the next one of its level would take the node back."""
    host = Host(tmp_path, drained_at("normal"))
    seen = host.bring("judged", verdict="failed", level="quick", reason="GPU 0: failed: lost")
    assert (seen["changed"], host.updates) == (False, [])
    assert seen["said"].startswith("drained already by root: provision: acceptance: normal: GPU 1")
    host.bring("judged", verdict="failed", level="long", reason="GPU 0: failed: lost")
    why = "reason=provision: acceptance: long: GPU 0: failed: lost"
    assert host.updates == [["state=drain", why]]


def test_an_administrators_drain_stays_whatever_the_verdict(tmp_path: Path) -> None:
    host = Host(tmp_path, recorded.ADMINS)
    for verdict in ("ok", "failed"):
        seen = host.bring("judged", verdict=verdict, reason="x")
        assert (seen["changed"], seen["said"]) == (
            False, "drained already by root: disk (admin)=x y",
        )  # fmt: skip
    assert host.updates == []


def test_a_verdict_stands_whatever_slurm_knows_of_it(tmp_path: Path) -> None:
    seen = Host(tmp_path, recorded.SILENT).bring("judged", verdict="failed", reason="x")
    assert not seen["changed"]
    assert seen["said"].startswith("it does not answer on this host: slurm_load_node error")


def test_a_host_that_is_no_node_is_not_asked(tmp_path: Path) -> None:
    host = Host(tmp_path, recorded.SILENT)
    (tmp_path / node.SETTINGS.lstrip("/")).unlink()
    assert host.bring("drained")["node"] == ""


# a run's drain


def test_a_run_drains_and_takes_back(host: Host) -> None:
    host.jobs = recorded.JOBS
    seen = host.bring("drained", reason="the NVIDIA driver is changed")
    assert seen["said"] == "drained"
    assert seen["jobs"] == [
        "job 1 of ada (train) until 2026-11-26 20:53 at most",
        "job 3 of bob (my job|x), which has no time limit",
    ]
    assert host.note is not None
    assert host.bring("left")["jobs"] == seen["jobs"]
    assert host.bring("resumed")["said"] == "taken back"
    assert [update[0] for update in host.updates] == ["state=drain", "state=undrain"]
    assert host.note is None


def test_it_is_noted_before_slurm_is_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(node, "_update", killed)
    with pytest.raises(KeyboardInterrupt):
        host.bring("drained", reason="x")
    assert host.note is not None


def test_the_next_run_takes_back_what_a_killed_one_has_drained(host: Host) -> None:
    host.bring("drained", reason="the driver")
    note = host.note
    # The next run drains again: how the node had been, only the first one saw.
    host.shown = RUN.replace("MIXED", "DOWN")
    host.bring("drained", reason="the driver")
    assert host.note == note
    host.shown = RUN.replace("MIXED", "DOWN")
    host.bring("resumed")
    # Up before, and down by our reboot.
    assert host.updates[-1] == ["state=resume"]


def test_a_node_that_was_down_stays_down(tmp_path: Path) -> None:
    host = Host(tmp_path, recorded.IDLE.replace("State=IDLE", "State=DOWN*"))
    host.bring("drained", reason="x")
    host.shown = RUN.replace("MIXED", "DOWN")
    host.bring("resumed")
    assert host.updates[-1] == ["state=undrain"]


def test_a_run_leaves_an_administrators_drain(tmp_path: Path) -> None:
    host = Host(tmp_path, recorded.ADMINS)
    assert host.bring("drained", reason="x")["said"].startswith("drained already by root")
    assert host.bring("resumed")["said"] == "stays drained: disk (admin)=x y"
    assert (host.updates, host.note) == ([], None)


def test_a_run_that_slurm_does_not_answer_stops(tmp_path: Path) -> None:
    host = Host(tmp_path, recorded.SILENT)
    with pytest.raises(RefusalError, match="Slurm: it does not answer on this host: slurm_load"):
        host.bring("drained", reason="x")
    assert host.note is None


def test_check_mode_tells_nobody(host: Host) -> None:
    for state in ("judged", "drained", "left", "resumed"):
        host.bring(state, check_mode=True, verdict="failed")
    assert (host.updates, host.note) == ([], None)


# the plan and its rules

DRIVER = {
    "component": "nvidia_driver", "item": "nvidia-driver-libs", "from": "470.1", "to": "470.2",
    "reason": "", "reboot": False, "selected": True, "repair": None,
}  # fmt: skip
ROW = {"nvidia_driver": {"branch": "470", "packages": {"userspace": {"nvidia-driver-libs": "1"}}}}


def survey(host: Host, *changes: dict[str, Any], **facts: Any) -> dict[str, Any]:
    host.context.row = ROW
    found: dict[str, Any] = {
        "preflight": {"processes": [], "transaction": {"removed": [], "held": []}, **facts},
        "state": {"nvidia_driver": {}},
    }
    found["preflight"].update(nvidia_driver.survey(host.context, found, list(changes)))
    return slurm.survey(host.context, found, list(changes)).get("slurm_drain") or {}


def test_a_change_of_the_driver_waits_for_jobs(host: Host) -> None:
    host.jobs = recorded.JOBS
    seen = survey(host, DRIVER, processes=[{"pid": 714}, {"pid": 900}])
    assert seen["drain"] == {
        "needed": True, "resume": True, "reason": "the NVIDIA driver is changed",
    }  # fmt: skip
    assert seen["pids"] == {714: "1"}
    facts = {"preflight": {"slurm_drain": seen}}
    ((message, hint),) = jobs_first.drained_first(facts, [], {"slurm_drain_patience": 60}, ROW)
    assert "gpu01 is drained first, and these jobs end: job 1 of ada (train) until" in message
    assert hint == "the run waits at most 60 s (slurm_drain_patience)"


def test_what_no_job_would_notice_drains_nothing(host: Host) -> None:
    for change in ({**DRIVER, "selected": False}, {**DRIVER, "item": "hold"},
                   {**DRIVER, "component": "cudnn"}):  # fmt: skip
        assert not survey(host, change)["drain"]["needed"]
    reboot = {**DRIVER, "item": "kernel module", "reboot": True}
    host.context.options = {"nvidia_driver_reboot": True}
    assert survey(host, reboot)["drain"]["reason"] == "the host is rebooted"


def test_the_next_run_resumes_though_it_changes_nothing_of_the_driver(host: Host) -> None:
    host.bring("drained", reason="x")
    assert survey(host)["drain"] == {"needed": False, "resume": True, "reason": ""}


def test_a_node_is_not_taken_back_with_a_driver_that_this_run_leaves_as_it_is(host: Host) -> None:
    """A run was killed as it changed the driver; without its tag the driver is not proven."""
    host.bring("drained", reason="x")
    assert survey(host, {**DRIVER, "selected": False})["drain"]["resume"] is False
    assert survey(host, {**DRIVER, "component": "cuda", "selected": False})["drain"]["resume"]
    assert survey(host, DRIVER)["drain"]["resume"]


def test_slurms_silence_stops_a_change_of_the_driver(tmp_path: Path) -> None:
    seen = survey(Host(tmp_path, recorded.SILENT), DRIVER)
    facts = {"preflight": {"slurm_drain": seen}}
    ((message, _hint),) = jobs_first.silent(facts, [], {}, ROW)
    assert message.startswith("the NVIDIA driver is changed, and Slurm does not say whose jobs")
    assert jobs_first.drained_first(facts, [], {}, ROW) == []


def test_a_process_of_no_job_is_still_in_the_way() -> None:
    running = [{"pid": pid, "user": "ada", "command": "python"} for pid in (714, 900)]
    facts: dict[str, Any] = {"preflight": {"processes": running}}
    ((message, _hint),) = driver_rules.gpu_processes(facts, [DRIVER], {}, ROW)
    assert "pid 714" in message
    facts["preflight"]["slurm_drain"] = {"pids": {714: "1"}}
    ((message, _hint),) = driver_rules.gpu_processes(facts, [DRIVER], {}, ROW)
    assert "pid 714" not in message
    assert "pid 900 of ada" in message
    facts["preflight"]["slurm_drain"] = {"pids": {714: "1", 900: "1"}}
    assert driver_rules.gpu_processes(facts, [DRIVER], {}, ROW) == []


def test_a_host_without_slurm_is_not_asked(tmp_path: Path) -> None:
    assert slurm.survey(Context(root=str(tmp_path)), {"preflight": {}}, []) == {}


def test_a_plan_says_it_to_the_playbook() -> None:
    facts: dict[str, Any] = {
        "platform": {}, "gpus": [], "container": False, "simulated_gpu": False, "state": {},
        "receipt": None, "preflight": {},
    }  # fmt: skip
    nothing = {"needed": False, "resume": False, "reason": ""}
    assert plan({"rows": []}, {}, {}, facts)["drain"] == nothing
    facts["preflight"]["slurm_drain"] = {"drain": {"needed": True, "resume": True, "reason": "x"}}
    assert plan({"rows": []}, {}, {}, facts)["drain"]["needed"] is True


# the files of a node

PART = {"name": "gpu01", "gpus": [{"type": "t4", "file": "/dev/nvidia0"}]}
LAUNCHERS = {
    name: (ROOT / shipped_files.SLURM.role_files / name).read_text("utf-8")
    for name in shipped_files.SLURM.programs
}


def test_its_files_are_brought_compared_and_taken_away(host: Host) -> None:
    for folder in ("usr/local/lib", "usr/local/sbin"):
        (host.root / folder).mkdir(parents=True)

    def differences() -> list[tuple[str, Any]]:
        changes = node_files.differences(node_files.look(host.context), PART)
        return [(item, old) for item, old, _new, _why in changes]

    assert (shipped.LIBRARY, "absent") in differences()
    assert node_files.install(host.context, LAUNCHERS, node_files.settings(PART), dry=True)
    assert not (host.root / "usr/local/sbin/gpu-slurm-health").exists()
    node_files.install(host.context, LAUNCHERS, node_files.settings(PART), dry=False)
    assert differences() == []
    for place, mode, path in shipped_files.SLURM.files(ROOT):
        file = host.root / place.lstrip("/")
        assert (file.stat().st_mode & 0o777, file.read_bytes()) == (
            mode, (ROOT / path).read_bytes(),
        )  # fmt: skip
    # Edited, open to others, and left by an earlier version.
    prolog = host.root / "usr/local/sbin/gpu-slurm-prolog"
    prolog.write_text("#!/bin/sh\n")
    (host.root / node.SETTINGS.lstrip("/")).chmod(0o666)
    (host.root / "usr/local/lib/gpu-slurm/program/old.py").write_text("")
    assert differences() == [
        (node.SETTINGS, "mode 0666"), ("/usr/local/sbin/gpu-slurm-prolog", "other content"),
    ]  # fmt: skip
    node_files.install(host.context, LAUNCHERS, node_files.settings(PART), dry=False)
    assert differences() == []
    assert not (host.root / "usr/local/lib/gpu-slurm/program/old.py").exists()
    node_files.remove(host.context)
    assert not (host.root / "usr/local/lib/gpu-slurm").exists()
    assert not prolog.exists()


def test_a_job_that_a_prolog_refuses_is_not_held() -> None:
    assert node_files.with_scheduler([]) == ["SchedulerParameters=nohold_on_prolog_fail"]
    extra = ["SchedulerParameters=bf_max_job_test=500", "KillWait=60"]
    assert node_files.with_scheduler(extra) == [
        "SchedulerParameters=bf_max_job_test=500,nohold_on_prolog_fail", "KillWait=60",
    ]  # fmt: skip


def test_an_acceptance_knows_a_node_by_the_same_file() -> None:
    assert gpu_shares.NODE == node.SETTINGS


def test_a_damaged_note_counts_as_one(host: Host) -> None:
    path = host.root / drain.NOTE.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert host.note == {}
    host.shown = RUN
    host.bring("resumed")
    assert host.updates == [["state=undrain"]]
    assert not path.exists()


def test_a_note_says_what_it_is(host: Host) -> None:
    host.bring("drained", reason="x")
    noted = json.loads((host.root / drain.NOTE.lstrip("/")).read_text())
    assert {**noted, "at": 0} == {"format": 1, "node": "gpu01", "down": False, "at": 0}
