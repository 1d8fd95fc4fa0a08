"""Hosts are asked what they are by a few lines of shell, and answer as the look would see them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from provision import cli, inventory
from provision.catalog import load
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import discover
from provision.inventory.discover import Seen, SeenGpu
from provision.locallab import gpu as simulated
from provision.run import hosts
from tests import collection

CATALOG = load()
PCI = "/sys/bus/pci/devices"
OS_RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
T4 = SeenGpu("10de:1eb8", "Tesla T4", 2)


def answer(
    *gpus: str, release: str = OS_RELEASE, machine: str = "x86_64", newline: str = "\n"
) -> str:
    lines = ["provision:begin", release, f"provision:machine {machine}"]
    lines += [f"provision:gpu {gpu}" for gpu in gpus]
    return "\n".join([*lines, "provision:end", ""]).replace("\n", newline)


def script(root: Path) -> str:
    """What SCRIPT prints on a host with this tree."""
    text = discover.SCRIPT.replace("/etc/os-release", f"{root}/etc/os-release")
    text = text.replace("/usr/lib/os-release", f"{root}/usr/lib/os-release")
    text = text.replace(PCI, f"{root}{PCI}")
    done = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A simulated host with two T4 and more that is on a bus."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text(OS_RELEASE)
    gpu = simulated.Simulated(
        count=2,
        name=simulated.product("Tesla T4"),
        memory_mib=15360,
        driver_version="535.309.01",
        compute_capability="7.5",
        seed="x",
    )
    tree = simulated.pci_tree(gpu)
    for place, kind in (("0000:3b:00.1", "0x040300"), ("0000:3b:00.2", "0x0c0330")):
        tree |= {f"{place}/vendor": "0x10de\n", f"{place}/device": "0x10f7\n"}
        tree[f"{place}/class"] = f"{kind}\n"
    tree |= {"0000:01:00.0/vendor": "0x1002\n", "0000:01:00.0/device": "0x1eb8\n"}
    tree |= {"0000:01:00.0/class": "0x030000\n", "0000:02:00.0/vendor": "0x10de\n"}
    simulated.write_tree(tmp_path / PCI[1:], tree)
    return tmp_path


def test_a_simulated_host_answers_as_the_look_sees_it(host: Path) -> None:
    from gpu_stack.host import platform
    from gpu_stack.host.context import Context

    seen = discover.parse_answer(script(host), CATALOG)
    assert seen is not None
    context = Context(root=str(host), options={}, deep=False, runner=None)
    devices = [f"10de:{gpu['device'][2:]}" for gpu in platform.gpus(context)]
    assert [gpu.id for gpu in seen.gpus for _ in range(gpu.count)] == devices
    system = platform.look(context)
    assert seen.system.split()[:2] == [system["distribution"], system["release"]]
    assert seen.gpus == (T4,)


def test_a_display_card_counts_and_a_host_without_a_bus_answers(host: Path, tmp_path: Path) -> None:
    (host / PCI[1:] / simulated.address(0) / "class").write_text("0x030000\n")
    seen = discover.parse_answer(script(host), CATALOG)
    assert seen is not None
    assert seen.gpus == (T4,)
    empty = tmp_path / "empty"
    (empty / "usr" / "lib").mkdir(parents=True)
    (empty / "usr" / "lib" / "os-release").write_text("ID=fedora\nVERSION_ID=40\n")
    seen = discover.parse_answer(script(empty), CATALOG)
    assert seen is not None
    assert (seen.platform, seen.gpus) == (None, ())
    assert seen.system.startswith("fedora 40 ")


def test_ansible_leaves_the_script_as_it_is() -> None:
    """Templates, and `key=value` words that raw takes for its own."""
    assert not any(mark in discover.SCRIPT for mark in ("{{", "{%", "{#", "executable="))
    assert discover.SCRIPT.count('"') % 2 == 0
    assert "'" not in discover.SCRIPT


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (answer("0x1eb8", "0x1eb8"), Seen("debian12", "debian 12 x86_64", (T4,))),
        (answer(newline="\r\n"), Seen("debian12", "debian 12 x86_64", ())),
        ("Welcome!\nID=other\n" + answer() + "bye\n", Seen("debian12", "debian 12 x86_64", ())),
        (answer(machine="aarch64"), Seen(None, "debian 12 aarch64", ())),
        (answer(release="ID='ubuntu'\nVERSION_ID='20.04'"),
         Seen("ubuntu2004", "ubuntu 20.04 x86_64", ())),
        (answer(release="ID=arch"), Seen(None, "arch x86_64", ())),
        ("VERSION_ID=9\n" + answer(release="ID=arch"), Seen(None, "arch x86_64", ())),
        (answer(release=""), Seen(None, "unknown x86_64", ())),
        (answer("0xfffe"),
         Seen("debian12", "debian 12 x86_64", (SeenGpu("10de:fffe", None, 1),))),
        (answer("nonsense"), Seen("debian12", "debian 12 x86_64", ())),
        (answer("0x20b0", "0x1eb8", "0x1eb8"),
         Seen("debian12", "debian 12 x86_64",
              (T4, SeenGpu("10de:20b0", "A100-SXM4-40GB", 1)))),
        ("", None),
        ("provision:begin\nID=debian\n", None),
        ("provision:end\n", None),
    ],
)  # fmt: skip
def test_an_answer_is_read(text: str, seen: Seen | None) -> None:
    assert discover.parse_answer(text, CATALOG) == seen


# asking


@pytest.fixture
def project(tmp_path: Path) -> Path:
    lab = tmp_path / "p" / "lab"
    lab.mkdir(parents=True)
    (lab / "hosts.yml").write_text(
        "gpu:\n  hosts:\n    gpu01:\n    gpu02: {gpu_models: [Tesla T4]}\n    gpu03:\n"
        '  vars:\n    gpu_stack: {tensorflow: "2.14"}\nweb:\n  hosts: {web01: {}}\n'
    )
    return tmp_path / "p"


class Ansible:
    """Stands in for `ansible`: hosts answer as told."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        self.answers = answers
        self.commands: list[list[str]] = []

    def __call__(self, _project: Path, arguments: list[str]) -> Any:
        self.commands.append(arguments)
        if "--list-hosts" in arguments:
            listed = "  hosts (2):\n    gpu01\n    web01\n"
            if arguments[arguments.index("--limit") + 1] == "web01":
                listed = "  hosts (1):\n    web01\n"
            return subprocess.CompletedProcess([], 0, listed, "")
        folder = Path(arguments[arguments.index("--tree") + 1])
        folder.mkdir()
        limit = Path(arguments[arguments.index("--limit") + 1].removeprefix("@"))
        for host in limit.read_text().split():
            if host in self.answers:
                (folder / host).write_text(json.dumps(self.answers[host]))
        return subprocess.CompletedProcess([], 4, "", "oh no\n")


