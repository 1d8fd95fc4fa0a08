"""A node for the tests of what slurmd calls: Slurm answers as recorded, processes are made up."""

from __future__ import annotations

from pathlib import Path

import pytest
import recorded_life as recorded
from gpu_stack.components.slurm.program import gpus

SETTINGS = {"node": "gpu01", "gpus": [2, 3], "fatal_xids": [48, 79]}


class Slurm:
    """Answers as recorded, and keeps what it was told."""

    def __init__(self, shown: str = recorded.IDLE, smi: str = "", log: str = "") -> None:
        self.shown, self.log = shown, log
        self.smi = smi or "2, GPU-aa\n3, GPU-bb\n"
        self.work, self.jobs = "", ""
        self.updates: list[list[str]] = []

    def __call__(self, argv: list[str], _patience: float) -> tuple[int, str, str]:
        if argv[0] == "nvidia-smi":
            return self._smi(argv)
        if argv[:2] == ["scontrol", "show"]:
            return (
                (0, self.shown, "") if self.shown != recorded.SILENT else (1, "", recorded.SILENT)
            )
        if argv[:2] == ["scontrol", "update"]:
            self.updates.append(argv[2:])
            return 0, "", ""
        if argv[:2] == ["scontrol", "listpids"]:
            return 0, recorded.LISTPIDS, ""
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


def away_from_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lab's GPU and no process of this machine is seen."""
    monkeypatch.setattr(gpus, "SIMULATED", str(folder / "none"))
    (folder / "proc").mkdir()
    monkeypatch.setattr(gpus, "PROC", str(folder / "proc"))
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
