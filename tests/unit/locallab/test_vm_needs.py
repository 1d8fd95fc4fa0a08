"""What virtual machines need is asked for before anything is made, each lack with its cure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from provision import cli
from provision.errors import InputError, MachineError
from provision.locallab.vm import Virtual, firmware, hosts, needs

MIB = 2**20


@pytest.fixture
def ovmf(tmp_path: Path) -> Path:
    """A folder with the files of Debian's ovmf."""
    folder = tmp_path / "OVMF"
    folder.mkdir()
    for secure_boot in (False, True):
        files = needs.firmware(secure_boot, folder)
        files.code.write_bytes(b"code")
        files.variables.write_bytes(b"variables, secure" if secure_boot else b"variables")
    return folder


@pytest.fixture
def ample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has everything."""
    monkeypatch.setattr(needs, "program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(needs, "enrol_program", lambda: "/usr/bin/virt-fw-vars")
    monkeypatch.setattr(needs, "available_memory", lambda: 64 * 2**30)
    monkeypatch.setattr(needs.shutil, "disk_usage", lambda _: SimpleNamespace(free=64 * 2**30))


def required(cache: Path, ovmf: Path, *, secure_boot: bool = False, enrol: bool = False) -> None:
    needs.require(
        hosts=2, memory_mib=2048, secure_boot=secure_boot, cache=cache, enrol=enrol, directory=ovmf
    )


def refusal(
    cache: Path, ovmf: Path, *, secure_boot: bool = False, enrol: bool = False
) -> MachineError:
    with pytest.raises(MachineError) as caught:
        required(cache, ovmf, secure_boot=secure_boot, enrol=enrol)
    return caught.value


@pytest.mark.usefixtures("ample")
def test_a_machine_with_everything_is_taken(tmp_path: Path, ovmf: Path) -> None:
    required(tmp_path, ovmf, secure_boot=True, enrol=True)


@pytest.mark.usefixtures("ample")
def test_all_that_is_missing_is_one_error_with_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "program", lambda _: None)
    monkeypatch.setattr(needs.os, "geteuid", lambda: 1000)
    error = refusal(tmp_path, tmp_path / "nowhere")
    for name in (*needs.PROGRAMS, "OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd", "sudo"):
        assert name in error.got
    command, _, packages = error.hint.partition(" --no-install-recommends ")
    assert command == "sudo apt-get install"
    assert packages.split() == [
        *("dosfstools", "e2fsprogs", "fdisk", "gcc", "libc6-dev", "mmdebstrap", "mtools"),
        *("openssh-client", "ovmf", "qemu-system-x86", "qemu-utils", "sudo"),
    ]


@pytest.mark.usefixtures("ample")
def test_firmware_is_asked_for_as_it_will_be_used(tmp_path: Path, ovmf: Path) -> None:
    (ovmf / "OVMF_VARS_4M.ms.fd").unlink()
    required(tmp_path, ovmf)
    error = refusal(tmp_path, ovmf, secure_boot=True)
    assert error.got == "missing: OVMF_VARS_4M.ms.fd"
    assert error.hint.endswith(" ovmf")


@pytest.mark.usefixtures("ample")
@pytest.mark.parametrize(
    ("available", "enough"), [(2 * 2048 + 511, False), (2 * 2048 + 512, True)], ids=["less", "just"]
)
def test_memory_for_all_hosts_and_the_machine_itself(
    tmp_path: Path, ovmf: Path, monkeypatch: pytest.MonkeyPatch, available: int, enough: bool
) -> None:
    monkeypatch.setattr(needs, "available_memory", lambda: available * MIB)
    if enough:
        required(tmp_path, ovmf)
        return
    error = refusal(tmp_path, ovmf)
    assert (error.got, error.expected) == ("4607 MiB available", "at least 4608 MiB")
    assert "--memory" in error.hint


def test_available_memory_is_what_the_kernel_says() -> None:
    text = "MemTotal:  999 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n"
    assert needs.available_memory(text) == 2 * MIB
    assert needs.available_memory("MemTotal:  999 kB\n") == 0


@pytest.mark.usefixtures("ample")
def test_disk_space_is_asked_for_where_the_cache_is(
    tmp_path: Path, ovmf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {tmp_path: needs.DISK_FREE - 1}
    monkeypatch.setattr(needs.shutil, "disk_usage", lambda path: SimpleNamespace(free=free[path]))
    error = refusal(tmp_path, ovmf)
    assert (error.where, error.got) == (str(tmp_path), "4095 MiB free")
    free[tmp_path] += 1
    required(tmp_path, ovmf)


@pytest.mark.usefixtures("ample")
@pytest.mark.parametrize("name", ["/tmp/my cache", "/tmp/a,b", "/tmp/a:b", "cache"])
def test_a_cache_that_qemu_or_the_loader_would_misread_is_refused(ovmf: Path, name: str) -> None:
    """A comma ends a property of qemu's, a space or a colon a library's name in LD_PRELOAD."""
    error = refusal(Path(name), ovmf)
    assert error.where == name
    assert "XDG_CACHE_HOME" in error.hint


@pytest.mark.usefixtures("ample")
def test_the_program_that_enrols_is_asked_for_only_where_it_is_used(
    tmp_path: Path, ovmf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "enrol_program", lambda: None)
    required(tmp_path, ovmf, secure_boot=True)
    error = refusal(tmp_path, ovmf, secure_boot=True, enrol=True)
    assert error.got == "missing: virt-fw-vars"
    assert "virt-firmware" in error.hint


def test_the_program_that_enrols_is_the_environments_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("environment", "path"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "virt-fw-vars").write_text("#!/bin/sh\n")
        (tmp_path / place / "virt-fw-vars").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "environment" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert needs.enrol_program() == str(tmp_path / "environment" / "virt-fw-vars")
    (tmp_path / "environment" / "virt-fw-vars").unlink()
    assert needs.enrol_program() == str(tmp_path / "path" / "virt-fw-vars")
    (tmp_path / "path" / "virt-fw-vars").unlink()
    assert needs.enrol_program() is None


# The firmware's variables.


@pytest.fixture
def chosen(ovmf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New machines take their firmware from the stand-in's folder."""
    monkeypatch.setattr(firmware, "firmware", lambda secure: needs.firmware(secure, ovmf))


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    ("secure_boot", "content"), [(False, b"variables"), (True, b"variables, secure")]
)
def test_a_new_machine_has_variables_of_its_own(
    tmp_path: Path, secure_boot: bool, content: bytes
) -> None:
    firmware.create(tmp_path / "variables.fd", secure_boot=secure_boot)
    assert (tmp_path / "variables.fd").read_bytes() == content


