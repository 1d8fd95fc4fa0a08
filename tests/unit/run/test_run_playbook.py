"""`run_playbook`: arguments, errors, events, interruption."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from stub_tree import Tree, change, plan

from provision import run
from provision.errors import InputError, MachineError
from provision.run import Options, Tail, arguments, inventory_sources, outcome_code, run_playbook
from tests.collection import IMPORTABLE


def test_every_option_reaches_ansible() -> None:
    options = Options(
        inventory=["lab"],
        limit="gpu01",
        tags=["cuda", "cudnn"],
        skip_tags=["tensorflow"],
        extra_vars=["a=1", "@file.yml"],
        ask_become_pass=True,
        forks=7,
        vault_password_file=Path("pw"),
        extra_args=["-vvv"],
    )
    words = arguments(options, "plan")
    expected = (
        "-i lab --check --limit gpu01 --tags cuda,cudnn --skip-tags tensorflow -e a=1"
        " -e @file.yml --ask-become-pass --forks 7 --vault-password-file pw -vvv"
    )
    assert words == expected.split()


def test_verify_asks_for_the_checks_alone() -> None:
    words = arguments(Options(inventory=["lab"]), "verify")
    assert words == ["-i", "lab", "--tags", "verify", "-e", "gpu_verify=always"]


@pytest.mark.parametrize("mode", ["plan", "apply", "verify"])
def test_deep_is_the_variable_of_plain_ansible_and_a_users_own_value_wins(mode: Any) -> None:
    words = arguments(Options(["lab"], deep=True, extra_vars=["gpu_deep=false"]), mode)
    assert words[-4:] == ["-e", "gpu_deep=true", "-e", "gpu_deep=false"]


def test_verify_with_tags_is_refused() -> None:
    with pytest.raises(InputError, match="takes no tags"):
        arguments(Options(["lab"], tags=["cuda"]), "verify")


def test_apply_adds_nothing_of_its_own() -> None:
    assert arguments(Options(), "apply") == []


def test_a_folder_without_a_playbook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no site\.yml") as caught:
        run_playbook(tmp_path)
    assert caught.value.hint == "`provision lock`, then `provision render` makes it"
    (tmp_path / "lock.yml").write_text("")
    with pytest.raises(InputError, match=r"no site\.yml") as caught:
        run_playbook(tmp_path)
    assert caught.value.hint == "`provision render` makes it"


def test_an_absent_inventory_is_refused(tree: Tree) -> None:
    with pytest.raises(InputError, match="no such inventory"):
        run_playbook(tree.path, Options(inventory=["nowhere.yml"]))


def test_a_tree_without_its_lab_needs_an_inventory(tree: Tree) -> None:
    (tree.path / "lab" / "hosts.yml").unlink()
    (tree.path / "lab").rmdir()
    with pytest.raises(InputError, match="no inventory of its own"):
        run_playbook(tree.path)


def test_an_inventory_is_found_here_in_the_project_or_as_a_list(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yml").touch()
    words = inventory_sources(tree.path, ["mine.yml", "lab", "a,b"])
    assert words == [str(tmp_path / "mine.yml"), str(tree.path / "lab"), "a,b"]


def test_a_machine_without_ansible_says_how_to_get_it(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    with pytest.raises(MachineError, match="not installed") as caught:
        run_playbook(tree.path)
    assert "pip install" in caught.value.hint


@pytest.mark.parametrize(
    ("report", "ansible_exit", "interrupted", "expected"),
    [
        ({"hosts": {"a": {"status": "proven"}}}, 0, False, 0),
        ({"hosts": {"a": {"status": "blocked"}}}, 2, False, 4),
        ({"hosts": {"a": {"status": "proven"}}}, 0, True, 130),
        ({"hosts": {"a": {"status": "failed"}}}, 99, False, 130),
        # The report saw nothing wrong, Ansible did.
        ({"hosts": {"a": {"status": "converged"}}}, 2, False, 4),
        # Ansible ended before any host: a syntax error, an unknown option, a wrong vault password.
        (None, 4, False, 2),
        ({"hosts": {}}, 1, False, 2),
        ({"hosts": {}}, 0, False, 2),
    ],
)
def test_exit_codes(report: Any, ansible_exit: int, interrupted: bool, expected: int) -> None:
    assert outcome_code(report, ansible_exit, interrupted) == expected


def test_a_playbook_that_does_not_parse_exits_with_2_and_no_stale_report(tree: Tree) -> None:
    tree.answers("gpu01", plan())
    assert run_playbook(tree.path).exit_code == 0
    (tree.path / "site.yml").write_text("- hosts: [\n")
    outcome = run_playbook(tree.path)
    assert outcome.exit_code == 2
    assert outcome.report is None


def test_a_limit_that_matches_no_host_is_an_error(tree: Tree) -> None:
    tree.answers("gpu01", plan())
    outcome = run_playbook(tree.path, Options(limit="nobody"))
    assert outcome.exit_code == 2
    assert "nobody" in outcome.log.read_text(encoding="utf-8")


def test_events_arrive_while_the_run_goes_on(tree: Tree) -> None:
    tree.hosts("gpu01", gpu_verify="never")
    tree.answers("gpu01", plan(change("cuda")))
    seen: list[tuple[float, str]] = []
    run_playbook(
        tree.path,
        Options(extra_vars=["cuda_command='sleep 2'"]),
        on_event=lambda event: seen.append((time.monotonic(), event["event"])),
    )
    names = [name for _, name in seen]
    assert names[0] == "run_start"
    assert names[-1] == "run_end"
    first_plan = next(when for when, name in seen if name == "plan")
    assert seen[-1][0] - first_plan > 1.5


def test_a_view_that_breaks_does_not_leave_ansible_running(tree: Tree) -> None:
    tree.hosts("gpu01", gpu_verify="never")
    tree.answers("gpu01", plan(change("cuda")))

    def broken(event: dict[str, Any]) -> None:
        if event["event"] == "plan":
            raise RuntimeError("view")

    started = time.monotonic()
    with pytest.raises(RuntimeError, match="view"):
        run_playbook(tree.path, Options(extra_vars=["cuda_command='sleep 60'"]), on_event=broken)
    assert time.monotonic() - started < 45


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events"
    tail = Tail(path)
    assert tail.read() == []
    path.write_text('{"event": "a"}\n{"event"')
    assert tail.read() == [{"event": "a"}]
    assert tail.read() == []
    with path.open("a") as stream:
        stream.write(': "b"}\n')
    assert tail.read() == [{"event": "b"}]


SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from provision.run import Options, run_playbook
outcome = run_playbook(
    Path(sys.argv[1]),
    Options(extra_vars=["cuda_command='sleep 60'"]),
    on_event=lambda event: None,
)
print(outcome.report["hosts"]["gpu01"]["status"], outcome.report["hosts"]["gpu01"]["failure"])
sys.exit(outcome.exit_code)
"""


