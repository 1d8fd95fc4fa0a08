"""NVIDIA's runtime as containerd's default: set where a file has its line, and put back."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_container_toolkit import containerd as look
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError

from tests.roles.test_toolkit_containerd import THEIRS, Machine

TABLE = '[plugins."io.containerd.grpc.v1.cri".containerd]\n'
OPTION = "nvidia_container_toolkit_containerd"
FILES = {
    "without the table": THEIRS,
    "none": None,
    "with another default": THEIRS
    + TABLE
    + '  snapshotter = "overlayfs"\n  default_runtime_name = "runc" # ours\n'
    + '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\n'
    + '  runtime_type = "io.containerd.runc.v2"\n',
    "with the table alone": THEIRS
    + TABLE
    + '  snapshotter = "overlayfs"\n[debug]\n  level = "info"\n',
    "in other quotes": THEIRS
    + "  [ plugins . 'io.containerd.grpc.v1.cri' . containerd ] # here\n"
    + "    default_runtime_name='kata'\n",
}


class Defaults(Machine):
    """As containerd: its dump has no comments."""

    wished = True

    def call(self, *argv: str) -> tuple[int, str, str]:
        rc, out, err = super().call(*argv)
        return rc, re.sub(r"(?m)\s*#.*$", "", out).replace(" . ", ".").replace("[ ", "["), err

    def context(self, wish: str = "auto") -> Context:
        options = {OPTION: wish, f"{OPTION}_default": self.wished}
        return Context(root=str(self.root), options=options, runner=self.run)

    def state(self) -> dict[str, Any]:
        return look.look(self.context())

    def changes(self) -> list[tuple[str, Any, Any]]:
        found = look.differ("nvidia_container_toolkit", self.state())
        return [(change["item"], change["from"], change["to"]) for change in found]


@pytest.fixture
def machine(tmp_path: Path) -> Defaults:
    return Defaults(tmp_path)


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_it_is_set_and_put_back_and_all_else_stays(machine: Defaults, content: str | None) -> None:
    if content is not None:
        machine.put(look.CONFIG, content)
    assert machine.role().write()["changed"] is True
    assert machine.state()["default"] is None
    assert look.default(look.parsed(machine.call("containerd", "-c", _path(machine))[1]))
    assert machine.role().write() == {"changed": False, "saved": None}
    kept = [line for line in (content or "").splitlines() if "default_runtime_name" not in line]
    theirs = machine.text().partition(look.BEGIN)[0]
    assert [line for line in theirs.splitlines() if line in kept and line] == kept
    # Wished no longer: the runtime stays, and the default goes.
    machine.wished = False
    assert machine.state()["default"] == ["nvidia", "as before"]
    assert machine.role().write()["changed"] is True
    assert machine.state()["default"] is None
    assert not look.sets_default(machine.text())
    assert look.BEGIN in machine.text()
    # And of all of it, from the state with the default.
    machine.wished = True
    machine.role().write()
    assert [item for item, _value in look.remains(machine.context())] == [look.ENTRY, look.DEFAULT]
    state = machine.role().removal_state()
    assert (state["entry"], state["default"]) == (True, False)
    assert machine.role().take()["changed"] is True
    if content is None:
        assert not Path(_path(machine)).exists()
    else:
        assert machine.text().rstrip("\n") == content.rstrip("\n")


def _path(machine: Defaults) -> str:
    return str(machine.root / look.CONFIG.lstrip("/"))


class Real(Defaults):
    """With containerd itself to print what it makes of the file; it runs nothing."""

    def call(self, *argv: str) -> tuple[int, str, str]:
        if argv[0] != "containerd":
            return super().call(*argv)
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(shutil.which("containerd") is None, reason="containerd is not installed")
@pytest.mark.parametrize("name", [name for name in FILES if name != "none"])
def test_containerd_itself_takes_it(tmp_path: Path, name: str) -> None:
    machine = Real(tmp_path)
    machine.put(look.CONFIG, FILES[name] or "")
    machine.role().write()
    answer = machine.call("containerd", "--config", _path(machine), "config", "dump")
    assert look.default(look.parsed(answer[1]))
    machine.wished = False
    machine.role().write()
    assert machine.state()["default"] is None
    machine.role().take()
    assert machine.text().rstrip("\n") == (FILES[name] or "").rstrip("\n")


def test_the_plan_has_the_default_before_the_restart(machine: Defaults) -> None:
    machine.put(look.CONFIG, THEIRS)
    machine.put("/run/containerd/containerd.sock", "")
    machine.wished = False
    machine.role().present()
    machine.wished = True
    assert machine.changes() == [
        (look.DEFAULT, "runc", "nvidia"),
        (look.RESTART, "started before it", "restarted"),
    ]
    machine.role().present()
    assert machine.changes() == []
    assert len(machine.restarted) == 2


def test_a_default_of_somebody_s_is_left_and_forbids_a_removal(machine: Defaults) -> None:
    theirs = THEIRS + TABLE + '  default_runtime_name = "nvidia"\n'
    machine.put(look.CONFIG, theirs)
    for wished in (True, False):
        machine.wished = wished
        machine.role().write()
        assert machine.state()["default"] is None
        assert not look.sets_default(machine.text())
    assert [rule for rule, _message, _hint in look.removal_blockers(machine.context())] == [
        "containerd-config"
    ]
    with pytest.raises(RefusalError, match="as its default_runtime_name"):
        machine.role().absent()


def test_ours_forbids_no_removal(machine: Defaults) -> None:
    machine.put(look.CONFIG, FILES["with another default"] or "")
    machine.role().write()
    assert look.removal_blockers(machine.context()) == []
    assert machine.role().absent()["changed"] is True


def test_a_file_that_is_imported_and_says_otherwise_is_named(machine: Defaults) -> None:
    """containerd takes its word; the file is left as it is."""
    machine.put(look.CONFIG, THEIRS)
    machine.drops = (
        '[plugins."io.containerd.grpc.v1.cri".containerd]\n  default_runtime_name = "nvidia"\n'
    )
    with pytest.raises(RefusalError, match="would have runc as its default runtime"):
        machine.role().write()
    assert machine.text() == THEIRS


def test_the_difference_shows_our_lines_alone(machine: Defaults) -> None:
    machine.put(look.CONFIG, (FILES["with another default"] or "") + '  password = "p"\n')
    difference = machine.role().write()["diff"]
    assert 'default_runtime_name = "nvidia"' in difference["after"]
    assert "password" not in str(difference)
