"""A host that hangs is named with what to do, also by an ansible-playbook without `provision`."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
import yaml
from ansible_collections.provision.gpu.plugins.plugin_utils.results import message_of
from ansible_collections.provision.gpu.plugins.plugin_utils.table import table

from provision.render import ansible_cfg
from provision.roles.site import ROLE
from tests.collection import ROOT

UNREACHABLE = (
    'Task failed: Data could not be sent to remote host "10.0.0.9". Make sure this host can be '
    "reached over ssh: Connection timed out during banner exchange"
)


# ansible-core 2.19 and 2.17: their words differ, `timedout` does not.
@pytest.mark.parametrize(
    "words",
    [
        "Task failed: Timed out after 600 second(s).",
        "The gpu_state action failed to execute in the expected time frame (600)",
    ],
)
def test_a_task_without_an_answer_says_where_to_look(words: str) -> None:
    result = {"failed": True, "msg": words, "timedout": {"frame": "x", "period": 600}}
    message = message_of(result)
    assert message.startswith("not done after 600 s, so the run went on without this host")
    assert "dmesg" in message
    assert message_of({"results": [result | {"item": "a"}], "msg": "One or more items failed"}) == (
        message
    )


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
    option = next(one for one in ROLE.options if one.name == "gpu_look_timeout")
    assert (option.fault(seconds) is None) is good


@pytest.mark.parametrize("tasks", ["main.yml", "again.yml"])
@pytest.mark.parametrize(
    ("said", "deep", "seconds"),
    [(600, False, 600), ("120", True, 720), ("10m", False, 10), (0, False, 10), ("", True, 60)],
)
def test_nothing_said_with_e_takes_the_limit_away(
    tasks: str, said: object, deep: bool, seconds: int
) -> None:
    """Ansible takes 0 for none at all, and no option's check reads -e."""
    text = (ROOT / "roles" / "gpu_state" / "tasks" / tasks).read_text("utf-8")
    environment = jinja2.Environment(autoescape=True)
    environment.filters["bool"] = bool
    expression = environment.from_string(yaml.safe_load(text)[0]["timeout"])
    assert int(expression.render(gpu_look_timeout=said, gpu_deep=deep)) == seconds
