"""What may be said of a sick GPU, and how a running host is told."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.acceptance import kernel_log
from gpu_stack.acceptance import machine as machine_look
from gpu_stack.acceptance.checks import kernel
from typer.testing import CliRunner

from provision import cli
from provision.errors import InputError, MachineError
from provision.locallab import gpu, health, machine, sick

A100 = "NVIDIA A100-SXM4-40GB"


@pytest.mark.parametrize("name", gpu.MODELS)
def test_every_models_healthy_values_are_values_of_the_keys(name: str) -> None:
    for key, value in gpu.model(name).healthy().items():
        assert key in health.KEYS
        if value != "simulated":
            assert health.KEYS[key].takes(value), key


def test_what_newer_drivers_say_of_a_healthy_card_is_values_of_the_keys() -> None:
    for key, (_since, value) in health.NEWER.items():
        assert health.KEYS[key].takes(value), key


def test_every_key_is_read_by_a_library_under_its_name() -> None:
    """A key that no C source has would be set and change nothing."""
    text = b"".join(gpu.sources().values()).decode()
    missing = {key for key in (*health.KEYS, *health.HOST_KEYS) if f'"{key}"' not in text}
    assert missing == set(health.IN_LOG)


def test_every_key_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "local-lab.md").read_text("utf-8")
    rows = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    assert {key for key in (*health.KEYS, *health.HOST_KEYS) if f"`{key}`" not in rows} == set()


@pytest.mark.parametrize(
    ("values", "number", "words"),
    [
        ({"temprature": "90"}, 0, ("temprature", "temperature")),
        ({"temperature": "hot"}, 0, ("hot", "degrees Celsius")),
        ({"temperature": "90\nlost=1"}, 0, ("lost", "degrees Celsius")),
        ({"lost": "yes"}, 0, ("yes", "0 or 1")),
        ({"remapped_rows": "1,2"}, 0, ("1,2", "CORRECTED,UNCORRECTED,PENDING,FAILURE")),
        ({"lost": "1"}, 2, ("2", "0 to 1")),
        ({"hang": "5"}, 0, ("hang", "leave out --gpu")),
        ({"lost": "1"}, None, ("lost", "--gpu")),
        ({"topology": "far"}, None, ("far", "hostbridge")),
        ({"topology.0-2": "node"}, None, ("0 to 1",)),
        ({"topology.1-1": "node"}, None, ("0 to 1",)),
        ({"missing": "2"}, None, ("2", "0 to 1")),
        ({"fan": "0"}, 0, ("NVIDIA A100-SXM4-40GB has fan",)),
        ({"retired_pages": "0,0,0"}, 0, ("has retired_pages",)),
        ({"remap_banks": "1,2,3"}, 0, ("1,2,3", "MAX,HIGH,PARTIAL,LOW,NONE")),
    ],
)
def test_what_no_library_would_read_is_refused(
    values: dict[str, str], number: int | None, words: tuple[str, ...]
) -> None:
    said_of: dict[str, Any] = {"host": values} if number is None else {"health": {number: values}}
    with pytest.raises(InputError) as caught:
        gpu.Simulated(name=A100, **said_of)
    error = caught.value
    message = " ".join((str(error), error.got, error.expected, error.hint))
    assert all(word in message for word in words), message


def test_a_sick_host_is_written_as_lines_of_its_gpus() -> None:
    made = gpu.Simulated(health={1: {"lost": "1"}}, host={"hang": "3", "topology.0-1": "single"})
    pairs = gpu.parse(made.text())
    assert pairs["gpu1.lost"] == "1"
    assert (pairs["hang"], pairs["topology.0-1"]) == ("3", "single")
    assert pairs["pcie_max_generation"] == "3"


@pytest.mark.parametrize(
    ("name", "device", "kind", "speed"),
    [
        ("Tesla T4", "0x1eb8", "0x030200", "8.0 GT/s PCIe"),
        ("NVIDIA L4", "0x27b8", "0x030200", "16.0 GT/s PCIe"),
        ("H100 PCIe", "0x2331", "0x030200", "32.0 GT/s PCIe"),
        ("RTX 3090", "0x2204", "0x030000", "16.0 GT/s PCIe"),
        ("RTX 2080 Ti", "0x1e07", "0x030000", "8.0 GT/s PCIe"),
    ],
)
def test_pci_entries_tell_of_the_link(name: str, device: str, kind: str, speed: str) -> None:
    made = gpu.Simulated(name=name, health={1: {"pcie_generation": "2", "pcie_width": "4"}})
    tree = gpu.pci_tree(made)
    first, other = (
        {file: tree[f"{gpu.address(index)}/{file}"].strip() for file in FILES} for index in (0, 1)
    )
    assert first == dict(
        zip(FILES, (device, kind, "2.5 GT/s PCIe", speed, "16", "16"), strict=True)
    )
    assert other["current_link_speed"] == "5.0 GT/s PCIe"
    assert (other["current_link_width"], other["max_link_width"]) == ("4", "16")


FILES = (
    "device", "class", "current_link_speed", "max_link_speed", "current_link_width",
    "max_link_width",
)  # fmt: skip


class Container(machine.Podman):
    """Podman with one container, whose files lie in a folder."""

    installed = True

    def __init__(self, root: Path, state: Path, status: str = "running") -> None:
        super().__init__()
        self.root = root
        labels = {"lab": "demo", "host": "gpu01", "run": "r", "state": str(state)}
        entry = {"Names": ["demo-gpu01-r"], "State": status}
        entry["Labels"] = {f"provision.{key}": value for key, value in labels.items()}  # type: ignore[assignment]
        self.entries = [entry]
        self.programs: list[str] = []

    def containers(self, **labels: str) -> list[dict[str, Any]]:
        wanted = {f"provision.{key}": value for key, value in labels.items()}
        return [entry for entry in self.entries if wanted.items() <= entry["Labels"].items()]  # type: ignore[attr-defined]

    def run(
        self, *arguments: str, stdin: bytes | None = None, timeout: float = 900
    ) -> subprocess.CompletedProcess[bytes]:
        words = [word for word in arguments if word != "--interactive"]
        assert words[:2] == ["exec", "demo-gpu01-r"]
        self.programs.append(words[2])
        program, *rest = (
            str(self.root / word[1:]) if word.startswith("/") else word for word in words[2:]
        )
        return subprocess.run(
            [program, *rest], input=stdin, capture_output=True, check=False, timeout=timeout
        )


@pytest.fixture
def host(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Container:
    """A running host with two A100, one of them at work."""
    assert cache.exists()
    root, state = tmp_path / "root", tmp_path / "state"
    (root / "etc").mkdir(parents=True)
    simulated = gpu.Simulated(name=A100, processes=((7, 100),))
    (root / gpu.CONFIG[1:]).write_text(simulated.text(), "ascii")
    gpu.write_tree(state / "hosts" / "gpu01" / "pci", gpu.pci_tree(simulated))
    podman = Container(root, state)
    monkeypatch.setattr(sick, "connect", lambda: podman)
    return podman


def config(host: Container) -> str:
    return (host.root / gpu.CONFIG[1:]).read_text("ascii")


def link(host: Container, index: int, name: str) -> str:
    labels = host.entries[0]["Labels"]
    state = Path(labels["provision.state"])  # type: ignore[index]
    return (state / "hosts/gpu01/pci" / gpu.address(index) / name).read_text("ascii").strip()


def test_a_running_host_gets_sick_and_is_cured(host: Container) -> None:
    healthy = config(host)
    lines = sick.sicken("demo", "gpu01", {"lost": "1", "pcie_width": "4"}, number=1)
    assert lines == {"gpu1.lost": "1", "gpu1.pcie_width": "4"}
    assert gpu.parse(config(host)) == gpu.parse(healthy) | lines
    assert (link(host, 1, "current_link_width"), link(host, 0, "current_link_width")) == ("4", "16")
    sick.sicken("demo", "gpu01", {"hang": "9"})
    # one key back and another anew; then all of the GPU, and all of the host
    lines = sick.sicken("demo", "gpu01", {"lost": None, "temperature": "99"}, number=1)
    assert lines == {"gpu1.pcie_width": "4", "hang": "9", "gpu1.temperature": "99"}
    assert sick.sicken("demo", "gpu01", number=1, cure=True) == {"hang": "9"}
    assert link(host, 1, "current_link_width") == "16"
    sick.sicken("demo", "gpu01", {"lost": "1"}, number=0)
    assert sick.sicken("demo", "gpu01", cure=True) == {}
    assert config(host) == healthy


def judged(host: Container, number: int) -> list[tuple[str, str]]:
    """(state, action) that an acceptance comes to by the GPU's Xids, and what it reads them in."""
    assert gpu.LOG == machine_look.SIMULATED_LOG
    text = (host.root / gpu.LOG[1:]).read_text("ascii")
    events = [{**xid._asdict(), "pci": xid.address} for xid in kernel_log.xids(text)]
    own = [event for event in events if event["pci"] == gpu.address(number)]
    others = [event for event in events if event not in own]
    found = kernel.xid({"xids": own, "elsewhere": [others], "alone": False})
    return [(found["state"], found["action"])]


