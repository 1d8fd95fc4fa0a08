"""The health check of a node, and who drains it and takes it back, over recorded words."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import recorded_life as recorded
from gpu_stack.acceptance import kernel_log
from gpu_stack.components.slurm.program import gpus, health, job, node, programs, words
from slurm_node import SETTINGS, Processes, Slurm, away_from_here


@pytest.fixture(autouse=True)
def _no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away_from_here(tmp_path, monkeypatch)


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    monkeypatch.setattr(gpus, "_device", lambda _path: 1)
    return Processes(tmp_path)


# what Slurm says


def test_a_node_is_read_as_slurm_shows_it() -> None:
    idle, ours, admins = (
        words.node(text) for text in (recorded.IDLE, recorded.OURS, recorded.ADMINS)
    )
    assert idle is not None
    assert ours is not None
    assert admins is not None
    assert (idle["drained"], idle["reason"], idle["kind"]) == (False, None, None)
    assert (ours["drained"], ours["by"], ours["kind"]) == (True, "root", "acceptance")
    assert ours["reason"] == "provision: acceptance: GPU 1 has Xid 79"
    assert (admins["reason"], admins["kind"]) == ("disk (admin)=x y", None)
    assert words.node(recorded.NO_SUCH) is None
    down = words.node(recorded.IDLE.replace("State=IDLE", "State=DOWN*+DRAIN"))
    assert down is not None
    assert (down["down"], down["drained"]) == (True, True)


def test_a_reason_is_one_line_that_says_whose_it_is() -> None:
    text = words.reason(words.PROLOG, "pid 5 of ada (a\nb\x1b[31m é)" + "x" * 400)
    assert text.startswith("provision: prolog: pid 5 of ada (a?b?[31m ?)x")
    assert len(text) == words.LENGTH
    assert words.kind_of(text) == words.PROLOG
    for other in (None, "", "provision", "provision: by hand", "no provision: run: x"):
        assert words.kind_of(other) is None


def test_a_job_is_named_with_its_end() -> None:
    first, other = words.jobs(recorded.JOBS)
    assert words.job(first) == "job 1 of ada (train) until 2026-11-26 20:53 at most"
    assert words.job(other) == "job 3 of bob (my job|x), which has no time limit"


def test_a_process_is_known_by_its_job() -> None:
    assert words.pids(recorded.LISTPIDS) == {714: "1", 715: "1"}
    assert {text: words.job_of(text) for text in recorded.CGROUPS} == recorded.CGROUPS


# draining and taking back


def test_a_drain_of_somebody_elses_is_left_alone() -> None:
    slurm = Slurm(recorded.ADMINS)
    for kind in (words.ACCEPTANCE, words.HEALTH, words.RUN):
        assert not node.drain("gpu01", kind, "x", slurm)["done"]
        assert not node.lift("gpu01", kind, call=slurm)["done"]
    assert slurm.updates == []


def test_each_lifts_its_own_drain_alone() -> None:
    slurm = Slurm(recorded.OURS)
    assert not node.lift("gpu01", words.HEALTH, words.RUN, call=slurm)["done"]
    assert node.lift("gpu01", words.ACCEPTANCE, call=slurm)["done"]
    assert slurm.updates == [["nodename=gpu01", "state=undrain"]]


def test_an_acceptance_says_more_than_a_quick_check() -> None:
    slurm = Slurm(recorded.OF_PROLOG)
    assert not node.drain("gpu01", words.RUN, "the driver", slurm)["done"]
    assert node.drain("gpu01", words.ACCEPTANCE, "GPU 0 is lost", slurm)["done"]
    assert slurm.updates[0][2] == "reason=provision: acceptance: GPU 0 is lost"
    # The same reason is not set twice: each time is a new drain to whoever looks.
    slurm = Slurm(recorded.OURS)
    assert not node.drain("gpu01", words.ACCEPTANCE, "GPU 1 has Xid 79", slurm)["done"]
    assert slurm.updates == []


def test_a_node_that_went_down_meanwhile_is_resumed_only_where_it_was_up() -> None:
    shown = recorded.OURS.replace("MIXED", "DOWN").replace("acceptance", "run")
    slurm = Slurm(shown)
    node.lift("gpu01", words.RUN, call=slurm)
    node.lift("gpu01", words.RUN, also_down=True, call=slurm)
    assert [update[1] for update in slurm.updates] == ["state=undrain", "state=resume"]


def test_silence_is_said() -> None:
    with pytest.raises(node.SilentError, match="Unable to contact slurm controller"):
        node.look("gpu01", Slurm(recorded.SILENT))


# health


@pytest.mark.parametrize(
    ("smi", "why"),
    [
        ("hangs", "the driver does not answer: nvidia-smi did not answer within 20 s"),
        ("2, GPU-aa\n", "the driver lists no GPU 3"),
    ],
)
def test_a_node_whose_gpus_are_not_well_is_drained(smi: str, why: str) -> None:
    slurm = Slurm(smi=smi)
    assert health.check(SETTINGS, slurm) == "drained: " + why
    assert slurm.updates == [["nodename=gpu01", "state=drain", "reason=provision: health: " + why]]


def test_a_fatal_xid_drains_and_a_programs_own_does_not() -> None:
    line = "1764191000.000001 gpu01 kernel: NVRM: Xid (PCI:0000:3d:00): {0}, pid=7, name=x, words\n"
    slurm = Slurm(log=line.format(13))
    assert health.check(SETTINGS, slurm) == "well"
    slurm = Slurm(log=line.format(13) + line.format(79))
    assert health.check(SETTINGS, slurm).startswith("drained: GPU 0000:3d:00 has had Xid 79")


@pytest.mark.parametrize("simulated", [False, True])
def test_the_newest_fatal_xid_of_a_long_log_drains(
    simulated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's oldest lines stand first: its beginning alone was read."""
    usual = "1764191000.000001 gpu01 kernel: words that are no Xid\n"
    xid = "1764191000.000001 gpu01 kernel: NVRM: Xid (PCI:0000:3d:00): {0}, pid=7, name=x, words\n"
    log = tmp_path / "kernel.log"
    log.write_text(xid.format(48) + usual * 100 + xid.format(79) + usual)
    monkeypatch.setattr(programs, "LIMIT", 1000)
    monkeypatch.setattr(gpus, "JOURNAL", ["cat", str(log)])
    if simulated:
        monkeypatch.setattr(gpus, "SIMULATED", str(tmp_path))
        monkeypatch.setattr(gpus, "SIMULATED_LOG", str(log))
    assert gpus.fatal_xid([48, 79]) == "GPU 0000:3d:00 has had Xid 79 since the host booted"
    # No line that begins in what is left out is judged.
    assert gpus.fatal_xid([48]) is None


