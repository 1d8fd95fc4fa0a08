"""What an acceptance reads: calls that may hang, the PCI bus, NVML, the kernel's log."""

from __future__ import annotations

import faulthandler
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.acceptance import bounded, bus, judge, machine, nvml
from gpu_stack.host.context import Context, Result

from provision.locallab import gpu
from tests.host_tree import link, put
from tests.unit.acceptance.machines import event

# calls that may hang or crash


def test_an_answer_comes_back_from_another_process() -> None:
    assert bounded.call(lambda: {"pid": os.getpid()}, 10)["pid"] != os.getpid()


def test_an_answer_larger_than_a_pipe_comes_back_whole() -> None:
    assert len(bounded.call(lambda: "x" * 300_000, 10)) == 300_000


def test_a_call_that_hangs_ends_in_time() -> None:
    begun = time.monotonic()
    with pytest.raises(bounded.SilentError, match="no answer within 0 s"):
        bounded.call(lambda: time.sleep(60), 0.3)
    assert time.monotonic() - begun < 20


def test_a_call_that_crashes_says_how() -> None:
    def crash() -> None:
        faulthandler.disable()  # pytest's, which would print the tests' own stack
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(bounded.EndedError, match=rf"signal {int(signal.SIGSEGV)}"):
        bounded.call(crash, 10)


def test_a_call_that_fails_is_no_answer(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(bounded.EndedError):
        bounded.call(lambda: [][1], 10)
    capfd.readouterr()


def test_nothing_of_the_child_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own child alone is asked for: other tests of this process may have left theirs."""
    children = []

    def fork() -> int:
        children.append(real())
        return children[-1]

    real = os.fork
    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(bounded.SilentError):
        bounded.call(lambda: time.sleep(60), 0.1)
    (child,) = children
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)


# the PCI bus


def acs(control: int) -> bytes:
    """A bridge's configuration space: another capability first, then ACS with this control."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x148 << 20 | 1 << 16 | 0x0001)
    struct.pack_into("<I", space, 0x148, 1 << 16 | 0x000D)
    struct.pack_into("<H", space, 0x148 + 6, control)
    return bytes(space)


@pytest.mark.parametrize(("control", "redirected"), [(0x1D, True), (0x11, False), (0x08, True)])
def test_acs_is_read_of_a_bridges_configuration(control: int, *, redirected: bool) -> None:
    assert bus.redirects(acs(control)) is redirected


@pytest.mark.parametrize("length", [0, 64, 0x104, 0x14A, 0x14E])
def test_a_configuration_that_is_cut_short_says_nothing(length: int) -> None:
    """Without rights the kernel gives only the first 64 bytes."""
    assert bus.redirects(acs(0x1D)[:length]) is False


def test_a_configuration_that_goes_in_circles_ends() -> None:
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x100 << 20 | 1 << 16 | 0x0001)
    assert bus.redirects(bytes(space)) is False


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Two GPUs, one of them behind a bridge with ACS, and a network card."""
    devices = "sys/devices/pci0000:16"
    functions = {
        f"{devices}/0000:16:02.0/0000:17:00.0": ("0x10de", "0x1eb8", "0x030200"),
        "sys/devices/pci0000:00/0000:00:03.0/0000:3b:00.0": ("0x10de", "0x2204", "0x030000"),
        "sys/devices/pci0000:00/0000:00:1f.6": ("0x8086", "0x15be", "0x020000"),
        "sys/devices/pci0000:00/0000:00:04.0/0000:3c:00.1": ("0x10de", "0x1aef", "0x040300"),
    }
    for path, (vendor, device, kind) in functions.items():
        for name, text in (("vendor", vendor), ("device", device), ("class", kind)):
            put(tmp_path, f"{path}/{name}", text + "\n")
        link(tmp_path, f"sys/bus/pci/devices/{path.rpartition('/')[2]}", f"/{path}")
    card = f"{devices}/0000:16:02.0/0000:17:00.0"
    for name, text in (
        ("numa_node", "1"), ("max_link_speed", "8.0 GT/s PCIe"), ("max_link_width", "16"),
        ("current_link_speed", "2.5 GT/s PCIe"), ("current_link_width", "4"),
    ):  # fmt: skip
        put(tmp_path, f"{card}/{name}", text + "\n")
    link(tmp_path, f"{card}/driver", "../../../../bus/pci/drivers/nvidia")
    put(tmp_path, f"{devices}/0000:16:02.0/config", acs(0x1D))
    put(tmp_path, "sys/devices/pci0000:00/0000:00:03.0/config", bytes(256))
    link(tmp_path, "sys/bus/pci/devices/0000:00:03.0", "/sys/devices/pci0000:00/0000:00:03.0")
    link(tmp_path, "sys/bus/pci/devices/0000:16:02.0", f"/{devices}/0000:16:02.0")
    link(tmp_path, f"{card}/iommu_group", "../../../../kernel/iommu_groups/7")
    put(tmp_path, "sys/kernel/iommu_groups/7/type", "DMA-FQ\n")
    put(tmp_path, "sys/bus/pci/slots/4/address", "0000:17:00\n")
    return tmp_path


def test_the_bus_names_every_gpu(host: Path) -> None:
    first, second = bus.look(Context(root=str(host)))
    assert first == {
        "pci": "0000:17:00.0",
        "device": "0x1eb8",
        "driver": "nvidia",
        "slot": "4",
        "numa_node": 1,
        "generation": {"now": 1, "possible": 3},
        "width": {"now": 4, "possible": 16},
        "bridges": ["0000:16:02.0"],
        "hidden": [],
        "iommu": "DMA-FQ",
    }
    assert second["pci"] == "0000:3b:00.0"
    assert second["bridges"] == []
    assert second["slot"] is second["driver"] is None
    assert second["width"] == {"now": None, "possible": None}


def test_a_bridge_that_only_root_can_read_is_no_pass(host: Path) -> None:
    put(host, "sys/devices/pci0000:16/0000:16:02.0/config", acs(0x1D)[:64])
    first, _second = bus.look(Context(root=str(host)))
    assert (first["bridges"], first["hidden"]) == ([], ["0000:16:02.0"])
    facts = machine.look(Context(root=str(host)), ask=answer)
    (check,) = [entry for entry in judge.judge(facts)["checks"] if entry["check"] == "acs"]
    assert check["state"] == "not applicable"


# NVML, simulated: what it answers is in a file


def test_nvml_is_read_without_nvidia_smi(library: tuple[str, Path]) -> None:
    path, config = library
    config.write_text(gpu.Simulated(count=2, processes=((1, 100),)).text(), "ascii")
    facts = nvml.read(path)
    assert (facts["error"], facts["driver"]) == (None, "470.256.02")
    first, second = facts["gpus"]
    assert first["name"] == "Tesla T4"
    assert first["pci"] == "0000:3b:00.0"
    assert first["device"] == "0x1eb8"
    assert first["uuid"] == gpu.Simulated().uuids()[0]
    assert first["memory"] == {"total": 15360 * 2**20, "used": 100 * 2**20}
    assert first["processes"] == [{"pid": 1, "kind": "compute", "used": 100 * 2**20}]
    assert first["utilization"] == 50
    assert second["processes"] == []
    assert first["pcie"]["width"] == first["pcie"]["width_possible"] == 16
    assert first["ecc"]["uncorrected"] == 0
    assert first["compute_mode"] == "default"


@pytest.mark.parametrize("silent", ["Compute", "Graphics"])
def test_a_driver_that_does_not_say_who_computes_does_not_say_nobody(
    library: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    """As GeForces' older drivers; a card in use would be loaded."""
    path, config = library
    config.write_text(gpu.Simulated(count=1, processes=((1, 100),)).text(), "ascii")
    ask = nvml.Library.ask
    monkeypatch.setattr(
        nvml.Library,
        "ask",
        lambda self, name, *given, **more: silent not in name and ask(self, name, *given, **more),
    )
    (card,) = nvml.read(path)["gpus"]
    if silent == "Compute":
        assert card["processes"] is None
        with pytest.raises(nvml.NvmlError):
            nvml.at_work(card["uuid"], path)
    else:
        assert [entry["pid"] for entry in card["processes"]] == nvml.at_work(card["uuid"], path)


