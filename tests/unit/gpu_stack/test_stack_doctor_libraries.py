"""The doctor reads libraries and devices as they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import converged_host as made
import pytest
from doctor_patient import Patient, patient
from gpu_stack.doctor import libraries
from gpu_stack.doctor import look as doctor_look
from gpu_stack.host.context import Context


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    return patient(tmp_path, monkeypatch)


def test_a_copy_under_a_false_name_is_seen_by_its_soname(host: Patient) -> None:
    """`cp libcudart.so.12 libcudart.so.11.0`: no link tells it, the file itself does."""
    library = next(iter(sorted(Path("/usr/lib/x86_64-linux-gnu").glob("libz.so.1.*"))), None)
    if library is None:
        pytest.skip("no library to read")
    assert libraries.soname(Context(), str(library)) == "libz.so.1"
    data = library.read_bytes().replace(b"libz.so.1\0", b"libz.so.2\0")
    host.write("/usr/local/lib/libcudart.so.11.0", data)
    assert host.found() == {}
    name = b"libcudart.so.12\0"
    at = data.index(b"libz.so.2\0")
    host.write("/usr/local/lib/libcudart.so.11.0", data[:at] + name + data[at + len(name) :])
    assert host.found()["hand-made-link"]["evidence"] == [
        "/usr/local/lib/libcudart.so.11.0 is libcudart.so.12"
    ]


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_what_is_no_library_has_no_soname(data: bytes, host: Patient) -> None:
    host.write("/x", data)
    assert libraries.soname(Context(root=str(host.root)), "/x") is None


def test_devices_without_a_link_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = made.Host(tmp_path)
    host.write("/dev/nvidia0", "")
    host.write("/dev/nvidiactl", "")
    host.link("/dev/char/195:255", "../nvidiactl")
    context = Context(root=str(tmp_path))
    numbers = {"/dev/nvidia0": 0, "/dev/nvidiactl": 255}

    def device(path: str) -> os.stat_result:
        return os.stat_result((stat.S_IFCHR, *[0] * 9), {"st_rdev": os.makedev(195, numbers[path])})

    monkeypatch.setattr(context, "stat", device)
    assert doctor_look.unlinked(context) == [{"path": "/dev/nvidia0", "link": "/dev/char/195:0"}]