def test_a_line_that_is_cut_is_none() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 7 + b"\nlast\n")
        file.flush()
        assert programs.end_of(file.fileno(), 7) == "last\n"
        assert programs.end_of(file.fileno(), 12) == "last\n"
        assert programs.end_of(file.fileno(), 13) == "x" * 7 + "\nlast\n"
        assert programs.end_of(file.fileno(), 3) == ""


def test_no_name_of_a_persons_program_makes_an_xid() -> None:
    forged = (
        "1764191000.000001 gpu01 kernel: NVRM: Xid (PCI:0000:3d:00): 13, pid=7, name=a\n"
        "  NVRM: Xid (PCI:0000:3d:00): 79, x\n"
        "1764191000.000001 gpu01 python: NVRM: Xid (PCI:0000:3d:00): 79, x\n"
        "1764191000.000001 gpu01 kernel: traps: x NVRM: Xid (PCI:0000:3d:00): 79, x\n"
    )
    assert health.fault(SETTINGS, Slurm(log=forged)) is None
    assert [xid.number for xid in kernel_log.xids(forged)] == [13]


def test_a_node_without_gpus_of_slurms_is_well() -> None:
    assert health.check({"node": "gpu01", "gpus": []}, Slurm(smi="hangs")) == "well"


def test_health_takes_back_what_it_has_drained_and_nothing_else() -> None:
    slurm = Slurm(recorded.OURS.replace("acceptance", "health"))
    assert health.check(SETTINGS, slurm) == "taken back"
    for shown in (
        recorded.OURS,
        recorded.OURS.replace("acceptance", "run"),
        recorded.ADMINS,
        recorded.IDLE,
    ):
        slurm = Slurm(shown)
        assert health.check(SETTINGS, slurm) == "well"
        assert slurm.updates == []


def test_health_takes_nothing_back_while_a_run_has_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that answers again is not yet proven, and may be half installed."""
    monkeypatch.setattr(node, "RUNS", str(tmp_path / "slurm-drain.json"))
    (tmp_path / "slurm-drain.json").write_text("{}")
    slurm = Slurm(recorded.OURS.replace("acceptance", "health"))
    assert health.check(SETTINGS, slurm) == "well, but a run has the node for itself"
    assert slurm.updates == []
    (tmp_path / "slurm-drain.json").unlink()
    assert health.check(SETTINGS, slurm) == "taken back"


def test_what_a_prolog_drained_is_taken_back_when_nobody_is_there(processes: Processes) -> None:
    processes.add(5441, 2)
    slurm = Slurm(recorded.OF_PROLOG)
    assert health.check(SETTINGS, slurm).startswith("drained already: pid 5441 of ")
    processes.end(5441)
    assert health.check(SETTINGS, slurm) == "taken back"


def test_what_a_job_has_left_keeps_the_node_drained(processes: Processes) -> None:
    """Its cgroup is there for as long as its process is, whatever became of the job."""
    processes.add(41, 3, "0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0\n")
    slurm = Slurm()
    assert job.epilog(recorded.PROLOG, SETTINGS, slurm, settled=0)
    slurm = Slurm(recorded.OF_PROLOG.replace("prolog", "epilog"))
    slurm.jobs = "5\n"
    assert health.check(SETTINGS, slurm).startswith("drained already: pid 41 of ")
    assert slurm.updates == []
    slurm.jobs = "4\n5\n"
    assert health.check(SETTINGS, slurm) == "taken back"


def test_without_nvidia_smi_nobody_is_accused(processes: Processes) -> None:
    slurm = Slurm(smi="absent")
    assert health.check(SETTINGS, slurm) == "well"
    assert job.prolog(recorded.PROLOG, SETTINGS, slurm, settled=0) is None
    processes.add(21, 3)
    assert job.prolog(recorded.PROLOG, SETTINGS, slurm, settled=0)
