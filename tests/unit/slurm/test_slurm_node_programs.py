"""How a node's programs are called, what they call, and the settings that they read."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.slurm import node_files
from gpu_stack.components.slurm.program import command_line, health, job, node, programs, words
from slurm_node import SETTINGS


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
    ("name", "code", "expected"),
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
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(node, "settings", lambda: SETTINGS)
    monkeypatch.setattr(command_line.signal, "alarm", lambda _seconds: None)
    monkeypatch.setattr(health, "check", lambda _settings: "well")
    monkeypatch.setattr(job, "prolog", lambda *_words: "GPU 3 does not answer")
    monkeypatch.setattr(job, "epilog", lambda *_words: None)
    assert command_line.main(name) == code
    assert expected in "".join(capsys.readouterr())


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