def test_a_gpu_has_xids_in_the_kernels_log_until_it_is_cured(host: Container) -> None:
    sick.sicken("demo", "gpu01", {"xid": "79"}, number=1)
    assert judged(host, 1) == [("failed", "reboot")]
    assert judged(host, 0) == [("ok", "nothing")]
    sick.sicken("demo", "gpu01", {"xid": "13,13,13"}, number=0)
    assert (judged(host, 0), judged(host, 1)) == ([("degraded", "watch")], [("failed", "reboot")])
    sick.sicken("demo", "gpu01", number=1, cure=True)
    assert (judged(host, 0), judged(host, 1)) == ([("degraded", "watch")], [("ok", "nothing")])
    sick.sicken("demo", "gpu01", {"xid": None}, number=0)
    assert (host.root / gpu.LOG[1:]).read_text("ascii") == ""


def test_cure_comes_before_what_is_new(host: Container) -> None:
    sick.sicken("demo", "gpu01", {"lost": "1"}, number=0)
    lines = sick.sicken("demo", "gpu01", {"temperature": "99"}, number=0, cure=True)
    assert lines == {"gpu0.temperature": "99"}


def test_the_file_is_replaced_at_once(host: Container) -> None:
    """A program that reads meanwhile sees the old file or the new one."""
    opened = (host.root / gpu.CONFIG[1:]).open("r", encoding="ascii")
    before = config(host)
    sick.sicken("demo", "gpu01", {"lost": "1"}, number=0)
    with opened:
        assert opened.read() == before
    assert host.programs == ["cat", "tee", "mv"]
    assert [path.name for path in (host.root / "etc").iterdir()] == ["gpu-simulated"]


