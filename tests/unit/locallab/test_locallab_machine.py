"""containers.conf holds only what this machine needs; what is missing is said in one line."""

from __future__ import annotations

import pytest

from provision.errors import MachineError
from provision.locallab import machine
from provision.locallab.machine import Limits, containers_conf, is_hybrid

MIB = 1 << 20
V1 = "34 33 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
V2 = "35 33 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"


def test_ample_machine_needs_no_file() -> None:
    assert containers_conf(Limits(None, None, 4194304, False)) == ""
    assert containers_conf(Limits(MIB, 4194304, 4194304, False)) == ""


def test_low_limit_of_open_files_is_passed_on() -> None:
    text = containers_conf(Limits(20000, None, 4194304, False))
    assert text == '[containers]\ndefault_ulimits = ["nofile=20000:20000"]\n'


@pytest.mark.parametrize(
    ("hard", "pid_max", "wanted"), [(96365, 4194304, 32768), (500, 32768, 500), (96365, 999, 999)]
)
def test_processes_are_capped_by_every_limit(hard: int, pid_max: int, wanted: int) -> None:
    text = containers_conf(Limits(MIB, hard, pid_max, False))
    assert f'["nproc={wanted}:{wanted}"]' in text


def test_hybrid_cgroups_take_runc() -> None:
    assert containers_conf(Limits(None, None, 1, True)) == '[engine]\nruntime = "runc"\n'


def test_hybrid_is_both_kinds_of_mount() -> None:
    assert is_hybrid(f"{V1}\n{V2}\n")
    assert not is_hybrid(V1)
    assert not is_hybrid(V2)
    assert not is_hybrid("")


def test_everything_missing_is_one_error_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(machine, "HELPER_DIRECTORIES", ("/nowhere",))
    with pytest.raises(MachineError) as caught:
        machine.require(Limits(None, None, 1, True))
    assert "podman" in caught.value.got
    for package in ("podman", "netavark", "aardvark-dns", "mmdebstrap", "runc", "libc6-dev"):
        assert package in caught.value.hint.split()


def test_podman_runs_through_sudo_with_its_configuration(tmp_path: machine.Path) -> None:
    podman = machine.Podman(prefix=("sudo", "-n"), conf=tmp_path / "c.conf")
    assert podman.argv("ps") == [
        "sudo", "-n", "env", f"CONTAINERS_CONF={tmp_path}/c.conf", "podman", "ps",
    ]  # fmt: skip
    assert machine.Podman().argv("ps") == ["podman", "ps"]


def test_write_atomically_leaves_nothing_half_written(tmp_path: machine.Path) -> None:
    path = tmp_path / "file"
    machine.write_atomically(path, b"one", 0o600)
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
