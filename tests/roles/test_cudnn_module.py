"""The module cudnn_archive as Ansible runs it: check mode, refusals, passwords, background."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests import module_play

JOB = Path("/run/provision/cudnn")
VERSION, CUDA, NAME = "8.1.0.77", "11.2", "8.1.0.77-cuda11.2"
HEADER = b"#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n"
CLOSED = "127.0.0.1:9"


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Path, str]:
    """A small one, and its SHA-256."""
    path = tmp_path / "cudnn.tgz"
    with tarfile.open(path, "w:gz") as stream:
        for name, content in (
            ("cuda/include/cudnn_version.h", HEADER),
            ("cuda/lib64/libcudnn.so.8", b"\x7fELF"),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            stream.addfile(member, io.BytesIO(content))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def play(
    tmp_path: Path, sha256: str, tasks: dict[str, dict[str, Any]], **variables: Any
) -> tuple[Any, str]:
    """({task: its result}, all that Ansible printed) of tasks; a failure is ignored."""
    wish = {"root": str(tmp_path / "root"), "version": VERSION, "cuda": CUDA, "sha256": sha256}
    calls = {}
    for name, words in tasks.items():
        arguments = {key: value for key, value in words.items() if key != "check_mode"}
        check_mode = words.get("check_mode", False)
        calls[name] = {"arguments": {**wish, **arguments}, "check_mode": check_mode}
    return module_play.results(tmp_path, "cudnn_archive", calls, variables, no_proxy="127.0.0.1")


def downloads() -> set[Path]:
    return set(Path("/var/tmp").glob("provision-cudnn.*"))


def test_the_controllers_file_is_checked_there_and_copied_where_it_is_needed(
    tmp_path: Path, archive: tuple[Path, str]
) -> None:
    path, sha256 = archive
    other, linked = tmp_path / "other.tgz", tmp_path / "linked.tgz"
    other.write_bytes(b"<html>log in</html>")
    linked.symlink_to(path.name)
    before = downloads()
    results, _ = play(
        tmp_path,
        sha256,
        {
            "check": {"controller_file": str(path), "check_mode": True},
            "other": {"controller_file": str(other)},
            "none": {"controller_file": str(tmp_path / "none.tgz")},
            "made": {"controller_file": str(linked)},
            "again": {"controller_file": str(tmp_path / "none.tgz")},
            "going": {"state": "absent", "check_mode": True},
            "gone": {"state": "absent"},
        },
    )
    assert results["check"]["changed"] is True
    assert results["check"]["msg"] == f"Would install cuDNN {NAME}: {NAME} is not installed"
    assert results["other"]["failed"] is True
    assert results["other"]["msg"].startswith(
        f"cudnn_controller_file: {other} is a web page (19 bytes), not an archive: "
    )
    assert results["other"]["msg"].endswith(" The host is as it was.")
    assert results["none"]["msg"] == (
        f"cudnn_controller_file is {tmp_path}/none.tgz, but the machine that runs Ansible has no"
        " such file."
    )
    assert (results["made"]["changed"], results["made"]["renewed"]) == (True, True)
    assert "archive_needed" not in results["made"]
    assert results["again"]["changed"] is False
    assert (results["going"]["changed"], results["gone"]["changed"]) == (True, True)
    assert results["going"]["msg"] == (
        "Would remove the versions of cuDNN that this role unpacked below " + str(tmp_path / "root")
    )
    assert not (tmp_path / "root").exists()
    assert downloads() == before


def test_a_password_is_in_nothing_that_ansible_prints(
    tmp_path: Path, archive: tuple[Path, str]
) -> None:
    """And an address without one is named in full."""
    urls = [f"http://ada:s3cr3t@{CLOSED}/a.tgz", f"http://{CLOSED}/b.tgz"]
    proxy = f"http://ada:s3cr3t@{CLOSED}"
    tasks = {
        "urls": {"urls": "{{ urls }}"},
        "proxy": {"urls": "{{ urls[1:] }}", "proxy": "{{ proxy }}"},
        "wrong": {"urls": "{{ urls }}", "proxy": "{{ proxy }}", "layout": "none"},
    }
    results, output = play(tmp_path, archive[1], tasks, urls=urls, proxy=proxy)
    for name in ("a", "b"):
        place = f"http://{CLOSED}/{name}.tgz: <urlopen error [Errno 111] Connection refused>."
        assert place in results["urls"]["msg"]
    assert all(results[name]["failed"] for name in tasks)
    assert "s3cr3t" not in output + json.dumps(results)
    assert f"http://{CLOSED}/b.tgz" in output


@pytest.mark.skipif(
    os.geteuid() != 0 or JOB.exists(), reason="needs root, and no job of this name on this machine"
)
def test_what_one_task_begins_a_later_one_takes_up(
    tmp_path: Path, archive: tuple[Path, str]
) -> None:
    """The first task's files are gone by then: what works behind it has all it imports."""
    path, sha256 = archive
    tasks = {
        "begun": {"host_file": str(path), "begin": True},
        "taken": {"host_file": str(tmp_path / "none.tgz")},
    }
    results, _ = play(tmp_path, sha256, tasks)
    assert (results["begun"]["begun"], results["begun"]["changed"]) == (True, False)
    assert (results["taken"]["changed"], results["taken"]["renewed"]) == (True, True)
    assert (tmp_path / "root" / "current" / "lib64" / "libcudnn.so.8").exists()
    assert not JOB.exists()
