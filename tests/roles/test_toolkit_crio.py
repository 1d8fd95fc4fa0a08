"""roles/nvidia_container_toolkit/files/crio.py: one drop-in among CRI-O's files, asked of crio.

The crio that is asked is the stand-in of the host tests, which merges the files for real.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_container_toolkit import crio as look
from gpu_stack.host.context import Context, Result

from tests.ground import crio as ground

pytest.importorskip("tomllib", reason="the stand-in reads TOML with Python 3.11's own")

ROLE = Path(__file__).parents[2] / "roles" / "nvidia_container_toolkit"
STAND_IN = Path(__file__).parents[1] / "ground" / "crio_simulated.py"
MINE = """\
# Written by the Ansible role nvidia_container_toolkit; changes made here are lost.
[crio.runtime.runtimes.nvidia]
runtime_path = "/usr/bin/nvidia-container-runtime"
runtime_type = "oci"
runtime_root = "/run/runc"
monitor_path = "/usr/libexec/crio/conmon"
monitor_cgroup = "system.slice"
monitor_env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
allowed_annotations = ["io.containers.trace-syscall"]
"""
TABLE = '[crio.runtime.runtimes.nvidia]\nruntime_path = "{}"\n'
GOOD = TABLE.format("/usr/bin/nvidia-container-runtime")


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("crio", ROLE / "files" / "crio.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


program = loaded()


class Machine:
    """A host's files and what systemd says; its crio is the stand-in, asked as a program."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units = {"MainPID": "812", "KillMode": "control-group"}
        self.units["ControlGroup"] = "/system.slice/crio.service"
        self.status = ""
        self.put("/usr/bin/crio", "")
        self.put("/etc/crio/crio.conf.d/10-crio.conf", ground.PACKAGED)
        self.put("/proc/812/comm", "crio\n")
        self.put("/proc/812/stat", "812 (crio) S 1 " + "0 " * 17 + "5000 1 2\n")

    def put(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")

    def text(self, path: str = program.DROPIN) -> str:
        return (self.root / path.lstrip("/")).read_text("utf-8")

    def there(self, path: str = program.DROPIN) -> bool:
        return (self.root / path.lstrip("/")).exists()

    def names(self) -> list[str]:
        """What CRI-O reads, and what lies above it."""
        return sorted(os.listdir(self.root / "etc/crio/crio.conf.d")) + sorted(
            os.listdir(self.root / "etc/crio")
        )

    def call(self, *argv: str) -> tuple[int, str, str]:
        if argv[0] == "systemctl":
            return 0, self.units.get(argv[4], "") + "\n", ""
        if argv[-2:] == ("status", "config"):
            return (0, self.status, "") if self.status else (1, "", "dial unix")
        if argv[0] == "crio-status":
            return 127, "", "not there"
        assert argv[0] == "crio"
        return self.asked(*argv[1:])

    def asked(self, *argv: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, str(STAND_IN), *argv], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    host = Machine(tmp_path)
    monkeypatch.setattr(program, "ROOT", str(tmp_path))
    monkeypatch.setattr(program, "call", host.call)
    return host


OTHERS = "/etc/crio/crio.conf.d/10-crio.conf"


@pytest.mark.parametrize("main", [None, "[crio.image]\npause_image = 'mirror.example/pause:3'\n"])
def test_one_drop_in_comes_and_goes_and_nothing_else_changes(
    machine: Machine, main: str | None
) -> None:
    if main is not None:
        machine.put(program.CONFIG, main)
    before = machine.names()
    assert program.look() == {
        "installed": True, "fault": None, "right": False, "owed": False, "loses": None
    }  # fmt: skip
    assert program.write() == {"changed": True, "saved": None}
    assert machine.text() == MINE
    assert machine.text(OTHERS) == ground.PACKAGED
    # CRI-O reads every file of the directory: no copy and no half of one may lie there.
    assert machine.names() == ["10-crio.conf", "99-nvidia.toml", *before[1:]]
    assert machine.text("/run/provision/crio-restart") == "812 5000\n"
    assert program.look()["right"] is True
    assert program.look()["owed"] is True
    assert program.write() == {"changed": False, "saved": None}
    assert program.parting()["dropin"] is True
    assert program.take() == {"changed": True, "saved": None}
    assert machine.names() == before
    assert program.take() == {"changed": False, "saved": None}


def test_a_file_that_is_half_written_is_nowhere_where_crio_reads(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = []
    made = program.tempfile.mkstemp

    def mkstemp(dir: str, prefix: str) -> Any:  # noqa: A002 - the library's own word
        places.append(dir)
        return made(dir=dir, prefix=prefix)

    monkeypatch.setattr(program.tempfile, "mkstemp", mkstemp)
    program.write()
    machine.put(program.DROPIN, MINE + "# changed\n")
    program.restore(program.write()["saved"])
    assert str(machine.root / "etc/crio") in places
    assert str(machine.root / "etc/crio/crio.conf.d") not in places


def test_a_crio_without_any_file_is_given_one(machine: Machine) -> None:
    """CRI-O has its defaults in its program; the drop-in has what they say."""
    (machine.root / OTHERS.lstrip("/")).unlink()
    (machine.root / "etc/crio/crio.conf.d").rmdir()
    program.write()
    assert 'runtime_root = "/run/crun"' in machine.text()
    assert 'allowed_annotations = ["io.containers.trace-syscall", "io.k' in machine.text()
    assert program.look()["right"] is True


def test_what_the_default_runtime_has_is_followed(machine: Machine) -> None:
    program.write()
    machine.put(
        OTHERS, ground.PACKAGED.replace('default_runtime = "runc"', 'default_runtime = "crun"')
    )
    assert program.look()["right"] is False
    done = program.write()
    assert Path(done["saved"]).read_text("utf-8") == MINE
    assert Path(done["saved"]).parent.name == "crio"
    assert 'runtime_root = "/run/crun"' in machine.text()
    assert "monitor_env" not in machine.text()
    program.restore(done["saved"])
    assert machine.text() == MINE


@pytest.mark.parametrize(
    "path", [program.DROPIN, "/etc/crio/crio.conf.d/50-gpu.conf", program.CONFIG]
)
def test_somebody_s_entry_for_the_same_program_is_taken_as_it_is(
    machine: Machine, path: str
) -> None:
    """nvidia-ctk wrote it, say, or the one who looks after the node."""
    machine.put(path, GOOD)
    assert program.look()["right"] is True
    assert program.write() == {"changed": False, "saved": None}
    assert program.take() == {"changed": False, "saved": None}
    assert program.parting()["other"] == program.RUNTIME
    assert machine.text(path) == GOOD


def test_a_default_of_somebody_s_is_served_and_forbids_the_removal(machine: Machine) -> None:
    """With nvidia as the default CRI-O can't read its files until the table is there."""
    machine.put("/etc/crio/crio.conf.d/50-gpu.conf", '[crio.runtime]\ndefault_runtime = "nvidia"\n')
    assert machine.asked("--config-dir", str(machine.root / "etc/crio/crio.conf.d"), "config")[0]
    assert program.look()["fault"] is None
    program.write()
    assert 'runtime_root = "/run/runc"' in machine.text()
    assert program.look()["right"] is True
    assert program.parting()["default"] is True


BROKEN: list[tuple[str, str, str]] = [
    (program.CONFIG, "[crio", "crio can't read /etc/crio/crio.conf with /etc/crio/crio.conf.d: "),
    ("/etc/crio/crio.conf.d/50.conf", "x = [", "/etc/crio/crio.conf.d/50.conf: toml: "),
    (program.DROPIN, "[crio.runtime]\n", "is somebody else's and names no runtime nvidia"),
    (program.DROPIN, TABLE.format("/opt/x"), "somebody else's, by /opt/x; expected /usr/bin/"),
    ("/etc/crio/crio.conf.d/99-nvidia.conf", TABLE.format("/opt/x"), "somebody else's, by /opt/x"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "content", "words"), BROKEN)
def test_what_can_not_be_extended_is_refused_and_stays(
    machine: Machine, path: str, content: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.put(path, content)
    before = machine.names()
    assert words in program.look()["fault"]
    assert program.main(["write"]) == 1
    assert words in capsys.readouterr().err
    assert machine.text(path) == content
    assert machine.names() == before


def test_what_would_change_something_else_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = machine.asked

    def asked(*argv: str) -> tuple[int, str, str]:
        code, out, error = said(*argv)
        if "runtimes.nvidia]" in out:
            out = out.replace("registry.k8s.io/pause", "elsewhere/pause")
        return code, out, error

    monkeypatch.setattr(machine, "asked", asked)
    with pytest.raises(program.RefusedError, match=r"beside the runtime nvidia: .*elsewhere/pause"):
        program.write()
    assert not machine.there()


def conmon(machine: Machine, pid: str, runtime: str, group: str) -> None:
    machine.put(f"/proc/{pid}/comm", "conmon\n")
    machine.put(f"/proc/{pid}/status", "Name:\tconmon\nUid:\t0\t0\t0\t0\n")
    machine.put(f"/proc/{pid}/cgroup", f"0::{group}\n")
    machine.put(f"/proc/{pid}/cmdline", f"/usr/bin/conmon\0-c\0abc\0-n\0k8s_ada\0-r\0{runtime}\0")


def test_a_restart_loses_nobody_or_is_refused(machine: Machine) -> None:
    conmon(machine, "900", "/usr/sbin/runc", "/system.slice/crio-conmon-abc.scope")
    assert program.look()["loses"] is None
    conmon(machine, "901", "/usr/sbin/runc", "/system.slice/crio.service")
    assert "no KillMode=process, and conmon runs in its own cgroup (1)" in program.look()["loses"]
    assert program.look()["loses"] == seen(machine)[0]["loses"]
    machine.units["KillMode"] = "process"
    assert program.look()["loses"] is None
    assert seen(machine)[0]["loses"] is None
    machine.units.update(KillMode="control-group", MainPID="0")
    assert program.look()["loses"] is None


def test_who_was_started_by_nvidia_s_program_is_named(machine: Machine) -> None:
    conmon(machine, "900", "/usr/sbin/runc", "/a")
    assert program.parting()["users"] == []
    conmon(machine, "901", program.RUNTIME, "/a")
    assert program.parting()["users"] == ["k8s_ada"]


def test_the_crio_that_runs_is_asked_for_the_runtime(machine: Machine) -> None:
    assert program.proof() == {"known": None}
    machine.status = "[crio.runtime.runtimes.crun]\nruntime_path = ''\n"
    with pytest.raises(program.RefusedError, match="knows the runtimes crun alone"):
        program.proof()
    machine.status += GOOD
    assert program.proof() == {"known": True}


def test_a_drop_in_that_somebody_changed_is_kept_when_it_goes(machine: Machine) -> None:
    machine.put(program.DROPIN, MINE + "# mine\n")
    saved = program.take()["saved"]
    assert Path(saved).read_text("utf-8") == MINE + "# mine\n"
    assert not machine.there()


# the look says the same


def seen_by(machine: Machine, wish: str = "auto") -> Context:
    def run(argv: list[str]) -> Result:
        if argv[0] == "systemctl":
            return Result(*machine.call(*argv))
        assert argv[2:] == ["crio", "config"]
        etc = machine.root / "etc/crio"
        main = ["--config", str(etc / "crio.conf")] if (etc / "crio.conf").exists() else []
        return Result(*machine.asked(*main, "--config-dir", str(etc / "crio.conf.d"), "config"))

    machine.put(look.SOCKET, "")
    options = {"nvidia_container_toolkit_crio": wish}
    return Context(root=str(machine.root), options=options, runner=run)


def seen(machine: Machine, wish: str = "auto") -> Any:
    here = seen_by(machine, wish)
    return look.look(here), look.remains(here)


def gone(machine: Machine, wish: str = "auto") -> dict[str, str]:
    """{rule: message} of what stands in the way of the toolkit's going, by the plan."""
    return {rule: message for rule, message, _ in look.parting(seen_by(machine, wish))}


def test_the_plan_of_a_removal_refuses_what_the_role_refuses(machine: Machine) -> None:
    program.write()
    assert gone(machine) == {}
    conmon(machine, "900", program.RUNTIME, "/a")
    assert "away: k8s_ada" in gone(machine)["crio-containers"]
    assert "away: k8s_ada" in gone(machine, "none")["crio-containers"]
    conmon(machine, "900", "/usr/sbin/runc", "/system.slice/crio.service")
    assert "conmon runs in its own cgroup (1)" in gone(machine)["crio-containers"]
    assert gone(machine, "none") == {}
    conmon(machine, "900", "/usr/sbin/runc", "/a")
    machine.put("/etc/crio/crio.conf.d/50-gpu.conf", '[crio.runtime]\ndefault_runtime = "nvidia"\n')
    assert "has nvidia as its default_runtime" in gone(machine)["crio-config"]
    assert gone(machine, "none") == {}
    machine.put("/etc/crio/crio.conf.d/50-gpu.conf", "")
    machine.put(program.DROPIN, GOOD)
    assert "a file of somebody's below /etc/crio names" in gone(machine)["crio-config"]
    (machine.root / "usr/bin/crio").unlink()
    assert gone(machine) == {}


def items(found: Any) -> list[tuple[str, Any]]:
    return [(one["item"], one["from"]) for one in look.differ("x", found[0])]


def test_the_plan_has_what_the_role_would_do(machine: Machine) -> None:
    both = [(look.ENTRY, None), (look.RESTART, "started before it")]
    assert items(seen(machine)) == both
    assert seen(machine)[1] == []
    assert items(seen(machine, "none")) == []
    program.write()
    assert items(seen(machine)) == both[1:]
    machine.put("/proc/812/stat", "812 (crio) S 1 " + "0 " * 17 + "6000 1 2\n")
    assert items(seen(machine)) == []
    assert seen(machine)[1] == [[look.ENTRY, look.RUNTIME]]
    assert seen(machine, "none")[1] == []
    machine.put(program.DROPIN, MINE.replace("/usr/libexec/crio/conmon", "/usr/bin/conmon"))
    assert items(seen(machine))[0] == (look.ENTRY, "other options than the default's")
    machine.put(program.DROPIN, MINE.replace(program.RUNTIME, "/opt/x"))
    assert items(seen(machine))[0] == (look.ENTRY, "/opt/x")
    assert program.look()["right"] is False
    (machine.root / "usr/bin/crio").unlink()
    assert items(seen(machine, "required")) == []
    assert seen(machine, "required")[0]["installed"] is False


def test_a_default_that_waits_for_the_table_is_no_fault(machine: Machine) -> None:
    machine.put(program.CONFIG, '[crio.runtime]\ndefault_runtime = "nvidia"\n')
    machine.put(OTHERS, ground.PACKAGED.replace('default_runtime = "runc"', ""))
    assert items(seen(machine))[0] == (look.ENTRY, None)
    program.write()
    assert items(seen(machine)) == [(look.RESTART, "started before it")]


@pytest.mark.parametrize(("path", "content", "words"), BROKEN)
def test_the_look_refuses_what_the_role_refuses(
    machine: Machine, path: str, content: str, words: str
) -> None:
    machine.put(path, content)
    found = seen(machine)[0]
    assert found["fault"] is not None
    if "nvidia" in words:
        assert words.split(";")[0] in found["fault"]
    assert program.look()["fault"] is not None


SAME = (
    *("CONFIG", "PLACE", "DROPIN", "PROGRAMS", "RUNTIME", "HEADER", "OWED", "TABLE", "OPTIONS"),
)


@pytest.mark.parametrize("name", SAME)
def test_both_know_the_same_places(name: str) -> None:
    assert getattr(look, name) == getattr(program, name)


def test_both_read_a_dump_alike(machine: Machine) -> None:
    place = str(machine.root / "etc/crio/crio.conf.d")
    dump = machine.asked("--config-dir", place, "config")[1]
    assert look.parsed(dump) == program.parsed(dump)
    assert look.model(program.parsed(dump)) == program.model(look.parsed(dump)) == "runc"
    read: Callable[[str, str], Any] = lambda table, key: look.parsed(dump)[table, key]  # noqa: E731
    assert read("crio.runtime", "default_runtime") == '"runc"'
    assert read("crio.image", "pause_image") == '"registry.k8s.io/pause:3.9"'
    assert read("crio.runtime.runtimes.runc", "allowed_annotations").count("io.") == 1
