"""What the role asks right before it changes the driver or reboots, by Ansible itself.

The host is this machine, looked at and not touched; who is logged in, and what the clock shows, is
said by the test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.run import find_program
from tests.collection import module, programs
from tests.module_play import drivers_tasks

NEWEST = find_program()
SATURDAY_AT_ONE = [5, 60]
QUIET: dict[str, Any] = {"users": [], "clock": SATURDAY_AT_ONE}
SITS = {"user": "ada", "at": "pts/0", "from": None, "idle": None}
ADA = {**QUIET, "users": [SITS]}
REBOOT = "reboot"
CHANGE = "change the driver"
LOADED = Path("/sys/module/nvidia/version").exists()

PEOPLE = "gpu_stack/host/people.py"
# At its end, in place of who is logged in at this machine and of its clock.
SAID = """

def users(context, pid=None, now=None):
    import json, os
    count = len([name for name in os.listdir({folder!r}) if name.startswith("looked")])
    open(os.path.join({folder!r}, "looked%d" % count), "w").close()
    return said(count)["users"]


def said(count):
    import json, os
    answers = [name for name in os.listdir({folder!r}) if name.startswith("answer")]
    with open(os.path.join({folder!r}, "answer%d" % min(count, len(answers) - 1))) as stream:
        return json.load(stream)


def clock(now):
    import os
    count = len([name for name in os.listdir({folder!r}) if name.startswith("looked")])
    day, minute = said(count)["clock"]
    return [day, minute + round((now - time.time()) / 60)]
"""


def ask(
    folder: Path,
    program: str,
    before: str,
    answers: list[dict[str, Any]],
    *more: str,
    **options: Any,
) -> tuple[bool, str]:
    """(does it go on, what it says), with one answer per look; the last one stays."""
    (folder / "said").mkdir()
    for number, answer in enumerate(answers):
        (folder / f"said/answer{number}").write_text(json.dumps(answer), "utf-8")
    shown = (
        "GOES ON at {{ __nvidia_driver_people.clock }}, "
        "waits until {{ __nvidia_driver_people.until }}"
    )
    done = drivers_tasks(
        folder, program, "people/look.yml",
        {PEOPLE: SAID.format(folder=str(folder / "said"))},
        {"__nvidia_driver_before": before, **options},
        *more,
        then=[{"ansible.builtin.debug": {"msg": shown}}],
    )  # fmt: skip
    return "GOES ON" in done.stdout, done.stdout + done.stderr


def looks(folder: Path) -> int:
    """How often the host was looked at."""
    return len(list((folder / "said").glob("looked*")))


@pytest.mark.parametrize("program", programs("ansible-playbook"))
def test_nobody_is_there_and_the_window_is_handed_over(tmp_path: Path, program: str) -> None:
    window = ["Sat 00:00-04:00", "Sun 00:00-04:00"]
    goes_on, output = ask(tmp_path, program, REBOOT, [QUIET], gpu_maintenance_window=window)
    assert goes_on, output
    assert "GOES ON at Sat 01:00, waits until Sat 01:30" in output
    assert looks(tmp_path) == 1


def test_outside_the_window_nothing_is_begun(tmp_path: Path) -> None:
    window = {"gpu_maintenance_window": "Sat 22:00-04:00"}
    goes_on, output = ask(tmp_path, NEWEST, CHANGE, [QUIET], **window)
    assert not goes_on
    expected = (
        "Not going to change the driver outside the maintenance window (Sat 22:00-04:00); "
        "it is Sat 01:00 on this host. Run again in the window."
    )
    assert expected in output


def test_check_mode_looks_too(tmp_path: Path) -> None:
    window = {"gpu_maintenance_window": "Sat 22:00-04:00"}
    goes_on, output = ask(tmp_path, NEWEST, CHANGE, [QUIET], "--check", **window)
    assert not goes_on
    assert "outside the maintenance window" in output


def test_a_window_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    goes_on, output = ask(tmp_path, NEWEST, REBOOT, [QUIET], gpu_maintenance_window="x")
    assert not goes_on
    assert "gpu_maintenance_window: 'x' is no maintenance window" in output


@pytest.mark.parametrize("program", programs("ansible-playbook"))
def test_people_are_in_the_way_of_a_reboot(tmp_path: Path, program: str) -> None:
    goes_on, output = ask(tmp_path, program, REBOOT, [ADA])
    assert not goes_on
    assert "Not going to reboot while people are logged in: ada on pts/0." in " ".join(
        output.split()
    )


@pytest.mark.skipif(LOADED, reason="this machine has a driver loaded")
def test_people_are_in_nobodys_way_at_a_first_installation(tmp_path: Path) -> None:
    goes_on, output = ask(tmp_path, NEWEST, CHANGE, [ADA])
    assert goes_on, output


def test_people_may_be_left_to_themselves(tmp_path: Path) -> None:
    mode = {"nvidia_driver_logged_in_users": "ignore"}
    goes_on, output = ask(tmp_path, NEWEST, REBOOT, [ADA], **mode)
    assert goes_on, output


WAIT = {"nvidia_driver_logged_in_users": "wait", "nvidia_driver_wait_for_users": 10}


@pytest.mark.parametrize("program", programs("ansible-playbook"))
def test_people_are_waited_for(tmp_path: Path, program: str) -> None:
    goes_on, output = ask(tmp_path, program, REBOOT, [ADA, ADA, QUIET], **WAIT)
    assert goes_on, output
    assert looks(tmp_path) == 3


def test_people_are_not_waited_for_without_end(tmp_path: Path) -> None:
    goes_on, output = ask(tmp_path, NEWEST, REBOOT, [ADA], **WAIT)
    assert not goes_on
    expected = "while people are logged in (waited 10 s): ada on pts/0."
    assert expected in " ".join(output.split())


def test_a_window_that_closes_meanwhile_is_seen(tmp_path: Path) -> None:
    closed = {**QUIET, "clock": [5, 120]}
    window = {"gpu_maintenance_window": "Sat 00:00-02:00"}
    goes_on, output = ask(tmp_path, NEWEST, REBOOT, [ADA, ADA, closed], **WAIT, **window)
    assert not goes_on
    assert "has closed while people were waited for" in " ".join(output.split())


@pytest.mark.parametrize("program", programs("ansible"))
def test_the_module_looks_at_this_machine(program: str) -> None:
    given = {"before": CHANGE, "window": "00:00-24:00", "logged_in_users": "ignore"}
    answer, _said = module(program, "gpu_users", given)
    assert isinstance(answer["users"], list)
    assert (answer["changed"], answer["open"]) == (False, True)
    assert set(answer) == {"changed", "users", "disturbed", "open", "clock", "until"}
    given["window"] = "x"
    refused, _said = module(program, "gpu_users", given)
    assert refused["msg"].startswith("gpu_maintenance_window: 'x' is no maintenance window")
