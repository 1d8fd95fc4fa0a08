"""CRI-O's configuration: one drop-in among its files, asked of crio.

The crio that is asked is the stand-in of the host tests, which merges the files for real.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_container_toolkit import crio as look
from gpu_stack.components.nvidia_container_toolkit import kept_files
from gpu_stack.components.nvidia_container_toolkit.crio_runtime import Crio
from gpu_stack.components.nvidia_container_toolkit.runtime import RestartError
from gpu_stack.host.context import Result
from gpu_stack.host.refusal import RefusalError

from tests.ground import crio as ground
from tests.roles.cri_machine import CriMachine

pytest.importorskip("tomllib", reason="the stand-in reads TOML with Python 3.11's own")

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


class Machine(CriMachine):
    """A host's files and what systemd says; its crio is the stand-in, asked as a machine.role()."""

    daemon = option = "crio"
    runtime, written = Crio, look.DROPIN

    def __init__(self, root: Path) -> None:
        super().__init__(root, KillMode="control-group", ControlGroup="/system.slice/crio.service")
        self.status = ""
        self.put("/etc/crio/crio.conf.d/10-crio.conf", ground.PACKAGED)
        self.put("/proc/812/comm", "crio\n")

    def is_written(self) -> bool:
        return self.there()

    def there(self, path: str = look.DROPIN) -> bool:
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

    def run(self, argv: Sequence[str]) -> Result:
        if argv[0] == "timeout":
            assert argv[2:] == ["crio", "config"]
            etc = self.root / "etc/crio"
            main = ["--config", str(etc / "crio.conf")] if (etc / "crio.conf").exists() else []
            return Result(*self.asked(*main, "--config-dir", str(etc / "crio.conf.d"), "config"))
        return Result(*self.call(*argv))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


OTHERS = "/etc/crio/crio.conf.d/10-crio.conf"


@pytest.mark.parametrize("main", [None, "[crio.image]\npause_image = 'mirror.example/pause:3'\n"])
def test_one_drop_in_comes_and_goes_and_nothing_else_changes(
    machine: Machine, main: str | None
) -> None:
    if main is not None:
        machine.put(look.CONFIG, main)
    before = machine.names()
    assert machine.role().look() == {
        "fault": None, "planned": (None, MINE), "right": False, "owed": False, "loses": None
    }  # fmt: skip
    done = machine.role().write()
    assert (done["changed"], done["saved"]) == (True, None)
    assert machine.text() == MINE
    assert machine.text(OTHERS) == ground.PACKAGED
    # CRI-O reads every file of the directory: no copy and no half of one may lie there.
    assert machine.names() == ["10-crio.conf", "99-nvidia.toml", *before[1:]]
    assert machine.text("/run/provision/crio-restart") == "812 5000\n"
    assert machine.role().look()["right"] is True
    assert machine.role().look()["owed"] is True
    assert machine.role().write() == {"changed": False, "saved": None}
    assert machine.role().removal_state()["entry"] is True
    done = machine.role().take()
    assert (done["changed"], done["saved"]) == (True, None)
    assert machine.names() == before
    assert machine.role().take() == {"changed": False, "saved": None}


