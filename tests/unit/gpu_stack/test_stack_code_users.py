"""Who has files of a directory open as code, and the refusal to take it away under them."""

from __future__ import annotations

import os
from pathlib import Path

import converged_host as made
import pytest
from converged_host import VENV, Host
from gpu_stack.host import code_users
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = made.make(tmp_path)
    host.link(VENV + "/bin/python3", "python")
    return host


def test_who_uses_which_environment(host: Host) -> None:
    places = {"b": VENV, "a": "/opt/tensorflow/mine", "c": "/opt/tensorflow/idle"}
    both = f"7f00 {VENV}/lib/x.so\n7f01 /opt/tensorflow/mine/lib/y.so\n"
    host.write("/proc/78/maps", both)
    host.write("/proc/79/maps", f"7f00 {VENV}.save/lib/x.so\n")
    host.write("/proc/78/comm", "python3\n")
    host.write("/proc/80/maps", f"7f00 {VENV}/lib/x.so\n")
    first = {"pid": 78, "user": None, "command": "python3"}
    second = {"pid": 80, "user": None, "command": ""}
    users = code_users.using(Context(root=str(host.root)), places)
    assert users == {"a": [first], "b": [first, second]}
    assert list(users) == ["a", "b"]


def test_users_are_named_once_each_in_order_of_their_numbers_and_never_this_process(
    host: Host,
) -> None:
    """An environment that isn't there any more has none."""
    host.write("/opt/tensorflow/mine/bin/x", "")
    jobs = range(99999990, 100000010)
    for pid in (*jobs, os.getpid()):
        maps = f"7f00 {VENV}/lib/x.so\n7f01 /opt/tensorflow/mine/lib/y.so\n"
        host.write(f"/proc/{pid}/maps", maps)
        host.write(f"/proc/{pid}/comm", f"job{pid % 7}\n")
    host.write("/proc/77/maps", "7f00 /opt/tensorflow/gone/lib/x.so\n")
    venvs = (VENV, "/opt/tensorflow/mine", "/opt/tensorflow/gone")
    users = code_users.names_of_users(Context(root=str(host.root)), venvs)
    assert users == [f"pid {pid} (job{pid % 7})" for pid in jobs]


def test_a_process_that_ends_meanwhile_uses_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write("/proc/78/maps", "")
    monkeypatch.setattr(Context, "read", lambda _self, _path: None)
    assert code_users.using(Context(root=str(host.root)), {"a": VENV}) == {}


def test_programs_and_scripts_are_known_by_where_they_lie(host: Host) -> None:
    context = Context(root=str(host.root))
    line = f"/opt/tensorflow/current/bin/python\0{VENV}/lib/train.py\0{VENV}/bin/x\0"
    assert code_users.started(context, line) == f"{VENV}/bin/\n{VENV}/lib/"
    assert code_users.started(context, f"less\0-x\0{VENV}/bin/x") == ""
    assert code_users.started(Context(), "/init\0") == "//"


def test_a_directory_in_use_is_refused_by_the_first_five_of_its_users(host: Host) -> None:
    context = Context(root=str(host.root))
    host.write("/opt/tensorflow/mine/bin/x", "")
    code_users.refuse(context, [VENV, "/opt/tensorflow/mine"])
    for pid in range(99999990, 99999996):
        host.write(f"/proc/{pid}/maps", f"7f00 {VENV}/lib/x.so\n")
        host.write(f"/proc/{pid}/comm", "job\n")
    code_users.refuse(context, ["/opt/tensorflow/mine"])
    with pytest.raises(RefusalError) as refused:
        code_users.refuse(context, ["/opt/tensorflow/mine", VENV])
    names = ", ".join(f"pid {pid} (job)" for pid in range(99999990, 99999995))
    assert str(refused.value) == (
        f"{VENV} is in use by {names}: nothing of it was touched, and none is ever ended for you."
    )


def test_users_are_named_by_directory() -> None:
    user = {"pid": 78, "user": "ada", "command": "python3 train.py"}
    assert code_users.in_words({"b": [user], "a": [user]}, "the tree ") == [
        f"pid 78 of ada uses the tree {name}, which would be removed: python3 train.py"
        for name in ("a", "b")
    ]


def test_where_maps_can_not_be_read_the_command_line_decides(host: Host) -> None:
    """As in a container, where root may not read those of others."""
    for pid, line in ((78, f"{VENV}/bin/python3\0train.py\0"), (79, "/usr/bin/less\0x\0")):
        host.path(f"/proc/{pid}/maps").mkdir(parents=True)
        host.write(f"/proc/{pid}/cmdline", line)
        host.write(f"/proc/{pid}/comm", "job\n")
    host.path("/proc/80/maps").mkdir(parents=True)  # it has ended since
    users = code_users.users_of(Context(root=str(host.root)), {"a": VENV})
    assert users == {"a": [("78", "job")]}


def test_without_directories_no_process_is_looked_at(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "glob", lambda _self, pattern: pytest.fail(pattern))
    assert code_users.users_of(Context(root=str(host.root)), {}) == {}
