"""Hardware acceleration is used where a kernel booted with it, and tried once for each boot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from provision.locallab.machine import silent
from provision.locallab.vm import accel
from provision.locallab.vm.accel import Acceleration

Program = Callable[[str, str], Path]
PANIC = "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"


class Machine:
    """A machine with /dev/kvm, a kernel, and a stand-in for qemu whose boots are counted."""

    def __init__(self, folder: Path, cache: Path, program: Program) -> None:
        self.device, self.kernel, self.cache = folder / "kvm", folder / "vmlinuz", cache
        self.version, self.booted, self.program = folder / "version", folder / "booted", program
        self.device.touch()
        self.kernel.write_bytes(b"a kernel")
        self.version.write_text("QEMU emulator version 7.2.22\n")
        self.boots(f"echo '{PANIC}'")

    def boots(self, script: str) -> None:
        self.program(
            "qemu-system-x86_64",
            f'if [ "$1" = --version ]; then exec cat {self.version}; fi\n'
            f'echo "$*" >> {self.booted}\n{script}',
        )

    def find(self) -> Acceleration:
        return accel.find(self.kernel, self.cache, silent, self.device)

    @property
    def tries(self) -> list[str]:
        return self.booted.read_text().splitlines() if self.booted.exists() else []


@pytest.fixture
def machine(tmp_path: Path, cache: Path, program: Program) -> Machine:
    return Machine(tmp_path, cache, program)


def test_without_the_device_nothing_is_tried(machine: Machine) -> None:
    machine.device.unlink()
    assert machine.find() == Acceleration("tcg", f"{machine.device} is missing")
    assert machine.tries == []


def test_a_device_that_the_user_may_not_open_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accel.os, "access", lambda *_: False)
    chosen = machine.find()
    assert chosen.emulated
    assert "may not open" in chosen.reason
    assert machine.tries == []


def test_a_kernel_that_asks_for_its_root_has_booted(machine: Machine) -> None:
    assert machine.find() == Acceleration("kvm")
    (words,) = machine.tries
    assert f"-kernel {machine.kernel}" in words
    assert words.startswith("-accel kvm -cpu host")


def test_a_kernel_that_hangs_is_emulation(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accel, "LIMIT", 0.2)
    machine.boots("exec sleep 60")
    chosen = machine.find()
    assert chosen == Acceleration("tcg", "a kernel did not boot under KVM within 0 s")


def test_what_qemu_said_is_the_reason(machine: Machine) -> None:
    machine.boots(
        "echo 'qemu-system-x86_64: failed to initialize kvm: Permission denied' >&2; exit 1"
    )
    assert machine.find() == Acceleration(
        *("tcg", "a kernel did not boot under KVM: failed to initialize kvm: Permission denied"),
    )


def test_a_kernel_that_says_something_else_has_not_booted(machine: Machine) -> None:
    machine.boots("echo 'Decompressing Linux...'")
    assert machine.find() == Acceleration("tcg", "a kernel did not boot under KVM")


@pytest.mark.parametrize("script", [f"echo '{PANIC}'", "echo 'qemu-system-x86_64: no' >&2"])
def test_the_answer_is_kept(machine: Machine, script: str) -> None:
    machine.boots(script)
    first = machine.find()
    assert machine.find() == first
    assert len(machine.tries) == 1


@pytest.mark.parametrize("changed", ["kernel", "version", "boot"])
def test_another_kernel_qemu_or_boot_is_tried_anew(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    assert machine.find() == Acceleration("kvm")
    machine.boots("echo 'qemu-system-x86_64: no' >&2; exit 1")
    if changed == "kernel":
        machine.kernel.write_bytes(b"another kernel")
    elif changed == "version":
        machine.version.write_text("QEMU emulator version 10.0.2\n")
    else:
        monkeypatch.setattr(accel, "boot", lambda: "another")
    assert machine.find() == Acceleration("tcg", "a kernel did not boot under KVM: no")
    assert len(machine.tries) == 2


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", "null", '"kvm"'])
def test_a_spoiled_answer_is_no_answer(machine: Machine, text: str) -> None:
    (machine.cache / "acceleration.json").write_text(text)
    assert machine.find() == Acceleration("kvm")
    assert len(machine.tries) == 1


def test_emulation_has_the_processor_that_tensorflow_needs() -> None:
    """Without AVX the wheels end with "illegal instruction"."""
    words = Acceleration("tcg", "why").arguments()
    assert words[words.index("-cpu") + 1] == "max"
