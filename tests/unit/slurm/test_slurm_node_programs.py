"""What slurmd calls on a node: the health check, the prolog and the epilog, over recorded words."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import recorded_life as said
from gpu_stack.acceptance import kernel_log
from gpu_stack.components.slurm import node_files
from gpu_stack.components.slurm.program import (
    command_line,
    gpus,
    health,
    job,
    node,
    programs,
    words,
)

SETTINGS = {"node": "gpu01", "gpus": [2, 3], "fatal_xids": [48, 79]}


class Slurm:
    """Answers as recorded, and keeps what it was told."""

    def __init__(self, shown: str = said.IDLE, smi: str = "", log: str = "") -> None:
        self.shown, self.log = shown, log
        self.smi = smi or "2, GPU-aa\n3, GPU-bb\n"
        self.work, self.jobs = "", ""
        self.updates: list[list[str]] = []

    def __call__(self, argv: list[str], _patience: float) -> tuple[int, str, str]:
        if argv[0] == "nvidia-smi":
            return self._smi(argv)
        if argv[:2] == ["scontrol", "show"]:
            return (0, self.shown, "") if self.shown != said.SILENT else (1, "", said.SILENT)
        if argv[:2] == ["scontrol", "update"]:
            self.updates.append(argv[2:])
            return 0, "", ""
        if argv[:2] == ["scontrol", "listpids"]:
            return 0, said.LISTPIDS, ""
        if argv[0] == "squeue":
            assert argv[-2:] == ["--format", "%A"]
            assert "COMPLETING" not in argv[argv.index("--states") + 1]
            return 0, self.jobs, ""
        if argv[0] in ("journalctl", "dmesg"):
            return 0, self.log, ""
        raise AssertionError(argv)

    def _smi(self, argv: list[str]) -> tuple[int, str, str]:
        if self.smi == "absent":
            return 127, "", "nvidia-smi: No such file or directory"
        if self.smi == "hangs":
            return 124, "", "nvidia-smi did not answer within 20 s"
        if "--query-compute-apps=gpu_uuid,pid" in argv:
            return 0, self.work, ""
        if argv[1] == "-i":
            return (0, "GPU-aa\n", "") if f"{argv[2]}, GPU" in self.smi else (6, "", "No devices")
        return 0, self.smi, ""


@pytest.fixture(autouse=True)
def _no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "SIMULATED", str(tmp_path / "none"))
    (tmp_path / "proc").mkdir()
    monkeypatch.setattr(gpus, "PROC", str(tmp_path / "proc"))
    monkeypatch.setattr(gpus, "_device", lambda path: path)


class Processes:
    """A /proc of made-up processes, each with a device file of a GPU open."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(
        self, pid: int, gpu: int | None, cgroup: str = "", comm: str = "python", uid: int = 0
    ) -> None:
        place = self.root / "proc" / str(pid)
        (place / "fd").mkdir(parents=True)
        if gpu is not None:
            (place / "fd" / "3").symlink_to(f"/dev/nvidia{gpu}")
        (place / "stat").write_text(f"{pid} ({comm}) S " + " ".join(["0"] * 18) + f" {pid} 0\n")
        (place / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t0\t0\t0\nGid:\t0\n")
        (place / "comm").write_text(comm + "\n")
        (place / "cmdline").write_text(f"{comm}\0train.py\0")
        (place / "cgroup").write_text(cgroup)

    def end(self, pid: int) -> None:
        (self.root / "proc" / str(pid) / "fd" / "3").unlink()


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    monkeypatch.setattr(gpus, "_device", lambda _path: 1)
    return Processes(tmp_path)


# what Slurm says


def test_a_node_is_read_as_slurm_shows_it() -> None:
    idle, ours, admins = (words.node(text) for text in (said.IDLE, said.OURS, said.ADMINS))
    assert idle is not None
    assert ours is not None
    assert admins is not None
    assert (idle["drained"], idle["reason"], idle["kind"]) == (False, None, None)
    assert (ours["drained"], ours["by"], ours["kind"]) == (True, "root", "acceptance")
    assert ours["reason"] == "provision: acceptance: GPU 1 has Xid 79"
    assert (admins["reason"], admins["kind"]) == ("disk (admin)=x y", None)
    assert words.node(said.NO_SUCH) is None
    down = words.node(said.IDLE.replace("State=IDLE", "State=DOWN*+DRAIN"))
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
    one, other = words.jobs(said.JOBS)
    assert words.job(one) == "job 1 of ada (train) until 2026-11-26 20:53 at most"
    assert words.job(other) == "job 3 of bob (my job|x), which has no time limit"


def test_a_process_is_known_by_its_job() -> None:
    assert words.pids(said.LISTPIDS) == {714: "1", 715: "1"}
    assert {text: words.job_of(text) for text in said.CGROUPS} == said.CGROUPS


# draining and taking back


def test_a_drain_of_somebody_elses_is_left_alone() -> None:
    slurm = Slurm(said.ADMINS)
    for kind in (words.ACCEPTANCE, words.HEALTH, words.RUN):
        assert not node.drain("gpu01", kind, "x", slurm)["done"]
        assert not node.lift("gpu01", kind, call=slurm)["done"]
    assert slurm.updates == []


def test_each_lifts_its_own_drain_alone() -> None:
    slurm = Slurm(said.OURS)
    assert not node.lift("gpu01", words.HEALTH, words.RUN, call=slurm)["done"]
    assert node.lift("gpu01", words.ACCEPTANCE, call=slurm)["done"]
    assert slurm.updates == [["nodename=gpu01", "state=undrain"]]


def test_an_acceptance_says_more_than_a_quick_check() -> None:
    slurm = Slurm(said.OF_PROLOG)
    assert not node.drain("gpu01", words.RUN, "the driver", slurm)["done"]
    assert node.drain("gpu01", words.ACCEPTANCE, "GPU 0 is lost", slurm)["done"]
    assert slurm.updates[0][2] == "reason=provision: acceptance: GPU 0 is lost"
    # The same reason is not set twice: each time is a new drain to whoever looks.
    slurm = Slurm(said.OURS)
    assert not node.drain("gpu01", words.ACCEPTANCE, "GPU 1 has Xid 79", slurm)["done"]
    assert slurm.updates == []


def test_a_node_that_went_down_meanwhile_is_resumed_only_where_it_was_up() -> None:
    shown = said.OURS.replace("MIXED", "DOWN").replace("acceptance", "run")
    slurm = Slurm(shown)
    node.lift("gpu01", words.RUN, call=slurm)
    node.lift("gpu01", words.RUN, also_down=True, call=slurm)
    assert [update[1] for update in slurm.updates] == ["state=undrain", "state=resume"]


def test_silence_is_said() -> None:
    with pytest.raises(node.SilentError, match="Unable to contact slurm controller"):
        node.look("gpu01", Slurm(said.SILENT))


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
    slurm = Slurm(said.OURS.replace("acceptance", "health"))
    assert health.check(SETTINGS, slurm) == "taken back"
    for shown in (said.OURS, said.OURS.replace("acceptance", "run"), said.ADMINS, said.IDLE):
        slurm = Slurm(shown)
        assert health.check(SETTINGS, slurm) == "well"
        assert slurm.updates == []


def test_health_takes_nothing_back_while_a_run_has_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that answers again is not yet proven, and may be half installed."""
    monkeypatch.setattr(node, "RUNS", str(tmp_path / "slurm-drain.json"))
    (tmp_path / "slurm-drain.json").write_text("{}")
    slurm = Slurm(said.OURS.replace("acceptance", "health"))
    assert health.check(SETTINGS, slurm) == "well, but a run has the node for itself"
    assert slurm.updates == []
    (tmp_path / "slurm-drain.json").unlink()
    assert health.check(SETTINGS, slurm) == "taken back"


def test_what_a_prolog_drained_is_taken_back_when_nobody_is_there(processes: Processes) -> None:
    processes.add(5441, 2)
    slurm = Slurm(said.OF_PROLOG)
    assert health.check(SETTINGS, slurm).startswith("drained already: pid 5441 of ")
    processes.end(5441)
    assert health.check(SETTINGS, slurm) == "taken back"


def test_what_a_job_has_left_keeps_the_node_drained(processes: Processes) -> None:
    """Its cgroup is there for as long as its process is, whatever became of the job."""
    processes.add(41, 3, "0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0\n")
    slurm = Slurm()
    assert job.epilog(said.PROLOG, SETTINGS, slurm, settled=0)
    slurm = Slurm(said.OF_PROLOG.replace("prolog", "epilog"))
    slurm.jobs = "5\n"
    assert health.check(SETTINGS, slurm).startswith("drained already: pid 41 of ")
    assert slurm.updates == []
    slurm.jobs = "4\n5\n"
    assert health.check(SETTINGS, slurm) == "taken back"


def test_without_nvidia_smi_nobody_is_accused(processes: Processes) -> None:
    slurm = Slurm(smi="absent")
    assert health.check(SETTINGS, slurm) == "well"
    assert job.prolog(said.PROLOG, SETTINGS, slurm, settled=0) is None
    processes.add(21, 3)
    assert job.prolog(said.PROLOG, SETTINGS, slurm, settled=0)


# prolog and epilog


def test_slurms_gpus_are_counted_in_the_order_of_gres_conf() -> None:
    assert job.of_job(said.PROLOG, SETTINGS) == ("4", [3])
    assert job.of_job({"SLURM_JOB_ID": "4"}, SETTINGS) == ("4", [])
    assert job.of_job({"SLURM_JOB_GPUS": "0,x,7"}, SETTINGS) == ("", [2])


def test_slurm_20_11_says_the_numbers_of_the_files() -> None:
    """Debian 11's sets no SLURM_JOB_GPUS for a prolog: gres_gpu.c, epilog_set_env."""
    old = {"SLURM_JOB_ID": "4", "CUDA_VISIBLE_DEVICES": "3", "GPU_DEVICE_ORDINAL": "3"}
    assert job.of_job(old, SETTINGS) == ("4", [3])
    # Not one of Slurm's, and what later releases say there.
    assert job.of_job({**old, "CUDA_VISIBLE_DEVICES": "0,GPU-aa"}, SETTINGS) == ("4", [])


def test_a_job_begins_where_its_gpu_is_free(processes: Processes) -> None:
    processes.add(11, 2)  # somebody on another GPU
    processes.add(12, None)
    processes.add(13, 3, "0::/system.slice/slurmstepd.scope/job_4/step_batch/user/task_0\n")
    processes.add(14, 3, comm="nvidia-persiste")
    slurm = Slurm()
    assert job.prolog(said.PROLOG, SETTINGS, slurm, settled=0) is None
    assert job.prolog({"SLURM_JOB_ID": "4"}, SETTINGS, slurm, settled=0) is None
    assert slurm.updates == []


@pytest.mark.parametrize("name", ["nvidia-persiste", "nvidia-smi", "Xorg"])
def test_a_login_screen_and_a_daemon_are_in_no_jobs_way(processes: Processes, name: str) -> None:
    """Else each node with a screen refuses each job, and is drained for it."""
    processes.add(14, 3, comm=name)
    assert job.prolog(said.PROLOG, SETTINGS, Slurm(), settled=0) is None


def test_a_daemons_name_is_no_excuse_for_a_person(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.add(14, 3, comm="nvidia-persiste")
    monkeypatch.setattr(gpus, "FIRST_PERSON", 0)
    assert job.prolog(said.PROLOG, SETTINGS, Slurm(), settled=0)


def test_who_hides_behind_a_process_that_is_not_dumpable_is_no_daemon(
    processes: Processes,
) -> None:
    """/proc/PID is root's then; anybody can ask that of the kernel, and choose the name."""
    processes.add(14, 3, comm="nvidia-persiste", uid=gpus.FIRST_PERSON)
    assert job.prolog(said.PROLOG, SETTINGS, Slurm(), settled=0)


def test_a_gpu_in_use_outside_of_the_job_refuses_it(processes: Processes) -> None:
    processes.add(21, 3, "0::/user.slice/user-1001.slice\n")
    processes.add(714, 3)
    slurm = Slurm()
    wrong = job.prolog(said.PROLOG, SETTINGS, slurm, settled=0)
    assert wrong is not None
    assert wrong.startswith("in use outside of job 4: pid 21 of ")
    assert "(python train.py) on GPU 3; pid 714 of" in wrong
    assert slurm.updates == [
        ["nodename=gpu01", "state=drain", words.reason(words.PROLOG, wrong).join(["reason=", ""])]
    ]


def test_who_ends_meanwhile_is_in_nobodys_way(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.add(21, 3)
    monkeypatch.setattr(gpus.time, "sleep", lambda _seconds: processes.end(21))
    assert job.prolog(said.PROLOG, SETTINGS, Slurm(), settled=60) is None


def test_the_driver_names_who_can_not_be_looked_at(processes: Processes) -> None:
    processes.add(31, None)
    slurm = Slurm()
    slurm.work = "GPU-bb, 31\nGPU-aa, 32\n"
    assert "pid 31 of" in (job.prolog(said.PROLOG, SETTINGS, slurm, settled=0) or "")


def test_a_gpu_that_does_not_answer_refuses_the_job() -> None:
    slurm = Slurm(smi="2, GPU-aa\n")
    wrong = job.prolog(said.PROLOG, SETTINGS, slurm, settled=0)
    assert wrong == "GPU 3 does not answer: No devices"
    assert slurm.updates[0][2] == "reason=provision: prolog: " + wrong


def test_a_driver_that_is_well_is_asked_once_for_all_gpus_of_a_job() -> None:
    """It may take seconds for each, and a prolog has less than a minute."""
    asked: list[list[str]] = []
    slurm = Slurm()

    def call(argv: list[str], patience: float) -> tuple[int, str, str]:
        asked.append(argv)
        return slurm(argv, patience)

    both = {**said.PROLOG, "SLURM_JOB_GPUS": "0,1"}
    assert job.prolog(both, SETTINGS, call, settled=0) is None
    assert asked == [gpus.LIST, gpus.WORK]
    hangs = job.prolog(both, SETTINGS, Slurm(smi="hangs"), settled=0)
    assert hangs == "the driver does not answer: nvidia-smi did not answer within 20 s"


def test_an_epilog_names_what_is_left_and_ends_nothing(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "kill", lambda *_words: pytest.fail("a process was ended"))
    processes.add(41, 3, "0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0\n")
    processes.add(42, 3, "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n")
    slurm = Slurm()
    wrong = job.epilog(said.PROLOG, SETTINGS, slurm, settled=0)
    assert wrong is not None
    assert wrong.startswith("left by job 4: pid 41 of ")
    assert "42" not in wrong  # another job's, which shares the GPU
    assert slurm.updates[0][2] == "reason=provision: epilog: " + wrong
    processes.add(43, 3)
    assert "in use after job 4" in (job.epilog(said.PROLOG, SETTINGS, slurm, settled=0) or "")


def test_an_epilog_of_a_clean_job_says_nothing(processes: Processes) -> None:
    processes.add(41, 2)
    slurm = Slurm()
    assert job.epilog(said.PROLOG, SETTINGS, slurm, settled=0) is None
    assert slurm.updates == []


def test_a_file_of_that_name_is_not_the_device(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container of their own anybody has a /dev/nvidia3."""
    processes.add(51, 3)
    monkeypatch.setattr(gpus, "_device", lambda path: path)
    assert gpus.holders([3], Slurm()) == []


# programs and settings


def test_a_program_that_hangs_is_not_waited_for() -> None:
    begin = time.monotonic()
    code, out, why = programs.call(["sleep", "30"], 0.2)
    assert (code, out, why) == (124, "", "sleep did not answer within 0 s")
    assert time.monotonic() - begin < 5
    assert programs.call(["sh", "-c", "echo a; echo b >&2; exit 3"], 5) == (3, "a\n", "b\n")
    assert programs.call(["no-such-program"], 5)[0] == 127


def test_a_full_disk_makes_no_node_sick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert programs.call(["echo", "well"], 5) == (0, "well\n", "")


def test_programs_get_nothing_of_a_jobs_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD_X", "1")
    monkeypatch.setenv("SLURM_CONF", "/run/slurm/conf/slurm.conf")
    _code, out, _error = programs.call(["env"], 5)
    assert sorted(line.partition("=")[0] for line in out.splitlines()) == [
        "LC_ALL", "PATH", "SLURM_CONF",
    ]  # fmt: skip
    monkeypatch.setenv("SLURM_CONF", "home/slurm.conf")
    assert "SLURM_CONF" not in programs.environment()


def made(path: Path, text: str, mode: int = 0o644) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_settings_that_somebody_else_can_write_are_none(tmp_path: Path) -> None:
    part = {"name": "gpu01", "gpus": [{"type": "t4", "file": "/dev/nvidia3"}]}
    text = node_files.settings(part)
    good = made(tmp_path / "node.json", text)
    assert node.settings(good) == {
        "node": "gpu01", "gpus": [3], "closed": [], "fatal_xids": node_files.fatal_xids(),
    }  # fmt: skip
    (tmp_path / "link").symlink_to(good)
    os.mkfifo(tmp_path / "fifo")
    for path in (
        made(tmp_path / "open", text, 0o666),
        str(tmp_path / "link"),
        str(tmp_path / "fifo"),
        str(tmp_path / "none"),
        made(tmp_path / "broken", "{"),
    ):
        assert node.settings(path) is None, path


def test_only_what_an_acceptance_fails_is_fatal() -> None:
    numbers = node_files.fatal_xids()
    assert {48, 79} <= set(numbers)
    assert not {13, 31, 43} & set(numbers)


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("gpu-slurm-health", 0, "well\n"),
        ("gpu-slurm-prolog", 1, "GPU 3 does not answer"),
        ("gpu-slurm-epilog", 0, ""),
        ("gpu-slurm", 2, "gpu-slurm-health"),
    ],
)
def test_slurmd_calls_it_by_its_name(
    name: str,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(node, "settings", lambda: SETTINGS)
    monkeypatch.setattr(command_line.signal, "alarm", lambda _seconds: None)
    monkeypatch.setattr(health, "check", lambda _settings: "well")
    monkeypatch.setattr(job, "prolog", lambda *_words: "GPU 3 does not answer")
    monkeypatch.setattr(job, "epilog", lambda *_words: None)
    assert command_line.main(name) == code
    assert told in "".join(capsys.readouterr())


def test_without_settings_nothing_is_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(node, "settings", lambda: None)
    assert command_line.main("gpu-slurm-prolog") == 1
    assert "is not here, or not root's alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "code", "kinds"),
    [
        ("gpu-slurm-prolog", 1, [words.PROLOG]),
        ("gpu-slurm-epilog", 0, [words.EPILOG]),
        ("gpu-slurm-health", 1, []),
    ],
)
def test_what_takes_too_long_drains_by_a_reason_of_ours(
    name: str, code: int, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of slurmd's own, "Prolog error", no health check would take the node back."""
    drained: list[str] = []
    monkeypatch.setattr(command_line, "LIMIT", 1)
    monkeypatch.setattr(node, "settings", lambda: SETTINGS)
    monkeypatch.setattr(node, "drain", lambda _name, kind, _why: drained.append(kind))
    for module, word in ((health, "check"), (job, "prolog"), (job, "epilog")):
        monkeypatch.setattr(module, word, lambda *_words: time.sleep(5))
    assert command_line.main(name) == code
    assert drained == kinds


def test_slurms_silence_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent(*_words: Any) -> Iterable[Any]:
        raise node.SilentError("nobody there")

    monkeypatch.setattr(node, "settings", lambda: SETTINGS)
    monkeypatch.setattr(command_line.signal, "alarm", lambda _seconds: None)
    monkeypatch.setattr(health, "check", silent)
    assert command_line.main("gpu-slurm-health") == 1
    assert capsys.readouterr().err == "Slurm does not answer: nobody there\n"
