"""A host that hangs is named with what to do, also by an ansible-playbook without `provision`."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
import yaml
from ansible_collections.provision.gpu.plugins.callback import report
from ansible_collections.provision.gpu.plugins.plugin_utils import time_limit
from ansible_collections.provision.gpu.plugins.plugin_utils.record import Record
from ansible_collections.provision.gpu.plugins.plugin_utils.results import message_of, timed_out
from ansible_collections.provision.gpu.plugins.plugin_utils.table import table
from gpu_stack.components import run_steps
from stub_tree import LOCK

from provision.errors import HostError
from provision.lock import from_host
from provision.render import ansible_cfg
from provision.roles.site import ROLE
from provision.run import hosts
from tests.collection import ROOT, tasks_of

UNREACHABLE = (
    'Task failed: Data could not be sent to remote host "10.0.0.9". Make sure this host can be '
    "reached over ssh: Connection timed out during banner exchange"
)


# ansible-core 2.19; and 2.17, which has no `timedout`.
@pytest.mark.parametrize(
    "result",
    [
        {"msg": "Task failed: Timed out after 600 second(s).", "timedout": {"period": 600}},
        {
            "msg": "The gpu_state action failed to execute in the expected time frame (600) and "
            "was terminated"
        },
    ],
)
def test_a_task_without_an_answer_says_where_to_look(result: dict[str, Any]) -> None:
    result["failed"] = True
    message = message_of(result)
    assert timed_out(result)
    assert timed_out({"results": [{"changed": True}, result]})
    assert not timed_out({"failed": True, "msg": "timed out"})
    assert message.startswith("not done after 600 s, so the run went on without this host")
    assert "dmesg" in message
    assert message_of({"results": [result | {"item": "a"}], "msg": "One or more items failed"}) == (
        message
    )


@pytest.mark.parametrize("rescued", [False, True])
def test_a_host_whose_task_was_not_done_is_let_go_as_one_that_was_cut_off(
    monkeypatch: pytest.MonkeyPatch, rescued: bool
) -> None:
    """Where a rescue goes on without the task, or `failed_when`, it still runs there."""
    stopped: list[dict[str, Any]] = []
    monkeypatch.setattr(report.hosts, "groups_of", lambda _host: [])
    monkeypatch.setattr(report, "will_be_rescued", lambda _task: rescued)
    monkeypatch.setenv("PROVISION_LIVE", "1")
    callback = report.CallbackModule()
    monkeypatch.setattr(callback, "get_option", lambda _name: 5)
    callback._record = Record("run", 0.0, LOCK["gpu_lock"], "0.1.0")
    callback._holders = SimpleNamespace(stop=lambda **options: stopped.append(options))
    callback._writer = SimpleNamespace(
        event=lambda *_arguments, **_fields: None, finish=lambda **_fields: {}
    )
    task = SimpleNamespace(
        get_name=lambda: "cuda : packages | Install",
        action="a",
        _uuid="1",
        _role=None,
        _parent=None,
    )
    for name, data in (("gpu01", {"timedout": {"period": 5}}), ("gpu02", {}), ("gpu03", {})):
        host = SimpleNamespace(get_name=lambda name=name: name)
        result = SimpleNamespace(_host=host, _task=task, _result={"failed": True, **data})
        if name == "gpu03":
            callback.v2_runner_on_ok(result)
        else:
            callback.v2_runner_on_failed(result)
    callback._finish(failures={"gpu01", "gpu02"})
    assert stopped == [{"finished": True, "given_up": {"gpu01"}}]


def test_what_no_log_hides_stays_hidden() -> None:
    assert message_of({"censored": "x", "timedout": {"period": 5}}) == "hidden by no_log"


def test_the_plain_table_has_the_cure_of_a_host_that_cannot_be_reached() -> None:
    failure = {"task": "Look | x", "message": UNREACHABLE, "phase": "look"}
    lines = table({"hosts": {"gpu01": entry("unreachable", failure)}})
    assert "Connection timed out during banner exchange" in lines[0]
    assert "Task failed" not in lines[0]
    assert lines[1].strip().startswith("cure: the address takes connections")


def entry(status: str, failure: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": status, "failure": failure, "checks": [], "blockers": [], "changes": [],
        "simulated_gpu": False, "platform": None,
    }  # fmt: skip


def test_every_wait_of_ssh_has_an_end() -> None:
    """One that has none holds up every other host of the batch."""
    text = ansible_cfg.render()["ansible.cfg"].decode()
    for setting in ("\ntimeout = 30\n", "ServerAliveInterval=30", "ServerAliveCountMax=3"):
        assert setting in text
    assert "\ntask_timeout = " in text


@pytest.mark.parametrize(("seconds", "good"), [(600, True), (10, True), (9, False), (0, False)])
def test_a_look_has_a_limit(seconds: int, good: bool) -> None:
    option = next(option for option in ROLE.options if option.name == "gpu_look_timeout")
    assert (option.fault(seconds) is None) is good


@pytest.mark.parametrize(
    ("seconds", "good"), [(0, True), (60, True), (59, False), (-5, False), (7200, True)]
)
def test_the_limit_of_a_steps_tasks_is_none_or_long_enough(seconds: int, good: bool) -> None:
    option = next(option for option in ROLE.options if option.name == "gpu_step_timeout")
    assert (option.fault(seconds) is None) is good


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [(0, 7200), ("0", 7200), (900, 900), ("900", 900), ("10m", 7200), (-1, 7200)],
)
def test_every_task_of_a_step_has_an_end(timeout: object, seconds: int) -> None:
    """Where nothing, or nothing that can be read, is said, its kind of step says it."""
    (step,) = yaml.safe_load((ROOT / "roles/gpu_state/tasks/step.yml").read_text("utf-8"))
    assert step["ansible.builtin.include_role"]["apply"]["timeout"] == "{{ __gpu_state_seconds }}"
    environment = jinja2.Environment(autoescape=True)
    expression = environment.from_string(step["vars"]["__gpu_state_seconds"])
    rendered = expression.render(gpu_step_timeout=timeout, __gpu_state_step={"seconds": 7200})
    assert int(rendered) == seconds


def test_each_kind_of_step_has_its_limit() -> None:
    seconds = {step["name"]: step["seconds"] for step in run_steps()}
    assert seconds["nvidia_driver:bring"] == seconds["tensorflow:begin"] == 7200
    assert seconds["nvidia_driver:remove"] == 3600
    assert seconds["gpu_env:bring"] == seconds["gpu_env:remove"] == 900
    # What a run that was cut off still finishes is waited for.
    assert 930 < seconds["nvidia_driver:hold"] < 1800
    assert min(seconds.values()) >= 60
    assert max(seconds.values()) < 14400


def test_nothing_between_the_look_and_the_receipt_waits_for_ansible_cfgs_four_hours() -> None:
    """What of the run is in no step says its own time."""
    plays = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))
    tasks = tasks_of(next(play for play in plays if play["name"] == "GPU stack"))
    free = []
    for task in tasks:
        role = task.get("ansible.builtin.import_role") or task.get("ansible.builtin.include_role")
        if role is None and "provision.gpu.gpu_proof" not in task:
            continue  # nothing of it runs on the host
        if not (task.get("timeout") or (role or {}).get("apply", {}).get("timeout")):
            free.append((role or {}).get("tasks_from", task["name"]))
    # The looks have theirs in the action, the steps in the role, and the checks in theirs.
    assert free == ["main", "step", "again", tasks[-1]["name"]]


@pytest.mark.parametrize(
    ("timeout", "deep", "seconds"),
    [(600, False, 600), ("120", True, 720), ("10m", False, 10), (0, False, 10), ("", True, 60)],
)
def test_nothing_said_with_e_takes_the_limit_away(
    timeout: object, deep: bool, seconds: int
) -> None:
    """Ansible takes 0 for none at all, and no option's check reads -e."""
    assert time_limit.seconds(timeout, deep) == seconds


