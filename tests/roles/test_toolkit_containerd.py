"""containerd's config.toml: one table appended, everything else kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_container_toolkit import containerd as look
from gpu_stack.components.nvidia_container_toolkit.containerd_runtime import Containerd
from gpu_stack.components.nvidia_container_toolkit.runtime import RestartError
from gpu_stack.host.context import Result
from gpu_stack.host.refusal import RefusalError

from tests.roles.cri_machine import CriMachine

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


class Machine(CriMachine):
    """A host's files; its containerd prints the file that it is asked of, in its own form."""

    daemon = option = "containerd"
    runtime, written = Containerd, look.CONFIG

    def __init__(self, root: Path) -> None:
        super().__init__(root, KillMode="process")
        self.fault = ""
        self.drops = ""
        self.itself = ""
        self.put("/usr/bin/kubelet", "")

    def is_written(self) -> bool:
        return look.BEGIN in self.text()

    def call(self, *argv: str) -> tuple[int, str, str]:
        if argv[0] == "systemctl":
            return 0, self.units.get(argv[4], "") + "\n", ""
        assert argv[0] == "containerd"
        content = Path(argv[2]).read_text("utf-8")
        if "[broken" in content or self.fault:
            return 1, "", f"\ncontainerd: failed to load TOML: {self.fault or 'line 1'}\n"
        if self.drops and look.BEGIN in content:
            content = content.replace(self.drops, "")
        if ".runtimes." not in content:
            content += self.itself
        return 0, f'imports = ["{argv[2]}"]\n' + content, ""

    def run(self, argv: Sequence[str]) -> Result:
        if argv[0] == "timeout":
            assert argv[2:] == ["containerd", "config", "dump"]
            path = str(self.root / "etc/containerd/config.toml")
            return Result(*self.call("containerd", "--config", path, "config", "dump"))
        return Result(*self.call(*argv))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


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
        machine.put(look.CONFIG, content)
    assert machine.role().look()["right"] is False
    done = machine.role().write()
    assert done["changed"] is True
    assert machine.text() == made
    assert machine.text("/run/provision/containerd-restart") == "812 5000\n"
    assert machine.role().look()["right"] is True
    assert machine.role().look()["owed"] is True
    assert machine.role().write() == {"changed": False, "saved": None}
    if content is not None:
        assert Path(done["saved"]).read_text("utf-8") == content
    assert machine.role().removal_state()["entry"] is True
    assert machine.role().take()["changed"] is True
    if content is None:
        assert not (machine.root / "etc/containerd/config.toml").exists()
    else:
        assert machine.text().rstrip("\n") == content.rstrip("\n")
    assert machine.role().take() == {"changed": False, "saved": None}


def test_what_containerd_has_by_itself_is_not_lost(machine: Machine) -> None:
    """A runtime that the file names takes the place of runc, which pods have without a word."""
    machine.put(look.CONFIG, THEIRS)
    head = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\n'
    machine.itself = head + '  runtime_type = "io.containerd.runc.v2"\n' + RUNC + "  IoGid = 0\n"
    machine.role().write()
    lines = OURS.format(version="", more=machine.itself)
    assert machine.text() == THEIRS + "\n" + lines
    assert machine.role().look()["right"] is True
    machine.role().take()
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
    machine: Machine, content: str, words: str
) -> None:
    machine.put(look.CONFIG, content)
    assert words in machine.role().look()["fault"]
    with pytest.raises(RefusalError, match=re.escape(words)):
        machine.role().write()
    assert machine.text() == content
    assert not list((machine.root / "etc/containerd").glob(".provision-*"))
    assert not list((machine.root / "etc/containerd").glob("*.provision-saved"))


def test_an_entry_of_somebody_s_that_is_right_is_left_alone(machine: Machine) -> None:
    """nvidia-ctk wrote it, say, in a drop-in or in the file."""
    theirs = OURS.format(version="version = 2\n", more="")
    theirs = "".join(line + "\n" for line in theirs.splitlines() if line[:1] != "#")
    machine.put(look.CONFIG, theirs)
    assert machine.role().look()["right"] is True
    assert machine.role().write()["changed"] is False
    assert machine.role().take()["changed"] is False