GOOD = {"rc": 0, "stdout": answer("0x1eb8", "0x1eb8")}
GONE = {"unreachable": True, "msg": "Connection refused", "changed": False}


def run(monkeypatch: pytest.MonkeyPatch, ansible: Ansible, *arguments: str) -> Any:
    for module in (discover.run, hosts):
        monkeypatch.setattr(module, "ansible", ansible)
    return CliRunner().invoke(cli.app, list(arguments))


def test_reached_hosts_are_written_and_others_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ansible = Ansible(gpu01=GOOD, gpu02=GOOD, gpu03=GONE)
    done = run(monkeypatch, ansible, "discover", "-p", str(project))
    assert done.exit_code == 4
    assert "gpu01, gpu02: debian12, 2 x Tesla T4 (10de:1eb8)" in done.output
    assert "gpu03: not asked: Connection refused" in done.output
    text = (project / "discovered.yml").read_text()
    assert text.split("---\n")[1] == (
        "hosts:\n"
        + "".join(
            f"  {host}:\n    platform: debian12\n    system: debian 12 x86_64\n    gpus:\n"
            "    - id: 10de:1eb8\n      name: Tesla T4\n      count: 2\n"
            for host in ("gpu01", "gpu02")
        )
    )
    [command] = ansible.commands
    assert command[command.index("-e") + 1] == "ansible_become=false"