def test_a_look_that_hangs_is_ended_by_its_limit_whoever_catches_exceptions() -> None:
    def retried() -> None:
        for _attempt in range(3):
            with contextlib.suppress(Exception):
                time.sleep(30)

    with pytest.raises(time_limit.OutOfTimeError), time_limit.within(1):
        retried()
    assert signal.alarm(0) == 0
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_a_tasks_own_limit_stays() -> None:
    """The sooner of both ends the look; what comes after it has the rest of the task's."""
    ended = []
    before = signal.signal(signal.SIGALRM, lambda *_arguments: ended.append(True))
    try:
        signal.alarm(100)
        with time_limit.within(10):
            assert signal.getitimer(signal.ITIMER_REAL)[0] <= 10
        assert 90 <= signal.alarm(0) <= 100
        signal.alarm(1)
        with time_limit.within(10):
            time.sleep(1.5)
        assert ended == [True]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_the_look_needs_no_template_of_a_task_or_play() -> None:
    """Each is compiled anew in every host's worker."""
    plays = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))
    play = next(play for play in plays if play["name"] == "GPU stack")
    assert "environment" not in play
    (look,) = yaml.safe_load((ROOT / "roles/gpu_state/tasks/main.yml").read_text("utf-8"))
    assert "{{" not in str(look)
    # What is done on the host has it.
    (work,) = [task for task in play["tasks"] if "block" in task]
    assert set(work["environment"]) == {"PROVISION_RUN", "APT_CONFIG"}


@pytest.fixture
def hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An inventory with this machine and with a host whose login hangs."""
    monkeypatch.delenv("ANSIBLE_TASK_TIMEOUT", raising=False)
    monkeypatch.setattr(hosts, "ANSWERS_WITHIN", 4)
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 60\n")
    ssh.chmod(0o755)
    inventory = tmp_path / "lab.yml"
    inventory.write_text(
        f"all: {{hosts: {{gpu01: {{ansible_ssh_executable: {ssh}}}, "
        "gpu02: {ansible_connection: local}}}\n"
    )
    return str(inventory)


def test_a_login_that_hangs_does_not_keep_the_other_hosts_answers(
    tmp_path: Path, hung: str
) -> None:
    """`provision discover` waited for ever: what only asks has no become, and so no limit of it."""
    answers, _ = hosts.ask(tmp_path, [hung], ["gpu01", "gpu02"], "echo here")
    stuck, well = answers["gpu01"], answers["gpu02"]
    assert well is not None
    assert well["stdout"].strip() == "here"
    assert stuck is not None
    assert "Timed out after 4 second" in stuck["msg"]


def test_a_host_to_lock_from_whose_login_hangs_is_said(tmp_path: Path, hung: str) -> None:
    with pytest.raises(HostError, match="could not be looked at") as caught:
        from_host.read("gpu01", [hung], cwd=tmp_path)
    assert "Timed out after 4 second" in caught.value.got


def test_a_limit_of_ones_own_is_the_one_that_counts(
    tmp_path: Path, hung: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_TASK_TIMEOUT", "3")
    answers, _ = hosts.ask(tmp_path, [hung], ["gpu01"], "echo here")
    stuck = answers["gpu01"]
    assert stuck is not None
    assert "Timed out after 3 second" in stuck["msg"]
