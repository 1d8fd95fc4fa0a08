"""A virtual machine's process: its command line, its power, and never another's process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provision.errors import MachineError
from provision.locallab.vm import Guest, Virtual, end_orphans, guests
from provision.locallab.vm.accel import Acceleration
from provision.locallab.vm.guest import read

Program = Callable[[str, str], Path]
MakeGuest = Callable[..., Guest]
ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("bound")


@pytest.fixture
def qemu(program: Program) -> Path:
    """A stand-in for qemu on PATH: a process that waits and answers on the forwarded port."""
    return program("qemu-system-x86_64", (Path(__file__).parent / "stand_in_qemu.py").read_text())


@pytest.fixture
def strangers() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that are no guest's; they end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def option(words: list[str], name: str) -> list[str]:
    """The values of an option that may be repeated."""
    return [words[at + 1] for at, word in enumerate(words) if word == name]


# The command line.


def test_a_guest_is_reached_by_this_machines_loopback_address_alone(make_guest: MakeGuest) -> None:
    guest = make_guest(port=40022)
    words = guest.argv()
    assert option(words, "-netdev") == ["user,id=net,hostfwd=tcp:127.0.0.1:40022-:22"]
    assert option(words, "-serial") == ["chardev:console"]
    console = f"file,id=console,path={guest.folder}/console.log,append=on"
    assert option(words, "-chardev") == [console]
    assert option(words, "-display") == ["none"]
    # All of qemu's options that are used: none opens a monitor, a display or a debugger.
    assert {word for word in words if word.startswith("-")} == {
        *("-accel", "-cpu", "-name", "-machine", "-smp", "-m", "-nodefaults", "-display"),
        *("-drive", "-netdev", "-device", "-fw_cfg", "-chardev", "-serial"),
    }
    assert " ".join(words).count("hostfwd") == 1


def test_a_guest_without_secure_boot(make_guest: MakeGuest) -> None:
    words = make_guest(virtual=Virtual(3072, 4)).argv()
    assert option(words, "-machine") == ["q35"]
    assert option(words, "-m") == ["3072"]
    assert option(words, "-smp") == ["4"]
    assert "-global" not in words
    assert "OVMF_CODE_4M.fd" in option(words, "-drive")[0]


def test_secure_boot_keeps_the_variables_from_the_kernel(make_guest: MakeGuest) -> None:
    """Without SMM and a secure flash a guest's kernel could write keys of its own."""
    guest = make_guest(virtual=Virtual(secure_boot=True))
    words = guest.argv()
    assert option(words, "-machine") == ["q35,smm=on"]
    assert option(words, "-global") == ["driver=cfi.pflash01,property=secure,value=on"]
    code, variables, _ = option(words, "-drive")
    assert code.endswith("OVMF_CODE_4M.secboot.fd")
    assert "readonly=on" in code
    assert variables == f"if=pflash,unit=1,format=raw,file={guest.folder}/variables.fd"


def test_a_guest_writes_into_its_own_disk_and_waits_for_a_sync(make_guest: MakeGuest) -> None:
    guest = make_guest()
    disk = option(guest.argv(), "-drive")[2]
    assert disk == f"if=virtio,format=qcow2,cache=writeback,file={guest.folder}/disk.qcow2"
    assert guest.base not in " ".join(guest.argv())


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_guest_has_as_many_cards_as_it_is_given(make_guest: MakeGuest, count: int) -> None:
    devices = option(make_guest(cards=count).argv(), "-device")
    assert devices.count("lab-gpu") == count
    assert devices[:2] == ["virtio-net-pci,netdev=net", "virtio-rng-pci"]


# The process.


@pytest.mark.usefixtures("qemu")
def test_a_guest_is_known_by_its_folder_while_it_runs(make_guest: MakeGuest) -> None:
    guest = make_guest()
    guest.write()
    assert not guest.running
    guest.start()
    guest.check()
    known = read(guest.folder)
    assert known.pid == guest.pid is not None
    known.cut()
    assert not known.running
    assert guest.process is not None
    assert guest.process.wait(30) == -signal.SIGKILL
    assert not guest.running
    assert guest.folder.exists()


@pytest.mark.usefixtures("qemu")
def test_power_comes_back_after_a_cut(make_guest: MakeGuest) -> None:
    guest = make_guest()
    guest.start()
    first = guest.pid
    guest.cut()
    assert not guest.running
    guest.start()
    assert guest.pid not in (None, first)


