"""roles/nvidia_container_toolkit/files/containerd.py: one table appended, everything else kept."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_container_toolkit import containerd as look
from gpu_stack.host.context import Context, Result

ROLE = Path(__file__).parents[2] / "roles" / "nvidia_container_toolkit"
OURS = """\
# Begin of what the Ansible role nvidia_container_toolkit wrote; changes here are lost.
{version}[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
{more}# End of what the Ansible role nvidia_container_toolkit wrote.
"""
THEIRS = """\
version = 2 # since 1.3
# a comment
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.example.org/pause:3.6"
"""


def loaded() -> Any:
    path = ROLE / "files" / "containerd.py"
    spec = importlib.util.spec_from_file_location("containerd", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


program = loaded()


class Machine:
    """A host's files; its containerd prints the file that it is asked of, in its own form."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units = {"MainPID": "812", "KillMode": "process"}
        self.fault = ""
        self.drops = ""
        self.itself = ""
        self.put("/usr/bin/containerd", "")
        self.put("/usr/bin/kubelet", "")
        self.put("/proc/812/stat", "812 (containerd) S 1 " + "0 " * 17 + "5000 1 2\n")

    def put(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")

    def text(self, path: str = program.CONFIG) -> str:
        return (self.root / path.lstrip("/")).read_text("utf-8")

    def call(self, *argv: str) -> tuple[int, str, str]:
        if argv[0] == "systemctl":
            return 0, self.units.get(argv[4], "") + "\n", ""
        assert argv[0] == "containerd"
        content = Path(argv[2]).read_text("utf-8")
        if "[broken" in content or self.fault:
            return 1, "", f"\ncontainerd: failed to load TOML: {self.fault or 'line 1'}\n"
        if self.drops and program.BEGIN in content:
            content = content.replace(self.drops, "")
        if ".runtimes." not in content:
            content += self.itself
        return 0, f'imports = ["{argv[2]}"]\n' + content, ""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    host = Machine(tmp_path)
    monkeypatch.setattr(program, "ROOT", str(tmp_path))
    monkeypatch.setattr(program, "call", host.call)
    return host


RUNC = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n'


@pytest.mark.parametrize(
    ("content", "made"),
    [
        (THEIRS, THEIRS + "\n" + OURS.format(version="", more="")),
        (THEIRS.rstrip("\n"), THEIRS + "\n" + OURS.format(version="", more="")),
        (None, OURS.format(version="version = 2\n", more="")),
        (
            THEIRS + RUNC + '  SystemdCgroup = true\n  Root = ""\n  BinaryName = "runc"\n',
            THEIRS + RUNC + '  SystemdCgroup = true\n  Root = ""\n  BinaryName = "runc"\n'
            "\n" + OURS.format(version="", more="  SystemdCgroup = true\n"),
        ),
    ],
)
def test_one_table_comes_and_goes_and_all_else_stays(
    machine: Machine, content: str | None, made: str
) -> None:
    if content is not None:
        machine.put(program.CONFIG, content)
    assert program.look()["right"] is False
    done = program.write()
    assert done["changed"] is True
    assert machine.text() == made
    assert machine.text("/run/provision/containerd-restart") == "812 5000\n"
    assert program.look()["right"] is True
    assert program.look()["owed"] is True
    assert program.write() == {"changed": False, "saved": None}
    if content is not None:
        assert Path(done["saved"]).read_text("utf-8") == content
    assert program.parting()["block"] is True
    assert program.take()["changed"] is True
    if content is None:
        assert not (machine.root / "etc/containerd/config.toml").exists()
    else:
        assert machine.text().rstrip("\n") == content.rstrip("\n")
    assert program.take() == {"changed": False, "saved": None}


def test_what_containerd_has_by_itself_is_not_lost(machine: Machine) -> None:
    """A runtime that the file names takes the place of runc, which pods have without a word."""
    machine.put(program.CONFIG, THEIRS)
    head = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\n'
    machine.itself = head + '  runtime_type = "io.containerd.runc.v2"\n' + RUNC + "  IoGid = 0\n"
    program.write()
    lines = OURS.format(version="", more=machine.itself)
    assert machine.text() == THEIRS + "\n" + lines
    assert program.look()["right"] is True
    program.take()
    assert machine.text() == THEIRS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[broken", "version 1"),
        ("version = 2\n[broken", "containerd can't read /etc/containerd/config.toml: containerd:"),
        ("[plugins.cri]\n", "is of version 1; expected 2 or 3"),
        ("version = 4\n", "is of version 4; expected 2 or 3"),
        ('version = 2\ndisabled_plugins = ["cri"]\n', "switches CRI off"),
        ('disabled_plugins = ["cri"]\n', "switches CRI off"),
        (
            'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n'
            'runtime_type = "io.containerd.runc.v2"\n',
            "has a runtime nvidia of somebody else's, by runc",
        ),
    ],
)
def test_what_can_not_be_extended_is_refused_and_stays(
    machine: Machine, content: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.put(program.CONFIG, content)
    assert words in program.look()["fault"]
    assert program.main(["write"]) == 1
    assert words in capsys.readouterr().err
    assert machine.text() == content
    assert not list((machine.root / "etc/containerd").glob(".provision-*"))
    assert not list((machine.root / "etc/containerd").glob("*.provision-saved"))


def test_an_entry_of_somebody_s_that_is_right_is_left_alone(machine: Machine) -> None:
    """nvidia-ctk wrote it, say, in a drop-in or in the file."""
    theirs = OURS.format(version="version = 2\n", more="")
    theirs = "".join(line + "\n" for line in theirs.splitlines() if line[:1] != "#")
    machine.put(program.CONFIG, theirs)
    assert program.look()["right"] is True
    assert program.write()["changed"] is False
    assert program.take()["changed"] is False


def test_what_would_change_something_else_is_refused(machine: Machine) -> None:
    machine.put(program.CONFIG, THEIRS)
    machine.drops = '  sandbox_image = "registry.example.org/pause:3.6"\n'
    with pytest.raises(program.RefusedError, match=r"beside the runtime nvidia: .*sandbox_image"):
        program.write()
    assert machine.text() == THEIRS


WHOLE = THEIRS + "\n" + OURS.format(version="", more="") + "# theirs\n"


@pytest.mark.parametrize(
    "harmed",
    [
        WHOLE.replace(program.END, ""),
        WHOLE.replace(program.END, "# End\n"),
        WHOLE.replace(program.END, "") + "\n" + OURS.format(version="", more=""),
        program.BEGIN.rstrip("\n"),
    ],
)
def test_a_block_without_its_end_is_refused_and_nothing_is_touched(
    machine: Machine, harmed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What follows the begin may be somebody else's; a removal would take it along."""
    machine.put(program.CONFIG, harmed)
    line = harmed.splitlines().index(program.BEGIN.strip()) + 1
    words = f"/etc/containerd/config.toml has in line {line} the begin of this role's lines"
    assert words in program.look()["fault"]
    assert words in program.parting()["fault"]
    for action in ("write", "take"):
        assert program.main([action]) == 1
        said = capsys.readouterr().err
        assert words in said
        assert program.END.strip() in said
        assert "expected both. Put the end back" in said
    assert machine.text() == harmed
    assert sorted((machine.root / "etc/containerd").iterdir()) == [
        machine.root / "etc/containerd/config.toml"
    ]
    found = seen(machine)[0]
    assert f"line {line} begins this role's table" in found["fault"]
    assert items((found, [])) == [(look.ENTRY, found["fault"])]


def test_a_block_at_the_end_of_a_file_without_a_last_line_break_is_whole(machine: Machine) -> None:
    machine.put(program.CONFIG, THEIRS + "\n" + OURS.format(version="", more="").rstrip("\n"))
    assert program.look()["fault"] is None
    assert seen(machine)[0]["fault"] is None
    program.take()
    assert machine.text() == THEIRS


def shim(machine: Machine, space: str, by: str) -> None:
    place = f"{program.TASKS}{space}/abc"
    machine.put(place + "/address", "unix:///x")
    machine.put(place + "/options.json", json.dumps({"binary_name": by}))


def test_a_restart_loses_nobody_or_is_refused(machine: Machine) -> None:
    machine.put(program.CONFIG, THEIRS)
    machine.units["KillMode"] = "control-group"
    assert program.look()["loses"] is None
    shim(machine, "moby", "runc")
    assert "KillMode" in program.look()["loses"]
    machine.units.update(KillMode="process", RequiredBy="docker.service")
    assert "docker.service would be restarted" in program.look()["loses"]
    machine.units["RequiredBy"] = "other.service"
    assert program.look()["loses"] is None


def test_the_plan_knows_what_a_restart_would_lose(machine: Machine) -> None:
    machine.put(program.CONFIG, THEIRS)
    machine.put(look.SOCKET, "")
    shim(machine, "k8s.io", "runc")
    machine.units["RequiredBy"] = "docker.service"  # which has no container at work
    assert seen(machine)[0]["loses"] is program.look()["loses"] is None
    harms = ({"KillMode": "control-group"}, {"KillMode": "process", "RequiredBy": "docker.service"})
    for harm in harms:
        machine.units.update(harm)
        shim(machine, "moby", "runc")
        assert seen(machine)[0]["loses"] == program.look()["loses"] is not None
    machine.units["RequiredBy"] = "other.service"
    assert seen(machine)[0]["loses"] is program.look()["loses"] is None
    machine.units["KillMode"] = "control-group"
    program.write()
    assert seen(machine)[0]["loses"] is not None  # the restart is still owed
    (machine.root / "run/provision/containerd-restart").unlink()
    assert seen(machine)[0]["loses"] is None


def test_who_was_started_by_nvidia_s_program_is_named(machine: Machine) -> None:
    assert program.parting()["users"] == []
    shim(machine, "k8s.io", "/usr/bin/nvidia-container-runtime")
    shim(machine, "moby", "/usr/bin/nvidia-container-runtime")
    shim(machine, "default", "runc")
    assert program.parting()["users"] == ["k8s.io/abc"]


def gone(machine: Machine, wish: str = "auto") -> dict[str, str]:
    """{rule: message} of what stands in the way of the toolkit's going, by the plan."""
    return {rule: message for rule, message, _ in look.parting(seen_by(machine, wish))}


def test_the_plan_of_a_removal_refuses_what_the_role_refuses(machine: Machine) -> None:
    machine.put(program.CONFIG, THEIRS)
    machine.put(look.SOCKET, "")
    program.write()
    shim(machine, "moby", "/usr/bin/nvidia-container-runtime")  # docker is asked for its own
    assert gone(machine) == {}
    shim(machine, "k8s.io", "/usr/bin/nvidia-container-runtime")
    assert "away: k8s.io/abc" in gone(machine)["containerd-containers"]
    assert "away: k8s.io/abc" in gone(machine, "none")["containerd-containers"]
    shim(machine, "k8s.io", "runc")
    machine.units["KillMode"] = "mixed"
    assert "KillMode of containerd" in gone(machine)["containerd-containers"]
    assert gone(machine, "none") == {}
    machine.units["KillMode"] = "process"
    ours = machine.text()
    head = '[plugins."io.containerd.grpc.v1.cri".containerd]\ndefault_runtime_name = "nvidia"\n'
    machine.put(program.CONFIG, head + ours)
    assert program.parting()["default"] is True
    assert "default_runtime_name" in gone(machine)["containerd-config"]
    machine.put(program.CONFIG, ours.replace(program.END, ""))
    assert "no line ends it" in gone(machine)["containerd-config"]
    machine.put(program.CONFIG, THEIRS)
    assert gone(machine) == {}
    machine.put(program.CONFIG, ours.replace(program.END, ""))
    (machine.root / "usr/bin/containerd").unlink()
    assert gone(machine) == {}


def test_a_configuration_is_put_back(machine: Machine) -> None:
    machine.put(program.CONFIG, THEIRS)
    program.restore(program.write()["saved"])
    assert machine.text() == THEIRS
    (machine.root / "etc/containerd/config.toml").unlink()
    program.write()
    program.restore("")
    assert not (machine.root / "etc/containerd/config.toml").exists()


# the look says the same


def without(path: str) -> Callable[[Machine], None]:
    return lambda machine: (machine.root / path.lstrip("/")).unlink()


def seen_by(machine: Machine, wish: str = "auto") -> Context:
    def run(argv: list[str]) -> Result:
        if argv[0] == "systemctl":
            return Result(*machine.call(*argv))
        assert argv[2:] == ["containerd", "config", "dump"]
        path = str(machine.root / "etc/containerd/config.toml")
        code, out, error = machine.call("containerd", "--config", path, "config", "dump")
        return Result(code, out, error)

    options = {"nvidia_container_toolkit_containerd": wish}
    return Context(root=str(machine.root), options=options, runner=run)


def seen(machine: Machine, wish: str = "auto") -> Any:
    here = seen_by(machine, wish)
    return look.look(here), look.remains(here)


def items(found: Any) -> list[tuple[str, Any]]:
    return [(one["item"], one["from"]) for one in look.differ("x", found[0])]


def test_the_plan_has_what_the_role_would_do(machine: Machine) -> None:
    machine.put(program.CONFIG, THEIRS)
    assert items(seen(machine)) == [(look.ENTRY, None)]
    machine.put("/run/containerd/containerd.sock", "")
    assert items(seen(machine)) == [(look.ENTRY, None), (look.RESTART, "started before it")]
    assert seen(machine)[1] == []
    program.write()
    assert items(seen(machine)) == [(look.RESTART, "started before it")]
    machine.put("/proc/812/stat", "812 (containerd) S 1 " + "0 " * 17 + "6000 1 2\n")
    assert items(seen(machine)) == []
    assert seen(machine)[1] == [[look.ENTRY, look.RUNTIME]]
    assert seen(machine, "none")[1] == []
    machine.put(program.CONFIG, machine.text() + RUNC + "SystemdCgroup = true\n")
    assert items(seen(machine))[0] == (look.ENTRY, "other cgroups than runc's")
    assert program.look()["right"] is False


@pytest.mark.parametrize(
    ("harm", "auto", "required"),
    [
        (lambda _machine: None, True, True),
        (without("/usr/bin/kubelet"), False, True),
        (without("/usr/bin/containerd"), False, False),
        (lambda m: m.put(program.CONFIG, 'disabled_plugins = ["cri"]\n'), False, True),
    ],
)
def test_who_serves_docker_alone_is_left_alone(
    machine: Machine, harm: Callable[[Machine], None], auto: bool, required: bool
) -> None:
    machine.put(program.CONFIG, THEIRS)
    harm(machine)
    assert seen(machine)[0]["wanted"] is auto
    assert seen(machine, "required")[0]["wanted"] is required
    assert seen(machine, "none")[0]["wanted"] is False
    found = program.look()
    assert (found["installed"] and found["used"] and not found["disabled"]) is auto


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("version = 2\n[broken", "not read by containerd: containerd: failed to load TOML"),
        ("[plugins.cri]\n", "version 1; expected 2 or 3"),
        (
            THEIRS
            + '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]\n'
            + 'BinaryName = "/opt/other"\n',
            "somebody else's, by /opt/other",
        ),
    ],
)
def test_the_look_refuses_what_the_role_refuses(machine: Machine, content: str, words: str) -> None:
    machine.put(program.CONFIG, content)
    found = seen(machine)[0]
    assert words in found["fault"]
    assert program.look()["fault"] is not None
    assert items((found, [])) == [(look.ENTRY, found["fault"])]


@pytest.mark.parametrize(
    "name", ["CONFIG", "PROGRAMS", "USERS", "PLACES", "RUNTIME", "NAME", "BEGIN", "END", "TASKS"]
)
def test_both_know_the_same_places(name: str) -> None:
    assert getattr(look, name) == getattr(program, name)
    assert (look.OWED, look.PLUGINS) == (program.OWED, program.PLUGINS)