def test_what_was_known_of_an_unreached_host_stays(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_there = Ansible(gpu01=GOOD, gpu02=GOOD, gpu03=GOOD)
    assert run(monkeypatch, all_there, "discover", "-p", str(project)).exit_code == 0
    before = (project / "discovered.yml").read_bytes()
    stamp = (project / "discovered.yml").stat().st_mtime_ns
    done = run(monkeypatch, Ansible(gpu01=GOOD, gpu02=GOOD, gpu03=GONE),
               "discover", "-p", str(project))  # fmt: skip
    assert done.exit_code == 4
    assert "gpu03: not asked; discovered.yml keeps what it had: Connection refused" in done.output
    assert "unchanged" in done.output
    assert (project / "discovered.yml").read_bytes() == before
    assert (project / "discovered.yml").stat().st_mtime_ns == stamp


def test_hosts_without_a_wish_are_never_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ansible = Ansible(gpu01=GOOD, web01=GOOD)
    done = run(monkeypatch, ansible, "discover", "-p", str(project), "--limit", "x", "--json")
    assert done.exit_code == 0
    assert list(json.loads(done.output)["hosts"]) == ["gpu01"]
    assert "web01" not in (project / "discovered.yml").read_text()
    for module in (discover.run, hosts):
        monkeypatch.setattr(module, "ansible", ansible)
    done = CliRunner().invoke(cli.app, ["discover", "-p", str(project), "--limit", "web01"])
    assert isinstance(done.exception, InputError)
    assert "no host to ask" in str(done.exception)


def test_nobody_reached_writes_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Ansible(gpu01=GONE, gpu02=GONE, gpu03=GONE)
    assert run(monkeypatch, gone, "discover", "-p", str(project)).exit_code == 4
    assert not (project / "discovered.yml").exists()
    done = run(monkeypatch, Ansible(), "discover", "-p", str(project))
    assert isinstance(done.exception, InputError)
    assert done.exception.got == "oh no"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"rc": 127, "failed": True, "msg": "non-zero return code", "stdout": ""}, "non-zero"),
        ({"rc": 0, "stdout": "This account is closed.\n"}, "This account is closed."),
    ],
)
def test_a_host_that_does_not_answer_is_reported_as_it_is(
    project: Path, monkeypatch: pytest.MonkeyPatch, result: dict[str, Any], words: str
) -> None:
    ansible = Ansible(gpu01=GOOD, gpu02=GOOD, gpu03=result)
    done = run(monkeypatch, ansible, "discover", "-p", str(project))
    assert done.exit_code == 4
    assert words in done.output
    assert "gpu03" not in (project / "discovered.yml").read_text()