@pytest.mark.usefixtures("qemu")
def test_removal_ends_the_process_and_takes_the_disk(make_guest: MakeGuest) -> None:
    guest = make_guest()
    guest.write()
    (guest.folder / "disk.qcow2").write_bytes(b"disk")
    guest.start()
    assert guest.process is not None
    read(guest.folder).remove()
    assert guest.process.wait(30) == -signal.SIGKILL
    assert not guest.folder.exists()
    assert guests(guest.folder.parents[1]) == []


@pytest.mark.usefixtures("qemu")
def test_a_process_with_another_command_line_is_never_killed(
    make_guest: MakeGuest, strangers: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Its number is in the file, for numbers are given out again after a crash or a boot."""
    guest = make_guest()
    guest.write()
    (tmp_path / "editor").write_text("import sys; sys.stdin.read(); import time; time.sleep(600)")
    others = [
        strangers("sleep", "600"),
        # Not qemu, though it has a file of this machine open.
        strangers(sys.executable, str(tmp_path / "editor"), f"file={guest.folder}/disk.qcow2"),
    ]
    # qemu, but the machine's whose name begins like this one's.
    neighbour = make_guest("demo-gpu01-r10")
    neighbour.start()
    assert neighbour.process is not None
    for process in (*others, neighbour.process):
        (guest.folder / "pid").write_text(f"{process.pid}\n")
        known = read(guest.folder)
        assert known.pid is None
        known.cut()
        assert process.poll() is None
    read(guest.folder).remove()
    assert [process.poll() for process in others] == [None, None]
    assert neighbour.running


@pytest.mark.parametrize("text", ["", "many\n", "4194305\n"])
def test_a_number_that_is_no_process_is_none(make_guest: MakeGuest, text: str) -> None:
    guest = make_guest()
    guest.write()
    assert read(guest.folder).pid is None
    (guest.folder / "pid").write_text(text)
    assert read(guest.folder).pid is None


def test_a_port_in_use_is_said_with_the_way_out(program: Program, make_guest: MakeGuest) -> None:
    guest = make_guest()
    program(
        "qemu-system-x86_64",
        f'echo "qemu-system-x86_64: -netdev user,id=net: Could not set up host forwarding rule '
        f"'tcp:127.0.0.1:{guest.port}-:22'\" >&2; exit 1",
    )
    with pytest.raises(MachineError) as caught:
        guest.start()
    assert caught.value.message == f"gpu01: qemu has ended: port {guest.port} is in use"
    assert "forwarding rule" in caught.value.got
    assert caught.value.hint


def test_what_qemu_said_last_is_in_the_error(program: Program, make_guest: MakeGuest) -> None:
    program("qemu-system-x86_64", "for n in 1 2 3 4; do echo line $n >&2; done; exit 1")
    guest = make_guest()
    with pytest.raises(MachineError) as caught:
        guest.start()
    assert caught.value.message == "gpu01: qemu has ended"
    assert caught.value.got == "line 2\nline 3\nline 4"
    assert caught.value.hint == ""


def test_a_silent_end_shows_the_console(program: Program, make_guest: MakeGuest) -> None:
    guest = make_guest()
    (guest.folder / "console.log").write_text("one\r\ntwo\r\nreboot: Power down\r\n\r\n")
    program("qemu-system-x86_64", "exit 0")
    with pytest.raises(MachineError) as caught:
        guest.start()
    assert caught.value.got == "one\ntwo\nreboot: Power down"


@pytest.mark.usefixtures("qemu")
def test_a_machine_that_somebody_removed_is_an_error_with_words(make_guest: MakeGuest) -> None:
    """`provision lab down` in another terminal, while `up` waits for SSH."""
    guest = make_guest()
    guest.write()
    guest.start()
    assert guest.process is not None
    read(guest.folder).remove()
    guest.process.wait(30)
    with pytest.raises(MachineError) as caught:
        guest.check()
    assert caught.value.message == "gpu01 was removed"
    assert caught.value.where == str(guest.folder)


@pytest.mark.usefixtures("qemu")
def test_only_qemu_is_given_the_card(
    make_guest: MakeGuest, program: Program, tmp_path: Path
) -> None:
    """Its library has names that only qemu has: setpriv would not start with it."""
    program("setpriv", f'echo "${{LD_PRELOAD-none}}" > {tmp_path}/preloaded; shift 3; exec "$@"')
    guest = make_guest(card=Path("/nonexistent/card.so"), cards=1, keep="false")
    guest.start()
    assert guest.pid
    environ = Path(f"/proc/{guest.pid}/environ").read_bytes().split(b"\0")
    assert b"LD_PRELOAD=/nonexistent/card.so" in environ
    assert (tmp_path / "preloaded").read_text() == "none\n"
    assert "LD_PRELOAD" not in os.environ


PARENT = """\
import sys, time
from pathlib import Path
from provision.locallab.vm.guest import read
guest = read(Path(sys.argv[1]))
guest.start()
print(guest.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize(("keep", "left"), [("false", False), ("true", True)])
def test_a_machine_that_is_not_kept_ends_with_a_killed_run(
    make_guest: MakeGuest, keep: str, left: bool
) -> None:
    guest = make_guest(keep=keep)
    guest.write()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(guest.folder)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    number = int(parent.stdout.readline())
    try:
        assert read(guest.folder).pid == number
        parent.kill()
        parent.wait()
        # The kernel's own signal may take a moment; a machine that is to be kept gets none.
        deadline = time.monotonic() + (1 if left else 30)
        while read(guest.folder).running and time.monotonic() < deadline:
            time.sleep(0.05)
        assert read(guest.folder).running is left
        read(guest.folder).cut()
        assert not read(guest.folder).running
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


# Records.


def test_a_record_is_read_as_it_was_written(make_guest: MakeGuest) -> None:
    written = [
        make_guest("a", virtual=Virtual(4096, 3, secure_boot=True), cards=2, card=Path("/c.so")),
        make_guest("b", acceleration=Acceleration("kvm")),
    ]
    for guest in written:
        guest.write()
    assert [read(guest.folder) for guest in written] == written
    assert [guest.described for guest in guests(written[0].folder.parents[1])] == [
        *("virtual machine (emulated: /dev/kvm is missing)", "virtual machine (kvm)"),
    ]


def test_guests_are_chosen_by_all_labels(make_guest: MakeGuest, cache: Path) -> None:
    for name, labels in {
        "a": {"lab": "demo", "run": "r1", "host": "gpu01"},
        "b": {"lab": "demo", "run": "r2", "host": "gpu01"},
        "c": {"lab": "other", "run": "r3", "host": "gpu01"},
    }.items():
        guest = make_guest(name)
        guest.labels = labels
        guest.write()

    def chosen(**labels: str) -> list[str]:
        return [guest.folder.name for guest in guests(cache, **labels)]

    assert chosen() == ["a", "b", "c"]
    assert chosen(lab="") == ["a", "b", "c"]
    assert chosen(lab="demo") == ["a", "b"]
    assert chosen(lab="demo", run="r2") == ["b"]
    assert chosen(lab="other", run="r2") == []
    assert chosen(state="") == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"labels": []}', '{"labels": {"lab": "demo"}}']
)
def test_a_spoiled_record_hides_no_other_machine(
    make_guest: MakeGuest, cache: Path, text: str
) -> None:
    spoiled, good = make_guest("a"), make_guest("b")
    good.write()
    (spoiled.folder / "machine.json").write_text(text)
    (cache / "machines" / "a-file").write_text("no folder")
    assert [guest.folder.name for guest in guests(cache, lab="demo")] == ["b"]


