"""What `provision lab up` is given, and programs that don't end: told before or without a lab."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from provision import cli, locallab
from provision.errors import InputError, MachineError
from provision.locallab import gpu, health, image, machine
from provision.locallab.vm import accel, card, disk, firmware

Program = Callable[[str, str], Path]


def lab_up(*options: str) -> Result:
    return CliRunner().invoke(cli.app, ["lab", "up", *options])


@pytest.fixture
def no_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test where a lab is started."""
    monkeypatch.setattr(locallab, "up", lambda *_, **__: pytest.fail("it went on"))


@pytest.mark.usefixtures("no_lab")
@pytest.mark.parametrize("version", ["latest", "470.x", "470.", "470\n", "\u0664\u0667", "5" * 64])
def test_a_version_of_a_driver_is_numbers_with_dots(version: str) -> None:
    error = lab_up("--driver-version", version).exception
    assert isinstance(error, InputError)
    assert (error.where, error.got, error.exit_code) == ("--driver-version", version, 2)


@pytest.mark.parametrize("version", ["470.256.02", "999.1", "580", "", None])
def test_such_a_version_is_taken(version: str | None) -> None:
    assert locallab.Shape(driver_version=version).simulated("x") is not None


@pytest.mark.usefixtures("no_lab")
def test_a_host_has_no_more_gpus_than_the_simulated_libraries_know() -> None:
    done = lab_up("--gpus", "17")
    assert done.exit_code == 2
    assert "--gpus" in done.output
    assert "16" in done.output
    header = (Path(gpu.__file__).parent / "simulated_gpu" / "simulated.h").read_text()
    assert f"#define SIMULATED_MAXIMUM {health.GPUS}\n" in header


def test_an_inventory_that_cannot_be_written_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Started:
        def inventory(self, group: str) -> dict[str, Any]:
            return {group: {"hosts": {}}}

    monkeypatch.setattr(locallab, "up", lambda *_, **__: Started())
    file = tmp_path / "file"
    file.touch()
    error = lab_up("demo", "-o", str(file / "hosts.yml")).exception
    assert isinstance(error, MachineError)
    assert error.where == str(file / "hosts.yml")
    assert "`provision lab down demo`" in error.hint


def bootstrap(folder: Path) -> None:
    image.bootstrap(machine.Podman(), "debian11", "", folder, image.Target(folder / "root.tar"))


# {program: what runs it}
SLOW: dict[str, Callable[[Path], object]] = {
    "mmdebstrap": bootstrap,
    "mkfs.ext4": lambda _: disk._run(["mkfs.ext4", "disk"]),
    "gcc": lambda folder: card.compile_card(folder, "Tesla T4"),
    "virt-fw-vars": lambda folder: firmware.create(
        folder / "v", secure_boot=True, enrol=[folder / "key.der"]
    ),
    "qemu-system-x86_64": lambda _: accel._version(),
    "podman": lambda _: machine.Podman().call("ps"),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_program_that_does_not_end_is_named(
    name: str, tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow archive ended `provision lab up` as a fault of provision itself."""

    def run(argv: list[str], **options: Any) -> None:
        raise subprocess.TimeoutExpired(argv, options["timeout"])

    path = program(name, "exit 0")
    monkeypatch.setattr(firmware, "enrol_program", lambda: str(path))
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(MachineError, match=rf"{name} .*did not end in \d+ s"):
        SLOW[name](tmp_path)