def test_what_the_catalog_does_not_know_is_recorded_and_said(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = {"rc": 0, "stdout": answer("0xfffe", release="ID=fedora\nVERSION_ID=40")}
    ansible = Ansible(gpu01=odd, gpu02=GOOD, gpu03=GOOD)
    done = run(monkeypatch, ansible, "discover", "-p", str(project))
    assert done.exit_code == 0
    assert "gpu01: the catalog doesn't know fedora 40 x86_64" in done.output
    assert "gpu01: the catalog doesn't know the GPU 10de:fffe" in done.output
    seen = discover.parse((project / "discovered.yml").read_bytes(), where="x")["gpu01"]
    assert seen == Seen(None, "fedora 40 x86_64", (SeenGpu("10de:fffe", None, 1),))


def test_a_difference_to_the_inventory_is_said_and_recorded(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"rc": 0, "stdout": answer("0x20b0")}
    done = run(monkeypatch, Ansible(gpu01=GOOD, gpu02=other, gpu03=GOOD),
               "discover", "-p", str(project))  # fmt: skip
    assert isinstance(done.exception, InputError)
    assert done.exception.where == f"{project}/lab/hosts.yml:4"
    assert (project / "discovered.yml").exists()


def test_real_ansible_on_this_machine(project: Path) -> None:
    (project / "lab" / "hosts.yml").write_text(
        "gpu:\n  hosts:\n    here: {ansible_connection: local, ansible_become: true}\n"
        "    gone: {ansible_host: 127.0.0.1, ansible_port: 1}\n"
        '  vars:\n    gpu_stack: {tensorflow: "2.14"}\n'
    )
    seen, failed = discover.ask(
        project, [str(project / "lab")], ["here", "gone"], catalog=CATALOG, limit="all"
    )
    assert list(seen) == ["here"]
    assert seen["here"].system
    assert "refused" in failed["gone"]


def test_a_mistyped_limit_is_refused_whatever_way_ansible_prints_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest ansible-core breaks its warnings at blanks and hyphens."""
    monkeypatch.setattr(hosts, "find_program", lambda name: str(collection.OLDEST / name))
    limit = "gpu01,gpu-node-of-another-inventory.example.org,no_host_of_this_name_at_all"
    with pytest.raises(InputError, match="no host was touched") as caught:
        discover.ask(project, [str(project / "lab")], ["gpu01"], catalog=CATALOG, limit=limit)
    assert caught.value.got.split(", ") == limit.split(",")[1:]


# explaining a host


def discovered(project: Path, **seen: Seen) -> None:
    (project / "discovered.yml").write_bytes(discover.dump(seen))


def explain(project: Path, name: str, *more: str) -> Any:
    return CliRunner().invoke(cli.app, ["explain", name, "-p", str(project), *more])


def test_a_host_is_explained(project: Path) -> None:
    h100 = SeenGpu("10de:2331", "H100 PCIe", 1)
    discovered(project, gpu01=Seen("debian12", "debian 12 x86_64", (h100,)))
    done = explain(project, "gpu01")
    assert done.exit_code == 0, done.exception
    lines = done.output.splitlines()
    assert lines[:4] == [
        "gpu01",
        "  platform: Debian 12 (bookworm), from discovered.yml",
        "  GPUs: H100 PCIe (Hopper, compute capability 9.0), from discovered.yml",
        f'  gpu_stack: {{"tensorflow": "2.14"}}, from {project}/lab/hosts.yml:7',
    ]
    assert lines[4].startswith("  debian12-tensorflow2.14.1-")
    components = ["nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow", "warning"]
    assert [line.split(":")[0].strip() for line in lines[5:]] == components
    assert "PTX" in lines[-1]
    data = json.loads(explain(project, "gpu01", "--json").output)
    assert (data["platform"], data["refusal"]) == ("debian12", None)
    [stack] = data["stacks"]
    assert list(stack["reasons"]) == components[:-1]
    assert len(stack["warnings"]) == 1
    assert stack["locked"] is None


def test_what_is_declared_is_reported_with_its_place(project: Path) -> None:
    lines = explain(project, "gpu02").output.splitlines()
    assert lines[1] == "  platform: not known; `provision discover` asks it, or write gpu_platform"
    assert lines[2] == (
        f"  GPUs: Tesla T4 (Turing, compute capability 7.5), from {project}/lab/hosts.yml:4"
    )
    assert "  what it gets depends on its platform:" in lines


def test_a_refusal_is_reported_with_the_host_and_exits_3(project: Path) -> None:
    k80 = SeenGpu("10de:102d", "Tesla K80", 1)
    discovered(project, gpu01=Seen("debian12", "debian 12 x86_64", (k80,)))
    done = explain(project, "gpu01")
    assert isinstance(done.exception, UnsatisfiableError)
    assert "Tesla K80 (Kepler)" in done.exception.message
    assert "  GPUs: Tesla K80 (Kepler" in done.output
    done = explain(project, "gpu01", "--json")
    assert done.exit_code == 3
    assert "Tesla K80 (Kepler)" in json.loads(done.output)["refusal"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpu1", ["no variable, component or host 'gpu1'", "did you mean gpu"]),
        ("cuda_profil", ["did you mean cuda_profile?"]),
        ("web01", ["web01 has no gpu_stack"]),
    ],
)
def test_what_is_no_host_is_told_the_nearest(project: Path, name: str, words: list[str]) -> None:
    done = explain(project, name)
    assert isinstance(done.exception, InputError)
    for word in words:
        assert word in str(done.exception)


def test_a_lock_reads_what_was_discovered(project: Path) -> None:
    discovered(project, gpu01=Seen("debian11", "debian 11 x86_64", ()))
    (project / "lab" / "hosts.yml").write_text(
        "gpu:\n  hosts: {gpu01: {gpu_platform: debian12}}\n  vars:\n"
        '    gpu_stack: {tensorflow: "2.14"}\n'
    )
    done = CliRunner().invoke(cli.app, ["lock", "-p", str(project)])
    assert isinstance(done.exception, InputError)
    assert "gpu01 is not the platform that the inventory says" in str(done.exception)
    assert f"{project}/lab/hosts.yml:2" in str(done.exception)


# explaining a wish


def test_a_wish_is_explained_word_by_word(project: Path) -> None:
    output = explain(project, "gpu_stack").output
    for word in inventory.WISH_KEYS:
        assert f"\ngpu_stack: {{{word}: " in output
    data = json.loads(explain(project, "gpu_stack", "--json").output)
    assert list(data["wish"]) == list(inventory.WISH_KEYS)
    wish = json.loads(explain(project, "driver_source", "--json").output)["wish"]
    assert wish == {"driver_source": data["wish"]["driver_source"]}


def test_what_its_examples_say_is_a_wish() -> None:
    """Each as a person would copy it; the hash is theirs to fill in."""
    for word, (example, _text) in inventory.WISH_WORDS.items():
        value = yaml.safe_load(example)
        if word == "driver_sha256":
            continue
        wish = inventory.parse_wish({"tensorflow": "2.9", word: value}, where="lab/hosts.yml")
        assert wish.literal[word] == value


def test_a_component_that_is_a_word_too_is_explained_as_both(project: Path) -> None:
    lines = explain(project, "cuda").output.splitlines()
    assert lines[0] == 'gpu_stack: {cuda: "11.2"}'
    assert any(line.startswith("cuda_profile (") for line in lines)