def test_asking_changes_nothing(host: Container) -> None:
    assert sick.sicken("demo", "gpu01") == {}
    assert host.programs == ["cat"]


def test_what_a_host_can_not_have_leaves_it_as_it_is(host: Container) -> None:
    before = config(host)
    for values, number in (({"lost": "2"}, 0), ({"fan": "9"}, 0), ({"lost": "1"}, 2)):
        with pytest.raises(InputError):
            sick.sicken("demo", "gpu01", values, number=number)
    assert config(host) == before


def test_hosts_that_are_not_there(host: Container, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no host gpu02 in a lab demo"):
        sick.sicken("demo", "gpu02", {"lost": "1"}, number=0)
    with pytest.raises(InputError, match="no host gpu01"):
        sick.sicken("demo", "gpu01", state_dir=tmp_path / "other")
    host.entries.append(host.entries[0])
    with pytest.raises(InputError, match="2 labs named demo"):
        sick.sicken("demo", "gpu01")
    host.entries[1:] = []
    host.entries[0]["State"] = "exited"
    with pytest.raises(InputError, match="does not run"):
        sick.sicken("demo", "gpu01")


def test_a_host_without_gpus(host: Container) -> None:
    (host.root / gpu.CONFIG[1:]).unlink()
    with pytest.raises(InputError, match="no simulated GPU"):
        sick.sicken("demo", "gpu01", {"lost": "1"}, number=0)
    shutil.rmtree(host.root)
    host.run = lambda *_, **__: subprocess.CompletedProcess((), 125, b"", b"broken")  # type: ignore[method-assign]
    with pytest.raises(MachineError, match="can't be looked at"):
        sick.sicken("demo", "gpu01")


def test_a_virtual_machine_has_nothing_simulated(host: Container, make_guest: Any) -> None:
    host.entries[:] = []
    make_guest().write()
    with pytest.raises(InputError, match="virtual machine"):
        sick.sicken("demo", "gpu01", {"lost": "1"}, number=0)


def test_the_command_sets_takes_back_and_shows(host: Container) -> None:
    assert "gpu0." not in config(host)
    run = CliRunner()
    sicken = ["lab", "sicken", "demo", "gpu01"]
    done = run.invoke(cli.app, [*sicken, "nvlinks_down=3", "lost=1", "--gpu", "0"])
    assert (done.exit_code, done.output) == (0, "gpu0.nvlinks_down=3\ngpu0.lost=1\n")
    done = run.invoke(cli.app, [*sicken, "lost", "--gpu", "0", "--json"])
    assert json.loads(done.output) == {"gpu0.nvlinks_down": "3"}
    done = run.invoke(cli.app, [*sicken, "--cure"])
    assert (done.exit_code, done.output) == (0, "gpu01 is healthy\n")