def test_who_computes_is_said_of_several_cards(library: tuple[str, Path]) -> None:
    path, config = library
    config.write_text(gpu.Simulated(count=2, processes=((1, 100),)).text(), "ascii")
    first, second = (card["uuid"] for card in nvml.read(path)["gpus"])
    unknown = "GPU-00000000-0000-0000-0000-000000000000"
    pids = nvml.at_work_on([first, second, unknown], path)
    assert pids == {first: [1], second: [], unknown: None}
    assert nvml.at_work(first, path) == [1]


def test_how_much_memory_of_a_card_is_free(
    library: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, config = library
    config.write_text(gpu.Simulated(count=1, processes=((1, 100),)).text(), "ascii")
    (card,) = nvml.read(path)["gpus"]
    left = card["memory"]["total"] - card["memory"]["used"]
    assert 0 < nvml.free(card["uuid"], path) == left < card["memory"]["total"]
    says(monkeypatch, left, bounded.SilentError("no answer"), bounded.EndedError("it ended"))
    assert [machine.free(card["uuid"]) for _ in range(3)] == [left, None, None]


def says(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
    """What NVML says of who computes, one time after the other."""
    given = iter(answers)

    def call(_work: Any, _seconds: float) -> Any:
        answer = next(given)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(machine.bounded, "call", call)
    monkeypatch.setattr(machine, "SETTLED", 0)


def test_the_acceptances_own_programs_are_no_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what those start. Process 1 is somebody else's, with the user's name."""
    argv = [sys.executable, "-c", "import subprocess, time; p = subprocess.Popen(['sleep', '60']); "
            "print(p.pid, flush=True); p.wait()"]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        inner = int(program.stdout.readline())
        try:
            says(monkeypatch, {"a": [program.pid, inner, os.getpid()], "b": [], "c": [1, inner]})
            assert machine.strangers(Context(), ["a", "b", "c"]) == {"c": "in use: root"}
        finally:
            os.kill(inner, signal.SIGKILL)


def test_a_program_that_has_just_ended_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = 2**22 + 7
    says(monkeypatch, {"a": [gone]}, {"a": []})
    assert machine.strangers(Context(), ["a"]) == {}
    # A process that can't be seen from here is somebody's.
    says(monkeypatch, {"a": [gone]}, {"a": [gone]})
    assert machine.strangers(Context(), ["a"]) == {"a": "in use: an unknown user"}


def test_what_is_not_said_does_not_say_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    unsaid = "the driver does not say who uses it"
    says(monkeypatch, {"a": None, "b": []})
    assert machine.strangers(Context(), ["a", "b"]) == {"a": unsaid}
    for error in (bounded.SilentError("no answer"), bounded.EndedError("signal 11")):
        says(monkeypatch, error)
        assert machine.strangers(Context(), ["a", "b"]) == {"a": unsaid, "b": unsaid}


@pytest.mark.parametrize(("name", "ours"), [("(sleep)", True), ("(a) 1 b)", True), ("", False)])
def test_a_process_is_ours_by_its_parents(tmp_path: Path, name: str, ours: bool) -> None:
    put(tmp_path, "proc/77/stat", f"77 {name} S {os.getpid()} 77 77\n" if name else "")
    put(tmp_path, "proc/78/stat", "78 (x) S 77 78 78\n")
    assert machine._ours(Context(root=str(tmp_path)), 78) is ours


def test_a_library_that_is_missing_is_an_answer() -> None:
    facts = nvml.read("libnot-there.so.1")
    assert "libnot-there.so.1" in facts["error"]
    assert facts["gpus"] == []


def test_a_driver_that_is_not_loaded_is_an_answer(library: tuple[str, Path]) -> None:
    path, config = library
    config.unlink(missing_ok=True)
    assert nvml.read(path)["error"] == "driver not loaded"


# the whole look


def test_a_driver_that_hangs_does_not_hang_the_look(host: Path) -> None:
    def hang() -> dict[str, Any]:
        time.sleep(60)
        return {}

    facts = machine.look(Context(root=str(host)), ask=hang, patience=0.2)
    verdict = judge.judge(facts)
    (check,) = [entry for entry in verdict["checks"] if entry["check"] == "nvml"]
    assert (check["state"], check["action"]) == ("failed", "reboot")
    assert check["reason"] == "NVML does not answer: no answer within 0 s"


def answer() -> dict[str, Any]:
    return {"error": None, "driver": "550.163.01", "gpus": [], "topology": {}}


LOG = (
    "1764000000.000000 gpu07 kernel: NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', "
    "name=<unknown>, GPU has fallen off the bus.\n"
)


def test_the_kernels_log_is_the_journals(host: Path) -> None:
    asked: list[str] = []

    def run(argv: list[str]) -> Result:
        asked.append(argv[2])
        return Result(0, LOG, "") if argv[2] == "journalctl" else Result(0, "", "")

    facts = machine.look(Context(root=str(host), runner=run), ask=answer)
    (xid,) = facts["log"]["xids"]
    assert set(xid) == set(event(0, 79))  # what the checks read of it
    assert (xid["pci"], xid["number"]) == ("0000:17:00.0", 79)
    assert asked == ["journalctl"]


def test_without_a_journal_the_kernels_own_buffer_is_read(host: Path) -> None:
    def run(argv: list[str]) -> Result:
        if argv[2] == "journalctl":
            return Result(1, "", "No journal files were found.")
        return Result(
            0, "[ 12.3] NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n", ""
        )

    facts = machine.look(Context(root=str(host), runner=run), ask=answer)
    assert facts["log"]["xids"][0]["number"] == 79


def test_a_log_that_nothing_can_read_is_none(host: Path) -> None:
    assert machine.look(Context(root=str(host)), ask=answer)["log"] is None


@pytest.mark.parametrize("inside", [True, False])
def test_in_a_container_a_log_without_the_driver_is_not_the_kernels(
    host: Path, *, inside: bool
) -> None:
    """gVisor makes one up, and a container's journal has none of the kernel's messages."""
    if inside:
        put(host, "run/systemd/container", "podman\n")
    context = Context(root=str(host), runner=lambda _: Result(0, "[    0.0] Starting...\n", ""))
    log = machine.look(context, ask=answer)["log"]
    assert (log is None) is inside
    context = Context(root=str(host), runner=lambda _: Result(0, LOG, ""))
    assert machine.look(context, ask=answer)["log"]["xids"][0]["number"] == 79


def test_a_simulated_gpus_log_is_a_file(host: Path) -> None:
    put(host, "run/systemd/container", "podman\n")
    put(host, "etc/gpu-simulated", "count=2\n")
    put(host, "etc/gpu-simulated.log", LOG)
    facts = machine.look(Context(root=str(host)), ask=answer)
    assert facts["simulated"] is True
    assert facts["log"]["xids"][0]["number"] == 79