def test_a_record_with_words_of_a_newer_version_is_left_out(
    make_guest: MakeGuest, cache: Path
) -> None:
    guest = make_guest()
    guest.write()
    record = json.loads((guest.folder / "machine.json").read_text())
    record["virtual"]["tpm"] = True
    (guest.folder / "machine.json").write_text(json.dumps(record))
    assert guests(cache) == []


# What a killed run leaves.


@pytest.mark.usefixtures("qemu")
def test_orphans_are_this_caches_machines_without_a_folder(
    make_guest: MakeGuest,
    cache: Path,
    tmp_path: Path,
    strangers: Callable[..., subprocess.Popen[bytes]],
) -> None:
    orphan, mine = make_guest("orphan"), make_guest("mine")
    elsewhere = make_guest("elsewhere")
    elsewhere.folder = tmp_path / "other" / "machines" / "elsewhere"
    elsewhere.folder.mkdir(parents=True)
    for guest in (orphan, mine, elsewhere):
        guest.start()
    (tmp_path / "reader").write_text("import time; time.sleep(600)")
    reader = strangers(
        sys.executable, str(tmp_path / "reader"), f"file={orphan.folder}/console.log"
    )
    for guest in (orphan, elsewhere):
        for path in guest.folder.iterdir():
            path.unlink()
        guest.folder.rmdir()
    end_orphans(cache)
    assert orphan.process is not None
    assert orphan.process.wait(30) == -signal.SIGKILL
    assert (mine.running, elsewhere.running) == (True, True)
    assert reader.poll() is None


def test_a_free_port_is_one_that_can_be_had(make_guest: MakeGuest) -> None:
    guest = make_guest()
    with socket.create_server(("127.0.0.1", guest.port)):
        assert make_guest("another").port != guest.port