@pytest.mark.parametrize(
    ("to_group", "number"),
    [
        (True, signal.SIGINT),
        (False, signal.SIGINT),
        (True, signal.SIGTERM),
        (False, signal.SIGTERM),
        (True, signal.SIGHUP),
    ],
    ids=["ctrl-c", "kill -INT", "timeout", "kill", "terminal closed"],
)
def test_an_interrupt_ends_ansible_and_reports_every_host(
    tree: Tree, to_group: bool, number: signal.Signals
) -> None:
    tree.hosts("gpu01", gpu_verify="never")
    tree.answers("gpu01", plan(change("cuda")))
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tree.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(run.__file__).parents[2])},
        start_new_session=True,
    )
    events = tree.path / "report" / "latest" / "events.jsonl"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if events.exists() and '"component": "cuda"' in events.read_text(encoding="utf-8"):
            break
        time.sleep(0.1)
    (os.killpg if to_group else os.kill)(process.pid, number)
    killer = threading.Timer(30, process.kill)
    killer.start()
    output, _ = process.communicate()
    killer.cancel()
    assert process.returncode == 130, output
    assert "failed" in output
    assert "interrupted" in output
    assert tree.report()["interrupted"] is True


TERMINAL_SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from provision.run import Options, run_playbook
outcome = run_playbook(
    Path(sys.argv[1]),
    Options(extra_vars=["cuda_command='sleep " + sys.argv[2] + "'"], ask_become_pass=True),
    on_event=lambda event: print("event", event["event"], event.get("component"), flush=True),
)
sys.exit(outcome.exit_code)
"""


@pytest.mark.parametrize(("interrupt", "expected"), [(False, 0), (True, 130)])
def test_a_terminal_is_asked_for_the_password_and_its_ctrl_c_ends_the_run(
    tree: Tree, interrupt: bool, expected: int
) -> None:
    tree.hosts("gpu01", gpu_verify="never")
    tree.answers("gpu01", plan(change("cuda")))
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = str(Path(run.__file__).parents[2])
        seconds = "60" if interrupt else "0"
        command = [sys.executable, "-c", TERMINAL_SCRIPT, str(tree.path), seconds]
        os.execv(sys.executable, command)  # noqa: S606 (the child of a fork has no other way)
    text, answered, sent = "", False, False
    deadline = time.monotonic() + 45
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                text += os.read(terminal, 4096).decode("utf-8", "replace")
            except OSError:  # Linux's way of saying that nobody holds the other side
                break
        if "BECOME password" in text and not answered:
            os.write(terminal, b"secret\n")
            answered = True
        if interrupt and "host_start cuda" in text and not sent:
            os.write(terminal, b"\x03")
            sent = True
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert answered, text
    assert os.waitstatus_to_exitcode(status) == expected, text
    assert "secret" not in text


IMPATIENT = """
import os, signal, sys, threading, time
from ansible.executor.task_queue_manager import TaskQueueManager
sys.path.insert(0, sys.argv[1])
from ansible_collections.provision.gpu.plugins.plugin_utils.interrupts import Interrupts
class Worker:
    pid = int(sys.argv[2])
    def is_alive(self):  # asked while ansible-core has put the default action back
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return True
manager = TaskQueueManager.__new__(TaskQueueManager)
manager._workers = [None, Worker()]
signal.signal(signal.SIGINT, manager._signal_handler)
Interrupts().survive()
# Ansible's own threads: the kernel gives a signal to any of them that doesn't block it.
threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    sys.exit(7)
"""


def test_a_second_interrupt_while_ansible_tells_its_workers_is_survived() -> None:
    # A shell without job control, and some CI, has its background processes ignore SIGINT.
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(["sleep", "60"], preexec_fn=heeding) as worker:
        done = subprocess.run(
            [sys.executable, "-c", IMPATIENT, str(IMPORTABLE), str(worker.pid)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        worker.kill()
    assert done.returncode == 7, (done.returncode, done.stderr)
    assert worker.returncode == -signal.SIGINT