def test_a_file_that_is_half_written_is_nowhere_where_crio_reads(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = []
    made = kept_files.tempfile.mkstemp

    def mkstemp(dir: str, prefix: str) -> Any:  # noqa: A002 - the library's own word
        places.append(dir)
        return made(dir=dir, prefix=prefix)

    monkeypatch.setattr(kept_files.tempfile, "mkstemp", mkstemp)
    machine.role().write()
    machine.put(look.DROPIN, MINE + "# changed\n")
    machine.role().restore(machine.role().write()["saved"])
    assert str(machine.root / "etc/crio") in places
    assert str(machine.root / "etc/crio/crio.conf.d") not in places


def test_a_crio_without_any_file_is_given_one(machine: Machine) -> None:
    """CRI-O has its defaults in its program; the drop-in has what they say."""
    (machine.root / OTHERS.lstrip("/")).unlink()
    (machine.root / "etc/crio/crio.conf.d").rmdir()
    machine.role().write()
    assert 'runtime_root = "/run/crun"' in machine.text()
    assert 'allowed_annotations = ["io.containers.trace-syscall", "io.k' in machine.text()
    assert machine.role().look()["right"] is True


def test_what_the_default_runtime_has_is_followed(machine: Machine) -> None:
    machine.role().write()
    machine.put(
        OTHERS, ground.PACKAGED.replace('default_runtime = "runc"', 'default_runtime = "crun"')
    )
    assert machine.role().look()["right"] is False
    done = machine.role().write()
    assert Path(done["saved"]).read_text("utf-8") == MINE
    assert Path(done["saved"]).parent.name == "crio"
    assert 'runtime_root = "/run/crun"' in machine.text()
    assert "monitor_env" not in machine.text()
    machine.role().restore(done["saved"])
    assert machine.text() == MINE


@pytest.mark.parametrize("path", [look.DROPIN, "/etc/crio/crio.conf.d/50-gpu.conf", look.CONFIG])
def test_somebody_s_entry_for_the_same_program_is_taken_as_it_is(
    machine: Machine, path: str
) -> None:
    """nvidia-ctk wrote it, say, or the one who looks after the node."""
    machine.put(path, GOOD)
    assert machine.role().look()["right"] is True
    assert machine.role().write() == {"changed": False, "saved": None}
    assert machine.role().take() == {"changed": False, "saved": None}
    assert machine.role().removal_state()["other"] == look.RUNTIME
    assert machine.text(path) == GOOD


def test_a_default_of_somebody_s_is_served_and_forbids_the_removal(machine: Machine) -> None:
    """With nvidia as the default CRI-O can't read its files until the table is there."""
    machine.put("/etc/crio/crio.conf.d/50-gpu.conf", '[crio.runtime]\ndefault_runtime = "nvidia"\n')
    assert machine.asked("--config-dir", str(machine.root / "etc/crio/crio.conf.d"), "config")[0]
    assert machine.role().look()["fault"] is None
    machine.role().write()
    assert 'runtime_root = "/run/runc"' in machine.text()
    assert machine.role().look()["right"] is True
    assert machine.role().removal_state()["default"] is True


BROKEN: list[tuple[str, str, str]] = [
    (look.CONFIG, "[crio", "crio can't read /etc/crio/crio.conf with /etc/crio/crio.conf.d: "),
    ("/etc/crio/crio.conf.d/50.conf", "x = [", "/etc/crio/crio.conf.d/50.conf: toml: "),
    (look.DROPIN, "[crio.runtime]\n", "is somebody else's and names no runtime nvidia"),
    (look.DROPIN, TABLE.format("/opt/x"), "somebody else's, by /opt/x; expected /usr/bin/"),
    ("/etc/crio/crio.conf.d/99-nvidia.conf", TABLE.format("/opt/x"), "somebody else's, by /opt/x"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "content", "words"), BROKEN)
def test_what_can_not_be_extended_is_refused_and_stays(
    machine: Machine, path: str, content: str, words: str
) -> None:
    machine.put(path, content)
    before = machine.names()
    assert words in machine.role().look()["fault"]
    with pytest.raises(RefusalError, match=re.escape(words)):
        machine.role().write()
    assert machine.text(path) == content
    assert machine.names() == before


def test_what_would_change_something_else_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = machine.asked

    def asked(*argv: str) -> tuple[int, str, str]:
        code, out, error = ask(*argv)
        if "runtimes.nvidia]" in out:
            out = out.replace("registry.k8s.io/pause", "elsewhere/pause")
        return code, out, error

    monkeypatch.setattr(machine, "asked", asked)
    with pytest.raises(RefusalError, match=r"beside the runtime nvidia: .*elsewhere/pause"):
        machine.role().write()
    assert not machine.there()


def conmon(machine: Machine, pid: str, runtime: str, group: str) -> None:
    machine.put(f"/proc/{pid}/comm", "conmon\n")
    machine.put(f"/proc/{pid}/status", "Name:\tconmon\nUid:\t0\t0\t0\t0\n")
    machine.put(f"/proc/{pid}/cgroup", f"0::{group}\n")
    machine.put(f"/proc/{pid}/cmdline", f"/usr/bin/conmon\0-c\0abc\0-n\0k8s_ada\0-r\0{runtime}\0")


def test_a_restart_loses_nobody_or_is_refused(machine: Machine) -> None:
    conmon(machine, "900", "/usr/sbin/runc", "/system.slice/crio-conmon-abc.scope")
    assert machine.role().look()["loses"] is None
    conmon(machine, "901", "/usr/sbin/runc", "/system.slice/crio.service")
    assert (
        "no KillMode=process, and conmon runs in its own cgroup (1)"
        in machine.role().look()["loses"]
    )
    assert machine.role().look()["loses"] == seen(machine)[0]["loses"]
    machine.units["KillMode"] = "process"
    assert machine.role().look()["loses"] is None
    assert seen(machine)[0]["loses"] is None
    machine.units.update(KillMode="control-group", MainPID="0")
    assert machine.role().look()["loses"] is None


def test_who_was_started_by_nvidia_s_program_is_named(machine: Machine) -> None:
    conmon(machine, "900", "/usr/sbin/runc", "/a")
    assert machine.role().removal_state()["users"] == []
    conmon(machine, "901", look.RUNTIME, "/a")
    assert machine.role().removal_state()["users"] == ["k8s_ada"]


def test_the_crio_that_runs_is_asked_for_the_runtime(machine: Machine) -> None:
    machine.role().started()  # one that can't be asked
    machine.status = "[crio.runtime.runtimes.crun]\nruntime_path = ''\n"
    with pytest.raises(RefusalError, match="knows the runtimes crun alone"):
        machine.role().started()
    machine.status += GOOD
    machine.role().started()


def test_a_drop_in_that_somebody_changed_is_kept_when_it_goes(machine: Machine) -> None:
    machine.put(look.DROPIN, MINE + "# mine\n")
    saved = machine.role().take()["saved"]
    assert Path(saved).read_text("utf-8") == MINE + "# mine\n"
    assert not machine.there()


# the look says the same


def seen(machine: Machine, wish: str = "auto") -> Any:
    machine.put(look.DAEMON.socket, "")
    here = machine.context(wish)
    return look.look(here), look.remains(here)


def gone(machine: Machine, wish: str = "auto") -> dict[str, str]:
    """{rule: message} of what stands in the way of the toolkit's going, by the plan."""
    machine.put(look.DAEMON.socket, "")
    return {rule: message for rule, message, _ in look.removal_blockers(machine.context(wish))}


def test_the_plan_of_a_removal_refuses_what_the_role_refuses(machine: Machine) -> None:
    machine.role().write()
    assert gone(machine) == {}
    conmon(machine, "900", look.RUNTIME, "/a")
    assert "absent: k8s_ada" in gone(machine)["crio-containers"]
    assert "absent: k8s_ada" in gone(machine, "none")["crio-containers"]
    conmon(machine, "900", "/usr/sbin/runc", "/system.slice/crio.service")
    assert "conmon runs in its own cgroup (1)" in gone(machine)["crio-containers"]
    assert gone(machine, "none") == {}
    conmon(machine, "900", "/usr/sbin/runc", "/a")
    machine.put("/etc/crio/crio.conf.d/50-gpu.conf", '[crio.runtime]\ndefault_runtime = "nvidia"\n')
    assert "has nvidia as its default_runtime" in gone(machine)["crio-config"]
    assert gone(machine, "none") == {}
    machine.put("/etc/crio/crio.conf.d/50-gpu.conf", "")
    machine.put(look.DROPIN, GOOD)
    assert "a file of somebody's below /etc/crio names" in gone(machine)["crio-config"]
    (machine.root / "usr/bin/crio").unlink()
    assert gone(machine) == {}


def items(found: Any) -> list[tuple[str, Any]]:
    return [(change["item"], change["from"]) for change in look.differ("x", found[0])]


def test_the_plan_has_what_the_role_would_do(machine: Machine) -> None:
    both = [(look.ENTRY, None), (look.RESTART, "started before it")]
    assert items(seen(machine)) == both
    assert seen(machine)[1] == []
    assert items(seen(machine, "none")) == []
    machine.role().write()
    assert items(seen(machine)) == both[1:]
    machine.put("/proc/812/stat", "812 (crio) S 1 " + "0 " * 17 + "6000 1 2\n")
    assert items(seen(machine)) == []
    assert seen(machine)[1] == [[look.ENTRY, look.RUNTIME]]
    assert seen(machine, "none")[1] == []
    machine.put(look.DROPIN, MINE.replace("/usr/libexec/crio/conmon", "/usr/bin/conmon"))
    assert items(seen(machine))[0] == (look.ENTRY, "other options than the default's")
    machine.put(look.DROPIN, MINE.replace(look.RUNTIME, "/opt/x"))
    assert items(seen(machine))[0] == (look.ENTRY, "/opt/x")
    assert machine.role().look()["right"] is False
    (machine.root / "usr/bin/crio").unlink()
    assert items(seen(machine, "required")) == []
    assert seen(machine, "required")[0]["installed"] is False


def test_a_default_that_waits_for_the_table_is_no_fault(machine: Machine) -> None:
    machine.put(look.CONFIG, '[crio.runtime]\ndefault_runtime = "nvidia"\n')
    machine.put(OTHERS, ground.PACKAGED.replace('default_runtime = "runc"', ""))
    assert items(seen(machine))[0] == (look.ENTRY, None)
    machine.role().write()
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
    assert machine.role().look()["fault"] is not None


def test_a_dump_is_read_with_its_defaults_and_without_its_examples(machine: Machine) -> None:
    place = str(machine.root / "etc/crio/crio.conf.d")
    dump = look.parsed(machine.asked("--config-dir", place, "config")[1])
    assert look.model(dump) == "runc"
    assert dump["crio.runtime", "default_runtime"] == '"runc"'
    assert dump["crio.image", "pause_image"] == '"registry.k8s.io/pause:3.9"'
    assert dump["crio.runtime.runtimes.runc", "allowed_annotations"].count("io.") == 1


# the steps of the module


def test_a_call_writes_restarts_and_has_nothing_left_to_do(machine: Machine) -> None:
    done = machine.role().present()
    assert (done["changed"], done["restarted"], machine.restarted) == (True, True, [look.UNIT])
    assert (done["diff"]["before"], done["diff"]["after"]) == ("", MINE)
    again = machine.role().present()
    assert (again["changed"], again["restarted"], again["installed"]) == (False, False, True)
    gone = machine.role().absent()
    assert (gone["changed"], gone["restarted"], machine.there()) == (True, True, False)
    assert machine.role().absent()["changed"] is False


def test_check_mode_says_what_would_be_done_and_does_nothing(machine: Machine) -> None:
    before = machine.names()
    answer = machine.role().present(check=True)
    assert (answer["changed"], answer["diff"]["after"]) == (True, MINE)
    assert answer["msg"] == (
        "Would make the runtime nvidia known to CRI-O in /etc/crio/crio.conf.d/99-nvidia.toml, and "
        "restart it where it runs"
    )
    assert machine.names() == before
    assert not (machine.root / "run/provision").exists()
    machine.role().present()
    assert machine.role().present(check=True) == {"changed": False, "installed": True}
    assert machine.role().absent(check=True)["changed"] is True
    assert machine.there()


def test_who_is_left_alone_or_not_there_is_not_touched(machine: Machine) -> None:
    assert machine.role("none").present() == {"changed": False}
    assert machine.role("none").absent() == {"changed": False}
    (machine.root / "usr/bin/crio").unlink()
    for check in (True, False):
        assert machine.role().present(check) == {"changed": False, "installed": False}
        assert machine.role().absent(check)["changed"] is False
        with pytest.raises(RefusalError, match="required, and CRI-O is not installed"):
            machine.role("required").present(check)


def test_what_was_refused_says_the_way_out(machine: Machine) -> None:
    machine.put(look.DROPIN, "[crio.runtime]\n")
    machine.is_refused_with_a_way_out()


def test_containers_are_not_ended(machine: Machine) -> None:
    conmon(machine, "901", "/usr/sbin/runc", "/system.slice/crio.service")
    words = r"containers would be lost: crio.service has .*\(1\)\. Drain the node "
    machine.ends_no_container(words, "It")
    # A removal that was cut off before the restart.
    machine.role().take()
    with pytest.raises(RefusalError, match="restarted to forget the runtime, and containers"):
        machine.role().absent()
    assert machine.restarted == [look.UNIT]


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        (
            "/etc/crio/crio.conf.d/50-gpu.conf",
            '[crio.runtime]\ndefault_runtime = "nvidia"\n',
            "CRI-O has nvidia as its default_runtime, and would not start without it: take that "
            "out of /etc/crio first. Nothing was changed.",
        ),
        (
            look.DROPIN,
            GOOD,
            "A file of somebody's below /etc/crio names the toolkit's program as the runtime "
            "nvidia: take that out first. Nothing was changed.",
        ),
    ],
)
def test_what_is_needed_is_not_taken(machine: Machine, path: str, content: str, words: str) -> None:
    machine.role().present()
    machine.put(path, content)
    for check in (True, False):
        with pytest.raises(RefusalError, match=re.escape(words)):
            machine.role().absent(check)
        assert machine.role("none").absent(check) == {"changed": False}
    conmon(machine, "901", look.RUNTIME, "/a")
    for wish in ("auto", "none"):
        with pytest.raises(RefusalError, match="be stopped without it: k8s_ada"):
            machine.role(wish).absent()
    assert machine.text(path) == content


