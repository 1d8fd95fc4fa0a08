"""The self-extractor as far as it needs no host: its header, with a stub for the installer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ground import runfile
from tests.ground.drivers import Member

STUB = "#!/bin/sh\necho installer @VERSION@ got: $*\nls\nexit 7\n"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    target = tmp_path / "NVIDIA-Linux-x86_64-470.256.02.run"
    header = (Path(runfile.__file__).parent / "runfile_header.sh").read_text("utf-8")
    contents = {
        "libraries": {
            "libcuda.so.470.256.02": Member(b"elf", 0o644),
            "libcuda.so.1": Member(b"", 0o777, "libcuda.so.470.256.02"),
        }
    }
    runfile.write(target, "470.256.02", contents, header, STUB)
    return target


def run(made: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(made), *arguments], capture_output=True, text=True, check=False, cwd=made.parent
    )


def test_it_says_what_it_is(made: Path) -> None:
    assert "nvidia-installer:  version 470.256.02" in run(made, "--version").stdout
    assert "Linux-x86_64 470.256.02" in run(made, "--info").stdout


def test_the_installers_exit_code_and_options_pass(made: Path) -> None:
    done = run(made, "--silent", "--dkms", "--no-questions")
    assert done.returncode == 7
    assert "installer 470.256.02 got: --silent --dkms --no-questions" in done.stdout
    assert "libraries" in done.stdout
    assert sorted(path.name for path in made.parent.iterdir()) == [made.name]


def test_extracting_only(made: Path) -> None:
    place = made.parent / "NVIDIA-Linux-x86_64-470.256.02"
    assert run(made, "--extract-only").returncode == 0
    assert (place / "libraries/libcuda.so.1").read_bytes() == b"elf"
    again = run(made, "-x")
    assert again.returncode == 1
    assert "already exists" in again.stderr


def test_a_damaged_one_is_refused(made: Path) -> None:
    assert run(made, "--check").returncode == 0
    made.write_bytes(made.read_bytes()[:-3] + b"xxx")
    for option in ("--check", "--silent"):
        done = run(made, option)
        assert done.returncode == 1
        assert "Error in MD5 checksum" in done.stdout
