"""Labs of virtual machines: up, inventory, status, down and sweep, with a stand-in for qemu."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from provision import cli
from provision.errors import InputError, MachineError
from provision.locallab import Virtual, existing, lab, machine, owner
from provision.locallab.host import LabHost, Shape, keygen, wait_for_ssh
from provision.locallab.vm import Guest, disk, firmware, guests, hosts
from provision.locallab.vm.needs import Firmware

Program = Callable[[str, str], Path]
MakeGuest = Callable[..., Guest]
pytestmark = pytest.mark.usefixtures("bound")


class NoPodman(machine.Podman):
    """A machine without podman: whoever calls it has made a mistake."""

    installed = False

    def _run(self, argv: Any, *_: Any) -> subprocess.CompletedProcess[bytes]:
        raise AssertionError(argv)


class SomePodman(machine.Podman):
    """podman with containers; each has the address 10.88.0.7."""

    installed = True

    def __init__(self, *entries: dict[str, Any]) -> None:
        super().__init__()
        self.entries = list(entries)

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,  # noqa: ARG002
        timeout: float = 900,  # noqa: ARG002
    ) -> subprocess.CompletedProcess[bytes]:
        out = "10.88.0.7 " if arguments[0] == "inspect" else json.dumps(self.entries)
        return subprocess.CompletedProcess(arguments, 0, out.encode(), b"")


def container(host: str, state: str = "running", **labels: str) -> dict[str, Any]:
    named = {"lab": "boxes", "run": "r9", "host": host, "keep": "true", "owner": "", **labels}
    return {
        "Names": [f"boxes-{host}"],
        "State": state,
        "Labels": {f"provision.{key}": value for key, value in named.items()},
    }


@pytest.fixture
def qemu(program: Program) -> None:
    """Stand-ins for qemu and for the program that makes disks."""
    program("qemu-system-x86_64", (Path(__file__).parent / "stand_in_qemu.py").read_text())
    program("qemu-img", 'for last in "$@"; do :; done\necho "overlay" > "$last"')


@pytest.fixture
def no_podman(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "connect", lambda *_: NoPodman())


@pytest.fixture
def makes_machines(
    qemu: None, no_podman: None, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """All that `up` needs of this machine, without a disk to build or firmware; cleans up."""
    base = cache / "disks" / "debian11-0123456789ab.qcow2"
    base.parent.mkdir()
    base.write_bytes(b"a disk")
    base.with_suffix(".vmlinuz").write_bytes(b"a kernel")
    (tmp_path / "VARS.fd").write_bytes(b"variables")
    files = Firmware(tmp_path / "CODE.fd", tmp_path / "VARS.fd")
    monkeypatch.setattr(firmware, "firmware", lambda _: files)
    monkeypatch.setattr(
        disk, "ensure", lambda *_: disk.Base(base, "0123", base.with_suffix(".vmlinuz"))
    )
    monkeypatch.setattr(hosts.needs, "require", lambda **_: None)
    monkeypatch.setattr(hosts.accel, "DEVICE", tmp_path / "kvm")
    find = hosts.accel.find
    monkeypatch.setattr(hosts.accel, "find", lambda *words: find(*words, tmp_path / "no-kvm"))
    yield
    for guest in guests(cache):
        guest.remove()


def up(tmp_path: Path, **options: Any) -> lab.Lab:
    shape = Shape(with_gpu=False, virtual=Virtual(512, 1))
    return lab.up("demo", shape, state_dir=tmp_path / "demo", with_cache=False, **options)


# A lab's data.


@pytest.fixture
def mixed(tmp_path: Path) -> lab.Lab:
    key = tmp_path / lab.KEY
    for name in ("gpu01", "gpu02"):
        keygen(tmp_path / "hosts" / name / "ssh_host_ed25519_key", name)
    return lab.Lab(
        "demo",
        "r1",
        tmp_path,
        [
            LabHost("gpu01", "127.0.0.1", 40022, "lab", key),
            LabHost("gpu02", "10.88.0.5", 22, "lab", key, "c1"),
        ],
    )


def test_the_inventory_has_a_port_where_it_is_not_sshs_own(mixed: lab.Lab) -> None:
    hosts = mixed.inventory()["gpu"]["hosts"]
    assert hosts["gpu01"]["ansible_host"] == "127.0.0.1"
    assert hosts["gpu01"]["ansible_port"] == 40022
    assert "ansible_port" not in hosts["gpu02"]


def test_ssh_finds_each_hosts_key_by_its_port(mixed: lab.Lab) -> None:
    lab._write_known_hosts(mixed)
    first, second = mixed.known_hosts.read_text().splitlines()
    assert first.startswith("[127.0.0.1]:40022 ssh-ed25519 ")
    assert second.startswith("10.88.0.5 ssh-ed25519 ")
    for place in ("[127.0.0.1]:40022", "10.88.0.5"):
        done = subprocess.run(
            ["ssh-keygen", "-F", place, "-f", str(mixed.known_hosts)],
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, place


def test_a_host_that_never_answers_is_named_with_its_port(mixed: lab.Lab) -> None:
    first, second = mixed.hosts
    for host, place in ((first, "127.0.0.1:40022"), (second, "10.88.0.5")):
        with pytest.raises(MachineError) as caught:
            wait_for_ssh(host, timeout=0)
        assert caught.value.where == place


# Hosts of both kinds.


def test_hosts_of_both_kinds_have_their_labels_without_a_prefix(make_guest: MakeGuest) -> None:
    found = existing.Hosts([container("gpu01")], [make_guest()])
    assert [(labels["lab"], labels["host"]) for labels in found.labels()] == [
        *(("boxes", "gpu01"), ("demo", "gpu01")),
    ]
    assert found
    assert not existing.Hosts([], [])


@pytest.mark.usefixtures("qemu")
def test_each_host_says_its_address_and_what_it_is(make_guest: MakeGuest) -> None:
    runs, stands = make_guest("a"), make_guest("b")
    runs.start()
    found = existing.Hosts([container("gpu01"), container("gpu02", "exited")], [runs, stands])
    virtual = "virtual machine (emulated: /dev/kvm is missing)"
    assert [(host.address, host.machine) for host in found.each(SomePodman())] == [
        ("10.88.0.7", "container"),
        ("", "container"),
        (f"127.0.0.1:{runs.port}", virtual),
        ("", virtual),
    ]


def test_leftovers_are_those_of_an_ended_owner_that_were_not_to_be_kept(
    make_guest: MakeGuest,
) -> None:
    process = subprocess.Popen(["sleep", "60"])
    gone = owner.owner(process.pid)
    process.kill()
    process.wait()
    cases = {
        "left": {"owner": gone, "keep": "false"},
        "kept": {"owner": gone, "keep": "true"},
        "mine": {"owner": owner.owner(), "keep": "false"},
        "unknown": {"keep": "false"},
    }
    machines = []
    for name, labels in cases.items():
        guest = make_guest(name)
        guest.labels = {"lab": name, "host": "gpu01", **labels}
        machines.append(guest)
    boxes = [container(name, **labels) for name, labels in cases.items()]
    left = existing.Hosts(boxes, machines).leftovers()
    assert [entry["Names"][0] for entry in left.containers] == ["boxes-left", "boxes-unknown"]
    assert [guest.folder.name for guest in left.guests] == ["left", "unknown"]


def test_without_podman_no_container_is_asked_for(make_guest: MakeGuest, cache: Path) -> None:
    make_guest().write()
    found = existing.find(NoPodman(), cache, lab="demo")
    assert (len(found.containers), len(found.guests)) == (0, 1)


# provision lab status.


@pytest.mark.usefixtures("qemu", "no_podman")
def test_status_says_what_each_host_is(make_guest: MakeGuest) -> None:
    machines = []
    # By their folders they would be the other way round.
    for folder, name in (("a", "gpu02"), ("b", "gpu01")):
        guest = make_guest(folder)
        guest.labels = {**guest.labels, "host": name, "state": "/nonexistent"}
        guest.write()
        machines.append(guest)
    machines[0].start()
    how = "virtual machine (emulated: /dev/kvm is missing)"
    done = CliRunner().invoke(cli.app, ["lab", "status"])
    assert done.output.splitlines() == [
        f"demo  gpu01  not running  {how}",
        f"demo  gpu02  127.0.0.1:{machines[0].port}  {how}",
    ]
    done = CliRunner().invoke(cli.app, ["lab", "status", "demo", "--json"])
    assert json.loads(done.output) == [
        {
            "name": "demo",
            "run": "r1",
            "hosts": {"gpu01": "", "gpu02": f"127.0.0.1:{machines[0].port}"},
            "machines": {"gpu01": how, "gpu02": how},
        }
    ]
    done = CliRunner().invoke(cli.app, ["lab", "status", "other"])
    assert done.output == "there is no lab other\n"


# A whole lab.


@pytest.mark.usefixtures("makes_machines")
def test_a_lab_is_up_and_down(tmp_path: Path, cache: Path) -> None:
    messages: list[str] = []
    made = up(tmp_path, count=2, keep=True, progress=messages.append)
    first, second = (host.guest for host in made.hosts)
    assert first is not None
    assert second is not None
    assert [guest.folder for guest in guests(cache, run=made.run)] == [first.folder, second.folder]
    assert first.folder.stat().st_mode & 0o777 == 0o700
    assert (first.folder / "variables.fd").read_bytes() == b"variables"
    assert (first.folder / "disk.qcow2").read_text() == "overlay\n"
    assert f"gpu02 answers at 127.0.0.1:{second.port}" in messages
    assert any(text.startswith("Starting gpu01 under emulation: ") for text in messages)
    assert made.inventory()["gpu"]["hosts"]["gpu02"]["ansible_port"] == second.port
    assert f"[127.0.0.1]:{first.port} ssh-ed25519" in made.known_hosts.read_text()
    with pytest.raises(InputError) as caught:
        up(tmp_path, count=1)
    assert "provision lab down demo" in caught.value.hint
    assert lab.down("demo")
    assert not lab.down("demo")
    for guest in (first, second):
        # Killed, and perhaps not quite ended yet.
        assert guest.process is not None
        assert guest.process.wait(10) == -signal.SIGKILL
        assert not guest.running
    assert list((cache / "machines").iterdir()) == []
    assert not made.state_dir.exists()


@pytest.mark.usefixtures("makes_machines")
def test_a_host_takes_its_own_files_and_makes_its_own_machine_id(tmp_path: Path) -> None:
    made = up(tmp_path, hosts=["node7"])
    (host,) = made.hosts
    assert host.guest is not None
    place = host.guest.folder / "host.tar"
    assert place.stat().st_mode & 0o777 == 0o600
    with tarfile.open(fileobj=io.BytesIO(place.read_bytes())) as tar:
        files = {}
        for entry in tar:
            content = tar.extractfile(entry)
            files[entry.name] = (content.read() if content else b"", entry.mode, entry.uid)
    assert "etc/machine-id" not in files
    assert files["etc/hostname"] == (b"node7\n", 0o644, 0)
    assert b"127.0.1.1 node7\n" in files["etc/hosts"][0]
    assert files["etc/ssh/ssh_host_ed25519_key"][1:] == (0o600, 0)
    assert files["home/lab/.ssh/authorized_keys"][1:] == (0o600, 1000)
    assert not any("gpu-simulated" in name for name in files)


@pytest.mark.usefixtures("makes_machines")
def test_a_machine_that_does_not_start_leaves_nothing(
    tmp_path: Path, cache: Path, program: Program
) -> None:
    program("qemu-system-x86_64", "echo 'qemu-system-x86_64: cannot set up memory' >&2; exit 1")
    with pytest.raises(MachineError) as caught:
        up(tmp_path, count=2)
    assert "cannot set up memory" in caught.value.got
    assert list((cache / "machines").iterdir()) == []
    assert not (tmp_path / "demo").exists()


@pytest.mark.usefixtures("makes_machines")
def test_sweep_ends_a_killed_runs_machines(tmp_path: Path, cache: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    left = up(tmp_path, count=1, owner_pid=process.pid)
    assert lab.sweep(podman=NoPodman()) == []
    process.kill()
    process.wait()
    assert lab.sweep(podman=NoPodman()) == ["demo"]
    assert guests(cache) == []
    assert not left.state_dir.exists()


@pytest.mark.usefixtures("makes_machines")
def test_up_takes_a_cards_library_and_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def compile_card(_: Path, model: str) -> Path:
        asked.append(model)
        return tmp_path / "card.so"

    monkeypatch.setattr(hosts.card, "compile_card", compile_card)
    for name, gpus in (("a", 2), ("b", 0)):
        made = lab.up(
            name,
            Shape(gpus=gpus, gpu_name="V100", virtual=Virtual(512, 1)),
            state_dir=tmp_path / name,
            count=1,
            with_cache=False,
        )
        guest = made.hosts[0].guest
        assert guest is not None
        assert guest.cards == gpus
        assert (guest.card is None) is (gpus == 0)
    assert asked == ["V100"]