def test_what_would_change_something_else_is_refused(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.drops = '  sandbox_image = "registry.example.org/pause:3.6"\n'
    with pytest.raises(RefusalError, match=r"beside the runtime nvidia: .*sandbox_image"):
        machine.role().write()
    assert machine.text() == THEIRS


WHOLE = THEIRS + "\n" + OURS.format(version="", more="") + "# theirs\n"


@pytest.mark.parametrize(
    "harmed",
    [
        WHOLE.replace(look.END, ""),
        WHOLE.replace(look.END, "# End\n"),
        WHOLE.replace(look.END, "") + "\n" + OURS.format(version="", more=""),
        look.BEGIN.rstrip("\n"),
    ],
)
def test_a_block_without_its_end_is_refused_and_nothing_is_touched(
    machine: Machine, harmed: str
) -> None:
    """What follows the begin may be somebody else's; a removal would take it along."""
    machine.put(look.CONFIG, harmed)
    line = harmed.splitlines().index(look.BEGIN.strip()) + 1
    words = f"/etc/containerd/config.toml has in line {line} the begin of this role's lines"
    assert words in machine.role().look()["fault"]
    assert words in machine.role().removal_state()["fault"]
    for action in (machine.role().write, machine.role().take):
        with pytest.raises(RefusalError) as refused:
            action()
        message = str(refused.value)
        assert words in message
        assert look.END.strip() in message
        assert "expected both. Put the end back" in message
    assert machine.text() == harmed
    assert sorted((machine.root / "etc/containerd").iterdir()) == [
        machine.root / "etc/containerd/config.toml"
    ]
    found = seen(machine)[0]
    assert f"line {line} begins this role's table" in found["fault"]
    assert items((found, [])) == [(look.ENTRY, found["fault"])]


def test_a_block_at_the_end_of_a_file_without_a_last_line_break_is_whole(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS + "\n" + OURS.format(version="", more="").rstrip("\n"))
    assert machine.role().look()["fault"] is None
    assert seen(machine)[0]["fault"] is None
    machine.role().take()
    assert machine.text() == THEIRS


def shim(machine: Machine, space: str, by: str) -> None:
    place = f"{look.TASKS}{space}/abc"
    machine.put(place + "/address", "unix:///x")
    machine.put(place + "/options.json", json.dumps({"binary_name": by}))


def test_a_restart_loses_nobody_or_is_refused(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.units["KillMode"] = "control-group"
    assert machine.role().look()["loses"] is None
    shim(machine, "moby", "runc")
    assert "KillMode" in machine.role().look()["loses"]
    machine.units.update(KillMode="process", RequiredBy="docker.service")
    assert "docker.service would be restarted" in machine.role().look()["loses"]
    machine.units["RequiredBy"] = "other.service"
    assert machine.role().look()["loses"] is None


def test_the_plan_knows_what_a_restart_would_lose(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.put(look.DAEMON.socket, "")
    shim(machine, "k8s.io", "runc")
    machine.units["RequiredBy"] = "docker.service"  # which has no container at work
    assert seen(machine)[0]["loses"] is machine.role().look()["loses"] is None
    harms = ({"KillMode": "control-group"}, {"KillMode": "process", "RequiredBy": "docker.service"})
    for harm in harms:
        machine.units.update(harm)
        shim(machine, "moby", "runc")
        assert seen(machine)[0]["loses"] == machine.role().look()["loses"] is not None
    machine.units["RequiredBy"] = "other.service"
    assert seen(machine)[0]["loses"] is machine.role().look()["loses"] is None
    machine.units["KillMode"] = "control-group"
    machine.role().write()
    assert seen(machine)[0]["loses"] is not None  # the restart is still owed
    (machine.root / "run/provision/containerd-restart").unlink()
    assert seen(machine)[0]["loses"] is None


def test_who_was_started_by_nvidia_s_program_is_named(machine: Machine) -> None:
    assert machine.role().removal_state()["users"] == []
    shim(machine, "k8s.io", "/usr/bin/nvidia-container-runtime")
    shim(machine, "moby", "/usr/bin/nvidia-container-runtime")
    shim(machine, "default", "runc")
    assert machine.role().removal_state()["users"] == ["k8s.io/abc"]


def gone(machine: Machine, wish: str = "auto") -> dict[str, str]:
    """{rule: message} of what stands in the way of the toolkit's going, by the plan."""
    return {rule: message for rule, message, _ in look.removal_blockers(machine.context(wish))}


def test_the_plan_of_a_removal_refuses_what_the_role_refuses(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.put(look.DAEMON.socket, "")
    machine.role().write()
    shim(machine, "moby", "/usr/bin/nvidia-container-runtime")  # docker is asked for its own
    assert gone(machine) == {}
    shim(machine, "k8s.io", "/usr/bin/nvidia-container-runtime")
    assert "absent: k8s.io/abc" in gone(machine)["containerd-containers"]
    assert "absent: k8s.io/abc" in gone(machine, "none")["containerd-containers"]
    shim(machine, "k8s.io", "runc")
    machine.units["KillMode"] = "mixed"
    assert "KillMode of containerd" in gone(machine)["containerd-containers"]
    assert gone(machine, "none") == {}
    machine.units["KillMode"] = "process"
    ours = machine.text()
    head = '[plugins."io.containerd.grpc.v1.cri".containerd]\ndefault_runtime_name = "nvidia"\n'
    machine.put(look.CONFIG, head + ours)
    assert machine.role().removal_state()["default"] is True
    assert "default_runtime_name" in gone(machine)["containerd-config"]
    machine.put(look.CONFIG, ours.replace(look.END, ""))
    assert "no line ends it" in gone(machine)["containerd-config"]
    machine.put(look.CONFIG, THEIRS)
    assert gone(machine) == {}
    machine.put(look.CONFIG, ours.replace(look.END, ""))
    (machine.root / "usr/bin/containerd").unlink()
    assert gone(machine) == {}


def test_a_configuration_is_put_back(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.role().restore(machine.role().write()["saved"])
    assert machine.text() == THEIRS
    (machine.root / "etc/containerd/config.toml").unlink()
    machine.role().write()
    machine.role().restore(None)
    assert not (machine.root / "etc/containerd/config.toml").exists()


# the look says the same


def without(path: str) -> Callable[[Machine], None]:
    return lambda machine: (machine.root / path.lstrip("/")).unlink()


def seen(machine: Machine, wish: str = "auto") -> Any:
    here = machine.context(wish)
    return look.look(here), look.remains(here)


def items(found: Any) -> list[tuple[str, Any]]:
    return [(change["item"], change["from"]) for change in look.differ("x", found[0])]


def test_the_plan_has_what_the_role_would_do(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    assert items(seen(machine)) == [(look.ENTRY, None)]
    machine.put("/run/containerd/containerd.sock", "")
    assert items(seen(machine)) == [(look.ENTRY, None), (look.RESTART, "started before it")]
    assert seen(machine)[1] == []
    machine.role().write()
    assert items(seen(machine)) == [(look.RESTART, "started before it")]
    machine.put("/proc/812/stat", "812 (containerd) S 1 " + "0 " * 17 + "6000 1 2\n")
    assert items(seen(machine)) == []
    assert seen(machine)[1] == [[look.ENTRY, look.RUNTIME]]
    assert seen(machine, "none")[1] == []
    machine.put(look.CONFIG, machine.text() + RUNC + "SystemdCgroup = true\n")
    assert items(seen(machine))[0] == (look.ENTRY, "other cgroups than runc's")
    assert machine.role().look()["right"] is False


@pytest.mark.parametrize(
    ("harm", "auto", "required"),
    [
        (lambda _machine: None, True, True),
        (without("/usr/bin/kubelet"), False, True),
        (without("/usr/bin/containerd"), False, False),
        (lambda m: m.put(look.CONFIG, 'disabled_plugins = ["cri"]\n'), False, True),
    ],
)
def test_who_serves_docker_alone_is_left_alone(
    machine: Machine, harm: Callable[[Machine], None], auto: bool, required: bool
) -> None:
    machine.put(look.CONFIG, THEIRS)
    harm(machine)
    assert seen(machine)[0]["wanted"] is auto
    assert seen(machine, "required")[0]["wanted"] is required
    assert seen(machine, "none")[0]["wanted"] is False
    assert machine.role().needs_runtime() is auto
    assert machine.role("required").needs_runtime() is required


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
    machine.put(look.CONFIG, content)
    found = seen(machine)[0]
    assert words in found["fault"]
    assert machine.role().look()["fault"] is not None
    assert items((found, [])) == [(look.ENTRY, found["fault"])]


# the steps of the module


def test_a_call_writes_restarts_and_has_nothing_left_to_do(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    done = machine.role().present()
    assert (done["changed"], done["restarted"], machine.restarted) == (True, True, [look.UNIT])
    assert Path(done["saved"]).read_text("utf-8") == THEIRS
    # The rest of the file may hold a registry's password.
    assert done["diff"]["before"] == ""
    assert done["diff"]["after"] == OURS.format(version="", more="")
    again = machine.role().present()
    assert (again["changed"], again["restarted"], again["installed"]) == (False, False, True)
    gone = machine.role().absent()
    assert (gone["changed"], gone["restarted"]) == (True, True)
    assert machine.role().absent()["changed"] is False
    assert machine.restarted == [look.UNIT] * 2
    assert machine.text() == THEIRS


def test_check_mode_says_what_would_be_done_and_does_nothing(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    answer = machine.role().present(check=True)
    assert answer["changed"] is True
    assert answer["msg"] == (
        "Would make the runtime nvidia known to containerd in /etc/containerd/config.toml, and "
        "restart it where it runs"
    )
    assert answer["diff"]["after"] == OURS.format(version="", more="")
    assert machine.text() == THEIRS
    assert not (machine.root / "run/provision").exists()
    machine.role().present()
    restarted = list(machine.restarted)
    assert machine.role().present(check=True) == {"changed": False, "installed": True}
    assert machine.role().absent(check=True)["changed"] is True
    assert look.BEGIN in machine.text()
    assert machine.restarted == restarted


def test_who_is_left_alone_or_serves_docker_alone_is_not_touched(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    assert machine.role("none").present() == {"changed": False}
    assert machine.role("none").absent() == {"changed": False}
    without("/usr/bin/kubelet")(machine)
    assert machine.role().present() == {"changed": False, "installed": True}
    assert machine.text() == THEIRS
    without("/usr/bin/containerd")(machine)
    assert machine.role().present() == {"changed": False, "installed": False}


def test_one_that_is_required_and_missing_is_refused_unless_it_comes_later(
    machine: Machine,
) -> None:
    without("/usr/bin/containerd")(machine)
    for check in (True, False):
        with pytest.raises(RefusalError, match="required, and containerd is not installed"):
            machine.role("required").present(check)
        assert machine.role("required", comes_later=True).present(check)["changed"] is False


def test_what_was_refused_says_the_way_out(machine: Machine) -> None:
    machine.put(look.CONFIG, "version = 4\n")
    machine.is_refused_with_a_way_out()


def test_containers_are_not_ended(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.units["KillMode"] = "control-group"
    shim(machine, "k8s.io", "runc")
    words = "containers would be lost: KillMode of containerd.service is not process. Stop them"
    machine.ends_no_container(words, "The table")


def test_a_removal_that_was_cut_off_before_the_restart_ends_no_container(machine: Machine) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.role().present()
    machine.role().take()
    machine.units["KillMode"] = "control-group"
    shim(machine, "k8s.io", "runc")
    with pytest.raises(RefusalError, match="restarted to forget the runtime"):
        machine.role().absent()
    machine.units["KillMode"] = "process"
    assert machine.role().absent()["restarted"] is True


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda machine: shim(machine, "k8s.io", look.RUNTIME), "without it: k8s.io/abc. Stop"),
        (
            lambda machine: machine.put(
                look.CONFIG,
                '[plugins."io.containerd.grpc.v1.cri".containerd]\n'
                'default_runtime_name = "nvidia"\n' + machine.text(),
            ),
            "names nvidia as its default_runtime_name: take that out first. Nothing was changed.",
        ),
        (
            lambda machine: machine.put(look.CONFIG, machine.text().replace(look.END, "")),
            "or set nvidia_container_toolkit_containerd to none. Nothing was changed.",
        ),
    ],
)
def test_what_is_needed_is_not_taken(
    machine: Machine, harm: Callable[[Machine], None], words: str
) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.role().present()
    harm(machine)
    before = machine.text()
    for check in (True, False):
        with pytest.raises(RefusalError, match=re.escape(words)):
            machine.role().absent(check)
    assert machine.text() == before


@pytest.mark.parametrize(
    ("stops", "end"), [("with it", "runs with it"), ("ever", "does not start with it either")]
)
def test_one_that_does_not_start_with_it_gets_its_file_back(
    machine: Machine, stops: str, end: str
) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.stops = 1
    machine.dead = stops == "ever"
    with pytest.raises(RestartError) as refused:
        machine.role().present()
    assert str(refused.value) == (
        "containerd did not start with the runtime nvidia in /etc/containerd/config.toml; the "
        f"configuration from before is back, and containerd {end}. journalctl -u containerd says "
        "why."
    )
    assert refused.value.result["said"] == "Job for containerd.service failed."
    assert machine.text() == THEIRS
    assert machine.restarted == [look.UNIT] * 2


@pytest.mark.parametrize(
    ("stops", "end"),
    [(1, "runs after a second start"), (2, "does not start at a second time either")],
)
def test_a_configuration_is_called_back_only_where_it_was_put_back(
    machine: Machine, stops: int, end: str
) -> None:
    """Where only a restart was due nothing was written, so nothing can come back."""
    machine.put(look.CONFIG, THEIRS)
    machine.role().write()
    machine.stops = stops
    with pytest.raises(RestartError) as refused:
        machine.role().present()
    words = "this run wrote nothing there, and containerd "
    assert f"config.toml; {words}{end}. journalctl" in str(refused.value)
    assert "from before" not in str(refused.value)
    assert look.BEGIN in machine.text()
