"""The doctor reads libraries and devices as they are."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import converged_host as made
import pytest
from doctor_patient import Patient, patient
from gpu_stack.doctor import libraries
from gpu_stack.doctor import look as doctor_look
from gpu_stack.host import surroundings
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


PAGE = "<!DOCTYPE html>\n"
ADA, BOB, AWAY = (libraries.HOMES + name for name in ("/ada", "/bob", "/away"))


def silent(monkeypatch: pytest.MonkeyPatch, *dead: str) -> None:
    """Whoever asks for anything in these homes waits for their server."""
    look = os.getpid()

    def waiting(read: Callable[[Context, str], str | None]) -> Callable[[Context, str], str | None]:
        def answer(context: Context, path: str) -> str | None:
            if (path + "/").startswith(tuple(home + "/" for home in dead)):
                assert os.getpid() != look, "asked by the look itself"
                time.sleep(600)
            return read(context, path)

        return answer

    for name in ("_real", "_entry"):
        monkeypatch.setattr(Context, name, waiting(getattr(Context, name)))
    monkeypatch.setattr(surroundings, "PATIENCE", 0.5)


def test_a_home_whose_server_is_down_does_not_hold_the_doctor(
    host: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for home in (ADA, BOB + "/Downloads"):
        host.write(home + "/cudnn-8.tgz", PAGE)
    host.write(AWAY + "/x", "")
    silent(monkeypatch, AWAY)
    assert host.found()["login-wall"]["evidence"] == [
        ADA + "/cudnn-8.tgz begins with <html",
        BOB + "/Downloads/cudnn-8.tgz begins with <html",
    ]


def test_homes_that_do_not_answer_are_asked_no_more(
    host: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = [AWAY + str(number) for number in range(surroundings.SILENT_HOMES)]
    for home in [*dead, BOB]:
        host.write(home + "/cudnn-8.tgz", PAGE)
    silent(monkeypatch, *dead)
    assert host.found() == {}
    host.write("/opt/cudnn-8.tgz", PAGE)
    assert list(host.found()) == ["login-wall"]


def test_a_directory_of_homes_that_does_not_answer_is_left_out(
    host: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write(ADA + "/cudnn-8.tgz", PAGE)
    silent(monkeypatch, libraries.HOMES)
    assert host.found() == {}


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