def enrolling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "virt-fw-vars").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "virt-fw-vars").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python"))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.usefixtures("chosen")
def test_each_certificate_is_enrolled_where_shim_looks(
    tmp_path: Path, ovmf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tmp_path / "words"
    enrolling(tmp_path, monkeypatch, f'printf "%s\\n" "$@" > {words}')
    certificates = [tmp_path / "my key.der", tmp_path / "theirs.der"]
    firmware.create(tmp_path / "variables.fd", secure_boot=True, enrol=certificates)
    assert words.read_text().splitlines() == [
        *("--input", str(ovmf / "OVMF_VARS_4M.ms.fd"), "--output", str(tmp_path / "variables.fd")),
        *("--add-mok", firmware.OWNER, str(certificates[0])),
        *("--add-mok", firmware.OWNER, str(certificates[1])),
    ]


@pytest.mark.usefixtures("chosen")
def test_a_certificate_that_is_none_is_named_with_the_programs_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrolling(tmp_path, monkeypatch, 'echo "ValueError: error parsing asn1 value" >&2; exit 1')
    with pytest.raises(MachineError) as caught:
        firmware.create(tmp_path / "v.fd", secure_boot=True, enrol=[tmp_path / "photo.der"])
    assert caught.value.where == str(tmp_path / "photo.der")
    assert "error parsing asn1 value" in caught.value.got


# Options that do not go together.


def lab_up(*options: str) -> InputError:
    done = CliRunner().invoke(cli.app, ["lab", "up", *options])
    assert isinstance(done.exception, InputError), done.output
    assert done.exception.exit_code == 2
    return done.exception


@pytest.mark.usefixtures("cache")
def test_containers_take_no_options_of_virtual_machines() -> None:
    options = ("--memory", "4096", "--secure-boot", "--enrol", "key.der")
    error = lab_up(*options)
    assert error.got == "--memory, --secure-boot, --enrol"
    assert error.hint == "add --machine vm"
    assert lab_up("--machine", "container", "--secure-boot").got == "--secure-boot"


@pytest.mark.usefixtures("cache")
def test_virtual_machines_take_no_options_of_the_simulated_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There a GPU is a PCI function without anything behind it."""
    monkeypatch.setattr(hosts, "require", lambda *_: pytest.fail("it went on"))
    error = lab_up("--machine", "vm", "--driver-version", "535.309.01", "--gpu-memory", "8000")
    assert error.got == "--gpu-memory, --driver-version"


def test_the_program_exits_with_the_code_of_a_bad_option(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "provision", "lab", "up", "--memory", "4096"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "add --machine vm" in done.stderr


@pytest.mark.usefixtures("ample")
def test_a_key_is_enrolled_with_secure_boot_alone(tmp_path: Path) -> None:
    certificate = tmp_path / "key.der"
    certificate.write_bytes(b"DER")
    with pytest.raises(InputError) as caught:
        hosts.require(Virtual(enrol=(certificate,)), 1, tmp_path)
    assert caught.value.hint == "add --secure-boot"


@pytest.mark.usefixtures("ample")
def test_a_certificate_that_is_missing_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.der", tmp_path):
        with pytest.raises(InputError) as caught:
            hosts.require(Virtual(secure_boot=True, enrol=(path,)), 1, tmp_path)
        assert caught.value.where == str(path)
