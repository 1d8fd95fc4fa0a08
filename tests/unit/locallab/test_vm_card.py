"""The library with a card's ids: compiled once for each model, and what the compiler said."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.errors import InputError, MachineError
from provision.locallab import gpu
from provision.locallab.vm import card

Program = Callable[[str, str], Path]


@pytest.fixture
def calls(tmp_path: Path, program: Program) -> Path:
    """A stand-in for gcc that writes down how it was called."""
    words = tmp_path / "calls"
    program("gcc", f'echo "$*" >> {words}\ntouch card.so')
    return words


def test_a_card_is_compiled_once(calls: Path, cache: Path) -> None:
    first = card.compile_card(cache, "Tesla T4")
    assert first == card.compile_card(cache, "Tesla T4")
    assert first.parent == cache
    (words,) = calls.read_text().splitlines()
    row = gpu.model("Tesla T4")
    assert f"-DDEVICE=0x{row.device:04x} -DSUBSYSTEM=0x{row.subsystem:04x}" in words
    assert "-DCLASS=0x0302" in words


def test_each_model_has_a_card_of_its_own(calls: Path, cache: Path) -> None:
    paths = {card.compile_card(cache, name) for name in ("Tesla T4", "V100", "A100")}
    assert len(paths) == len(calls.read_text().splitlines()) == 3


def test_an_unknown_model_is_refused(calls: Path, cache: Path) -> None:
    with pytest.raises(InputError):
        card.compile_card(cache, "Voodoo 2")
    assert not calls.exists()


def test_what_the_compiler_said_is_in_the_error(program: Program, cache: Path) -> None:
    program("gcc", "echo 'card.c:12: fatal error: stdint.h: No such file' >&2; exit 1")
    with pytest.raises(MachineError) as caught:
        card.compile_card(cache, "Tesla T4")
    assert "stdint.h" in caught.value.got
    assert "libc6-dev" in caught.value.hint
    assert list(cache.glob("card-*")) == []


def test_a_machine_without_a_compiler_is_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError) as caught:
        card.compile_card(cache, "Tesla T4")
    assert "gcc" in caught.value.hint


def test_the_real_compiler_takes_the_source(cache: Path) -> None:
    library = card.compile_card(cache, "H100")
    table = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=True)
    wanted = {line.split()[-1].partition("@")[0] for line in table.stdout.splitlines()}
    assert {"type_register_static", "register_module_init", "pci_register_bar"} <= wanted
