"""A lab host is reached over SSH, is its own machine, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision import locallab
from provision.errors import InputError
from provision.locallab import Lab, LabHost, machine

pytestmark = pytest.mark.hosts

NVML = """
import ctypes, json
nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
count = ctypes.c_uint()
nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
found = []
for index in range(count.value):
    device, name, work = ctypes.c_void_p(), ctypes.create_string_buffer(96), ctypes.c_uint(0)
    nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
    nvml.nvmlDeviceGetName(device, name, 96)
    nvml.nvmlDeviceGetComputeRunningProcesses_v2(device, ctypes.byref(work), None)
    found.append([name.value.decode(), work.value])
print(json.dumps(found))
"""


CUDA = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
said, count, bus = cuda.cuInit(0), ctypes.c_int(), ctypes.create_string_buffer(20)
cuda.cuDeviceGetCount(ctypes.byref(count))
found = []
for index in range(count.value):
    cuda.cuDeviceGetPCIBusId(bus, 20, index)
    found.append(bus.value.decode())
print(said, *found)
"""


def ssh(lab: Lab, host: LabHost, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ssh", "-o", "BatchMode=yes", *lab.ssh_arguments(), "-i", str(host.key_file),
         f"{host.user}@{host.address}", command],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def answer(lab: Lab, host: LabHost, command: str) -> str:
    done = ssh(lab, host, command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    state = tmp_path_factory.mktemp("lab with spaces") / ".lab"
    made = locallab.up("test-lab", locallab.Shape(gpus=2), state_dir=state, hosts=["one", "two"])
    yield made
    made.down()


def test_every_host_is_its_own_machine(lab: Lab) -> None:
    for host in lab.hosts:
        assert answer(lab, host, "hostname") == host.name
        assert answer(lab, host, "sudo -n id -u") == "0"
        assert answer(lab, host, "systemctl is-system-running") == "running"
    for path in ("/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key.pub"):
        found = {answer(lab, host, f"cat {path}") for host in lab.hosts}
        assert len(found) == len(lab.hosts), path


def test_only_the_real_host_keys_are_trusted(lab: Lab) -> None:
    first, second = lab.hosts
    text = lab.known_hosts.read_text("ascii")
    keys = {line.split()[0]: line.split()[2] for line in text.splitlines()}
    try:
        lab.known_hosts.write_text(f"{first.address} ssh-ed25519 {keys[second.address]}\n", "ascii")
        done = ssh(lab, first, "true")
        assert done.returncode == 255
        assert "host key" in done.stderr.lower()
    finally:
        lab.known_hosts.write_text(text, "ascii")


def test_root_and_passwords_are_refused(lab: Lab) -> None:
    host = lab.hosts[0]
    settings = answer(lab, host, "sudo /usr/sbin/sshd -T").splitlines()
    assert "permitrootlogin no" in settings
    assert "passwordauthentication no" in settings


def test_nothing_of_nvidia_is_installed_and_sources_are_main_only(lab: Lab) -> None:
    host = lab.hosts[0]
    assert "nvidia" not in answer(lab, host, "dpkg-query --show")
    assert "non-free" not in answer(lab, host, "cat /etc/apt/sources.list")
    assert answer(lab, host, "ls /proc/driver/nvidia 2>/dev/null || echo absent") == "absent"


def test_simulated_gpus_are_there_for_nvml_and_the_pci_bus(lab: Lab) -> None:
    host = lab.hosts[0]
    found = json.loads(answer(lab, host, f"python3 -c '{NVML}'"))
    assert found == [["Tesla T4", 0], ["Tesla T4", 0]]
    devices = answer(lab, host, "cat /sys/bus/pci/devices/*/device").split()
    assert devices.count("0x1eb8") == 2


def test_work_on_a_gpu_is_reported_when_the_configuration_says_so(lab: Lab) -> None:
    host = lab.hosts[1]
    answer(lab, host, "sudo sed -i 's/^processes=.*/processes=1:512/' /etc/gpu-simulated")
    assert json.loads(answer(lab, host, f"python3 -c '{NVML}'"))[0] == ["Tesla T4", 1]


HEALTH = """
import ctypes, json
nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
device, width = ctypes.c_void_p(), ctypes.c_uint()
lost = nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device))
nvml.nvmlDeviceGetCurrPcieLinkWidth(device, ctypes.byref(width))
print(json.dumps([lost, width.value]))
"""


def test_a_gpu_gets_sick_and_is_cured_while_the_lab_is_up(lab: Lab) -> None:
    host, name = lab.hosts[0], lab.hosts[0].name
    link = "cat /sys/bus/pci/devices/0000:3c:00.0/current_link_width"

    def seen() -> list[object]:
        return [*json.loads(answer(lab, host, f"python3 -c '{HEALTH}'")), answer(lab, host, link)]

    assert seen() == [0, 16, "16"]
    place = lab.state_dir
    locallab.sicken("test-lab", name, {"lost": "1"}, number=0, state_dir=place)
    locallab.sicken("test-lab", name, {"pcie_width": "4"}, number=1, state_dir=place)
    assert seen() == [15, 4, "4"]
    assert locallab.sicken("test-lab", name, cure=True, state_dir=place) == {}
    assert seen() == [0, 16, "16"]


def test_package_archive_is_reached_through_the_shared_cache(lab: Lab) -> None:
    host = lab.hosts[0]
    assert "http://" in answer(lab, host, "cat /etc/apt/apt.conf.d/00lab-cache")
    assert ssh(lab, host, "sudo apt-get -q update").returncode == 0


def test_a_second_lab_of_the_same_place_is_refused(lab: Lab) -> None:
    with pytest.raises(InputError):
        locallab.up("test-lab", state_dir=lab.state_dir, count=1)
    assert lab.known_hosts.exists()


def test_down_leaves_nothing(tmp_path: Path) -> None:
    state = tmp_path / ".lab"
    made = locallab.up(
        "test-down",
        locallab.Shape(with_gpu=False, with_python=False),
        state_dir=state,
        count=1,
        with_cache=False,
    )
    (host,) = made.hosts
    assert answer(made, host, "command -v python3 || echo none") == "none"
    assert answer(made, host, "ls /etc/gpu-simulated 2>/dev/null || echo none") == "none"
    (known,) = locallab.status("test-down")
    assert known.hosts == {"gpu01": host.address}
    assert known.owner_alive
    assert locallab.down("test-down")
    assert not state.exists()
    assert locallab.status("test-down") == []
    assert machine.connect().containers(run=made.run) == []
    assert not locallab.down("test-down")


def test_a_failed_start_leaves_nothing(tmp_path: Path) -> None:
    state = tmp_path / ".lab"
    with pytest.raises(locallab.machine.MachineError):
        locallab.up(
            "test-failed",
            locallab.Shape(volumes=["/nonexistent-directory:/mnt"]),
            state_dir=state,
            count=2,
            with_cache=False,
        )
    assert not state.exists()
    assert locallab.status("test-failed") == []


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, "0 0000:3B:00.0 0000:3C:00.0"),
        ("-1", "100"),
        ("", "100"),
        ("1", "0 0000:3C:00.0"),
        ("1,0", "0 0000:3C:00.0 0000:3B:00.0"),
        ("0,7,1", "0 0000:3B:00.0"),
    ],
)
def test_cuda_visible_devices_hides_and_orders(
    lab: Lab, visible: str | None, expected: str
) -> None:
    """A GPU hidden from TensorFlow stays hidden: "on the CPU" must mean it."""
    prefix = "" if visible is None else f"CUDA_VISIBLE_DEVICES={visible} "
    assert answer(lab, lab.hosts[0], f"{prefix}python3 -c '{CUDA}'").strip() == expected
