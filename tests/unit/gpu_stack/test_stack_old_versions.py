"""Versions of CUDA and cuDNN that an upgrade removes, and who uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import converged_host as made
import pytest
import test_stack_nvidia_cuda as nvidia_host
from converged_host import Host
from cudnn_archives import CUDA, HEADER, NAME, VERSION, nvidia, pack
from gpu_stack.components.cudnn import bring, layout

from tests.mapped import mapped

OTHER = "8.5.0.96-cuda11.2"


def job(host: Host, tree: str) -> None:
    host.write("/proc/77/maps", f"7f00-7f01 r-xp 0 08:01 1  {tree}/lib/x.so\n")
    host.write("/proc/77/comm", "python\n")
    host.write("/proc/77/cmdline", "python\0train.py\0")


def blockers(host: Host, **plan: Any) -> list[tuple[str, str]]:
    found = host.plan(**plan)["blockers"]
    return [(blocker["id"], blocker["message"]) for blocker in found]


# cuDNN


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host with another cuDNN of this program's beside the locked one."""
    there = made.make(tmp_path)
    text = there.path(f"{made.CUDNN}/{layout.MANIFEST}").read_text()
    there.write(f"/opt/nvidia/cudnn/{OTHER}/{layout.MANIFEST}", text)
    there.write("/opt/nvidia/cudnn/theirs/x", "")
    return there


GONE: dict[str, Any] = {"cudnn_keep_old": False}


def test_the_plan_names_the_versions_of_cudnn_that_go(host: Host) -> None:
    assert host.plan()["changes"] == []
    (change,) = host.plan(options=GONE)["changes"]
    assert (change["component"], change["item"], change["from"], change["to"]) == (
        "cudnn", OTHER, "present", "absent",
    )  # fmt: skip
    assert change["reason"] == "cudnn_keep_old is false"
    # Also where the locked one is to come first.
    host.remove(f"{made.CUDNN}/{layout.MANIFEST}")
    changes = host.plan(options=GONE)["changes"]
    assert [change["item"] for change in changes] == ["cudnn", OTHER]


def test_a_job_on_another_version_of_cudnn_stops_a_run_that_would_remove_it(host: Host) -> None:
    job(host, f"/opt/nvidia/cudnn/{OTHER}")
    assert blockers(host) == []
    message = f"pid 77 of None uses cuDNN {OTHER}, which would be removed: python train.py"
    assert blockers(host, options=GONE) == [("cudnn-in-use", message)]
    job(host, made.CUDNN)
    assert blockers(host, options=GONE) == []


def settle(root: Path, sha256: str, archive: Path, version: str) -> dict[str, Any]:
    """As the module of cuDNN does it, and keeps no other version."""
    params = {
        "state": "present", "root": str(root), "version": version, "cuda": CUDA, "sha256": sha256,
        "host_file": str(archive), "controller_file": "", "archive": "", "urls": [], "proxy": "",
        "ca_bundle": "", "reinstall": False, "keep_old": False, "layout": "versioned", "tree": "",
        "begin": False,
    }  # fmt: skip
    result: dict[str, Any] = bring.settle(params, False)
    return result


def test_an_other_version_of_cudnn_that_a_process_uses_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job opens libraries when it needs them first, hours after its beginning perhaps."""
    monkeypatch.setattr(bring, "JOB", str(tmp_path / "job"))
    monkeypatch.setattr(layout, "TREES", str(tmp_path / "cuda-*"))
    root, older, newer = tmp_path / "cudnn", tmp_path / "older.tgz", tmp_path / "newer.tgz"
    settle(root, pack(older, nvidia()), older, VERSION)
    other = pack(newer, nvidia(header=HEADER.replace(b"MINOR 1", b"MINOR 2")))
    library = root / NAME / "lib64/libcudnn.so.8.1.0"
    with mapped(library) as running:
        with pytest.raises(bring.RefusalError) as refused:
            settle(root, other, newer, "8.2.0.53")
        assert f"{root}/{NAME} is in use by pid {running.pid} (" in str(refused.value)
        assert library.exists()
    assert settle(root, other, newer, "8.2.0.53")["removed"] == [NAME]
    assert not library.exists()


# CUDA


def test_a_job_on_another_tree_of_cuda_stops_a_run_that_would_remove_it(tmp_path: Path) -> None:
    there = made.make(tmp_path)
    nvidia_host.install(there, nvidia_host.ROW)
    tree, plan = "/usr/local/cuda-10.2", {"lock": nvidia_host.lock(nvidia_host.ROW)}
    there.write(f"{tree}/.provision-packages", "cuda-cudart-10-2\n")
    job(there, tree)
    assert blockers(there, **plan) == []
    message = f"pid 77 of None uses {tree}, which would be removed: python train.py"
    gone = {"cuda_keep_old": False}
    assert blockers(there, options=gone, **plan) == [("cuda-in-use", message)]
    job(there, "/usr/local/cuda-11.2")
    assert blockers(there, options=gone, **plan) == []
