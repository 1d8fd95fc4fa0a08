"""A controller of Slurm's for tests: its files are in a folder, and slurmctld takes all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.slurm import controller, key, paths, records, services
from gpu_stack.host.context import Result

PART: dict[str, Any] = {
    "name": "gpu02", "hostname": "box", "address": "10.0.0.2", "sockets": 1, "cores": 4,
    "threads": 2, "memory": 4096, "gpus": [{"type": "t4", "file": "/dev/nvidia0"}],
}  # fmt: skip
OTHER = {**PART, "name": "gpu03", "hostname": "box3", "address": "10.0.0.3"}
SETTINGS = {
    "cluster": "gpu", "controller": "gpu01", "partitions": [], "default_time": "1:00:00",
    "max_time": "1:00:00", "accounting": False, "health_interval": 300, "extra": [],
}  # fmt: skip
OPTIONS = {
    **{f"slurm_{word}": SETTINGS[word] for word in SETTINGS}, "slurm_accounting": True,
    "slurm_compute": True,
    "slurm_host": {"name": "gpu01", "address": "10.0.0.1", "controller_address": "10.0.0.1"},
}  # fmt: skip
HOST = {"hostname": "ctl", "address": "10.0.0.1"}
RELEASE = "slurm-wlm 22.05.8"
PLACES = (
    "PLACE",
    "NOTED",
    "KEPT_KEY",
    "FORMER_KEY",
    "PARTS",
    "FOLDER",
    "SLURM_CONF",
    "GRES_CONF",
    "CGROUP_CONF",
    "DBD_CONF",
    "SLURMD_DROP_IN",
    "SLURMD_ENVIRONMENT",
    "MUNGE_KEY",
)


def bring(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a controller's files into the folder, with gpu02 as its node."""
    for name in PLACES:
        monkeypatch.setattr(paths, name, str(folder) + getattr(paths, name))
    handed_out = (paths.SLURM_CONF, paths.GRES_CONF, paths.CGROUP_CONF)
    monkeypatch.setattr(paths, "HANDED_OUT", handed_out)
    monkeypatch.setattr(os, "fchown", lambda *_words: None)
    monkeypatch.setattr(services, "is_active", lambda _unit: True)
    monkeypatch.setattr(services, "start", lambda *_words: None)
    monkeypatch.setattr(services, "answers", lambda _patience: True)
    monkeypatch.setattr(services, "complaint", lambda _unit: "no such thing")
    monkeypatch.setattr(controller, "run_program", programs)
    monkeypatch.setattr(key, "sealed", lambda _certificate: "sealed")
    records.note(settings=SETTINGS, host=HOST, key="digest")
    records.keep_part(PART)


def programs(argv: list[str], *_patience: float) -> Result:
    return Result(0, RELEASE if argv == ["slurmctld", "-V"] else "", "")


class User:
    pw_uid = pw_gid = 0


def bring_munge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Munge's key of this host, which its own administrator has made."""
    monkeypatch.setattr(key.pwd, "getpwnam", lambda _name: User())
    monkeypatch.setitem(paths.PROGRAMS, "munge", str(folder / "munged"))
    file = Path(paths.MUNGE_KEY)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"theirs" * 10)
    file.chmod(0o400)
    return file