@pytest.mark.parametrize(
    ("dead", "end"), [(False, "runs with it"), (True, "does not start with it either")]
)
def test_one_that_does_not_start_with_it_gets_its_files_back(
    machine: Machine, dead: bool, end: str
) -> None:
    before = machine.names()
    machine.stops, machine.dead = math.inf, dead
    with pytest.raises(RestartError) as refused:
        machine.role().present()
    assert str(refused.value) == (
        "crio did not start with the runtime nvidia in /etc/crio/crio.conf.d/99-nvidia.toml; the "
        f"configuration from before is back, and crio {end}. journalctl -u crio says why."
    )
    assert machine.names() == before
    assert machine.restarted == [look.UNIT] * 2


def test_one_that_starts_without_the_runtime_gets_its_files_back(machine: Machine) -> None:
    machine.status = "[crio.runtime.runtimes.crun]\nruntime_path = ''\n"
    with pytest.raises(RestartError, match="knows the runtimes crun alone; the configuration from"):
        machine.role().present()
    assert not machine.there()


def test_one_that_was_to_be_restarted_alone_keeps_its_files(machine: Machine) -> None:
    machine.role().write()
    machine.stops = math.inf
    words = "this run wrote nothing there, and crio does not start at a second time either. journal"
    with pytest.raises(RestartError, match=words):
        machine.role().present()
    assert machine.text() == MINE
