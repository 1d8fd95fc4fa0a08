"""GPUs that are not Slurm's: whether jobs can open their device files, by the mounts of slurmd."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.slurm import proof
from gpu_stack.components.slurm.program import command_line, health, jobs_devices, node
from gpu_stack.host.context import Result
from gpu_stack.host.refusal import RefusalError

PART = {
    "name": "gpu01",
    "gpus": [{"type": "t4", "file": "/dev/nvidia1"}],
    "closed": ["/dev/nvidia0"],
}
SETTINGS = {"node": "gpu01", "gpus": [1], "closed": ["/dev/zero"], "fatal_xids": []}
# What systemd mounts over a file that InaccessiblePaths names has the number 0. Here /dev/zero is
# closed, in the place of a GPU.
SLURMD = "umask 0; mknod {place}/none c 0 0; {close} echo $$ > {place}/pid; exec sleep 100"


@pytest.fixture
def slurmd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts a process with mounts of its own, in which /dev/zero is closed or not."""
    started: list[subprocess.Popen[bytes]] = []

    def start(close: bool) -> int:
        words = f"mount --bind {tmp_path}/none /dev/zero;" if close else ""
        script = SLURMD.format(place=tmp_path, close=words)
        process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script])
        started.append(process)
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            assert process.poll() is None, "no mounts of its own for a process of this machine"
        return process.pid

    monkeypatch.setattr(jobs_devices, "SLURMD", str(tmp_path / "pid"))
    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's")
def test_a_device_is_closed_by_the_mounts_of_the_slurmd_that_runs(slurmd: Any) -> None:
    assert jobs_devices.opened(["/dev/zero"]) == []  # no slurmd runs
    slurmd(close=True)
    assert jobs_devices.opened(["/dev/zero", "/dev/nvidia77"]) == []
    assert jobs_devices.opened(["/dev/null"]) == ["/dev/null"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's")
def test_a_slurmd_without_that_mount_drains_its_node(slurmd: Any) -> None:
    slurmd(close=False)
    wrong = health.fault(SETTINGS, lambda _argv, _patience: (127, "", ""))
    assert wrong == "jobs can open /dev/zero, not Slurm's: systemctl restart slurmd"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's")
def test_its_programs_see_the_gpus_as_the_host_does(slurmd: Any) -> None:
    """nvidia-smi numbers those alone that it can open."""
    pid = slurmd(close=True)
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import jobs_devices\n"
        "jobs_devices.FIRST = int(sys.argv[2])\n"
        "print(os.stat('/dev/zero').st_rdev); jobs_devices.enter_the_hosts()\n"
        "print(os.stat('/dev/zero').st_rdev)"
    )
    folder = str(Path(jobs_devices.__file__).parent)
    argv = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "python3", "-c", code, folder]
    argv.append(str(os.getpid()))
    seen = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert seen == ["0", str(os.stat("/dev/zero").st_rdev)]


def test_a_program_that_can_not_leave_slurmds_mounts_judges_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise jobs_devices.MountsError("the host's mounts can't be entered: no permission")

    monkeypatch.setattr(node, "settings", lambda: SETTINGS)
    monkeypatch.setattr(command_line.signal, "alarm", lambda _seconds: None)
    monkeypatch.setattr(jobs_devices, "enter_the_hosts", refuse)
    monkeypatch.setattr(health, "check", lambda _settings: pytest.fail("it judged"))
    assert command_line.main("gpu-slurm-health") == 1
    assert "the host's mounts can't be entered: no permission" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        (["/dev/nvidia1"], None),
        (["/dev/nvidia0", "/dev/nvidia1"], "may open /dev/nvidia0, which is not Slurm's"),
        ([], "may open none of them"),
    ],
)
def test_the_proof_asks_for_them_in_a_job(
    seen: list[str], wrong: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], *_: Any) -> Result:
        asked.append(argv)
        return Result(0, str(seen).replace("'", '"'), "")

    monkeypatch.setattr(proof, "run_program", run)
    shown = {"state": "IDLE", "partitions": ["gpu"]}
    if wrong is None:
        assert proof._tried(shown, PART) == "could open only /dev/nvidia1, of 1 GPUs"
    else:
        with pytest.raises(RefusalError, match=wrong):
            proof._tried(shown, PART)
    assert asked[0][-2:] == ["/dev/nvidia1", "/dev/nvidia0"]
