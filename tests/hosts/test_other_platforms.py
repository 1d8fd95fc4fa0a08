"""Other platforms and side-by-side stacks, each from bare to proven on a real local host.

Debian 11 with TensorFlow 2.9 is what every other test here runs on (test_spine.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import demo
import pytest
import yaml
from conftest import ROOT, Project

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory

# Platform, wish, version of the cuDNN archive (none: it comes with the wheels).
CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "debian12": ("debian12", {"tensorflow": "2.14"}, "8.7.0.84"),
    "debian13": ("debian13", {"python": "3.13"}, None),
    "side-by-side": (
        "debian12",
        {"tensorflow": "2.14", "beside": [{"tensorflow": "2.16"}]},
        "8.7.0.84",
    ),
}


@contextmanager
def project(
    directory: Path, case: str, platform: str, wish: Mapping[str, Any], cudnn: str | None
) -> Iterator[Project]:
    """One bare host of a platform, and a rendered project that wishes this for it."""
    locallab.sweep()
    directory.mkdir(parents=True)
    lab = locallab.up(
        f"test-{case}", platform=platform, state_dir=directory / ".lab", hosts=[f"{case}1"]
    )
    try:
        values: dict[str, Any] = {"gpu_stack": dict(wish)}
        if cudnn is not None:
            archive = cudnn_archive.pack(cache_directory(), version=cudnn)
            values["gpu_stack"]["cudnn"] = {
                "version": archive.version, "cuda": archive.cuda, "sha256": archive.sha256
            }  # fmt: skip
            values["cudnn_controller_file"] = str(archive.path)
        values["tensorflow_cache_dir"] = "/var/cache/lab/pip"
        files = directory / "lab" / "group_vars"
        files.mkdir(parents=True)
        (files / "gpu_hosts.yml").write_text(yaml.safe_dump(values, sort_keys=False), "utf-8")
        (directory / "lab" / "hosts.yml").write_text(
            yaml.safe_dump(lab.inventory("gpu_hosts"), sort_keys=False), "utf-8"
        )
        for command in (["lock", "--project", str(directory)], ["render", str(directory)]):
            assert demo.provision(*command) == 0
        yield Project(directory, lab)
    finally:
        lab.down()
        shutil.rmtree(directory, ignore_errors=True)


def keep_report(made: Project, case: str) -> None:
    """The report as a person sees it, for looking at: build/reports/CASE."""
    assert made.provision("report").returncode == 0
    kept = ROOT / "build" / "reports" / case
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(made.path / "report", kept)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_from_bare_to_proven(tmp_path: Path, case: str) -> None:
    platform, wish, cudnn = CASES[case]
    with project(tmp_path / "project", case, platform, wish, cudnn) as made:
        applied = made.provision("apply", "-i", "lab")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        ((name, host),) = made.report["hosts"].items()
        assert host["status"] == "proven", host
        assert host["simulated_gpu"] is True
        assert host["stack"].startswith(platform)
        passed = {one["id"] for one in host["checks"] if one["result"] == "passed"}
        assert "tensorflow.gpus" in passed
        if "beside" in wish:
            (other,) = wish["beside"]
            beside = {one.partition("@")[2] for one in passed if one.startswith("tensorflow.gpus@")}
            assert len(beside) == 1
            assert beside.pop().startswith(other["tensorflow"])
            # Each by its own libraries: nothing is set for everybody.
            assert "LD_LIBRARY_PATH" not in made.ssh(name, "bash -lc env")
        keep_report(made, case)
        again = made.playbook()
        assert again.returncode == 0, again.stdout
        assert "changed=0" in again.stdout
