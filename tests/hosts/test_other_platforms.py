"""Other platforms and other wishes, each from bare to proven on a real local host.

Debian 11 with TensorFlow 2.9 alone is what every other test here runs on (test_spine.py).
"""

from __future__ import annotations

import json
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
    "packages": (
        "debian11",
        {"tensorflow": "2.9", "packages": ["jupyterlab", "nbclient", "pandas<2"]},
        cudnn_archive.VERSION,
    ),
}
# What somebody runs in a notebook; the kernel's words are kept in it.
CELL = (
    "import pandas, tensorflow as tf\n"
    "print(pandas.__version__, len(tf.config.list_physical_devices('GPU')))"
)
NOTEBOOK = {
    "cells": [{"cell_type": "code", "source": CELL, "metadata": {}, "outputs": [],
               "execution_count": None}],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "nbformat": 4, "nbformat_minor": 4,
}  # fmt: skip


@contextmanager
def project(
    directory: Path, case: str, platform: str, wish: Mapping[str, Any], cudnn: str | None
) -> Iterator[Project]:
    """One bare host of a platform, and a rendered project that wishes this for it."""
    locallab.sweep()
    directory.mkdir(parents=True)
    lab = locallab.up(
        f"test-{case}",
        locallab.Shape(platform=platform),
        state_dir=directory / ".lab",
        hosts=[f"{case}1"],
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


def notebook_sees_the_gpus(made: Project, host: str) -> None:
    """A kernel of the environment's Jupyter, by ssh and as a service that knows no login."""
    execute = "/opt/tensorflow/current/bin/jupyter execute"
    for how, run in (
        ("ssh", execute),
        ("unit", f"sudo systemd-run --quiet --wait --pipe --uid=$(id -u) {execute}"),
    ):
        file = f"/tmp/{how}.ipynb"
        made.ssh(host, f"cat > {file} <<'END'\n{json.dumps(NOTEBOOK)}\nEND")
        made.ssh(host, f"{run} --inplace {file} 2>&1")
        (cell,) = json.loads(made.ssh(host, f"cat {file}"))["cells"]
        printed = "".join("".join(output.get("text", "")) for output in cell["outputs"])
        assert printed.splitlines()[-1] == "1.5.3 2", printed


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
        passed = {check["id"] for check in host["checks"] if check["result"] == "passed"}
        assert "tensorflow.gpus" in passed
        if "beside" in wish:
            (other,) = wish["beside"]
            beside = {
                check.partition("@")[2] for check in passed if check.startswith("tensorflow.gpus@")
            }
            assert len(beside) == 1
            assert beside.pop().startswith(other["tensorflow"])
            # Each by its own libraries: nothing is set for everybody.
            assert "LD_LIBRARY_PATH" not in made.ssh(name, "bash -lc env")
        if "packages" in wish:
            notebook_sees_the_gpus(made, name)
        keep_report(made, case)
        again = made.playbook()
        assert again.returncode == 0, again.stdout
        assert "changed=0" in again.stdout
