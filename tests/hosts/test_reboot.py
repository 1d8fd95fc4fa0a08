"""A host that is rebooted in the middle of a run, with somebody logged in, ends proven in that run.

The host's kernel is simulated (own_kernel.py); its reboot is not: systemd goes down, every process
ends, and the host comes up again.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import own_kernel
import pytest
from conftest import Project

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("logged-in", "maintenance-window")

HOST = "reboot1"
SETTINGS = {
    "nvidia_driver_reboot": True,
    "nvidia_driver_announce": "Please log out now.",
    "cuda_profile": "runtime",
}


machine, project = own_kernel.fixtures("reboot", HOST, "10.88.77.7", SETTINGS)


class Person:
    """Somebody at a terminal of the host, who reads what is sent to everybody."""

    def __init__(self, project: Project) -> None:
        host = project.lab.hosts[0]
        self.read = ""
        self.process = subprocess.Popen(
            ["ssh", "-tt", *project.lab.ssh_arguments(), "-o", "ControlPath=none", "-i",
             str(host.key_file), f"{host.user}@{host.address}", "echo here; sleep 3000"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()
        own_kernel.wait_for("a login", 60, lambda: "here" in self.read)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while data := self.process.stdout.read1(4096):  # type: ignore[attr-defined]
            self.read += data.decode("utf-8", "replace")

    def leave(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)


@pytest.fixture
def person(project: Project) -> Iterator[Person]:
    found = Person(project)
    yield found
    found.leave()


def events(project: Project) -> list[dict[str, Any]]:
    text = (project.path / "report" / "latest" / "events.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def blockers(project: Project) -> dict[str, str]:
    return {blocker["id"]: blocker["message"] for blocker in project.entry(HOST)["blockers"]}


def test_a_login_and_a_closed_window_stop_it_before_anything_is_touched(
    project: Project, machine: own_kernel.Machine, person: Person
) -> None:
    day = machine.run("date -d tomorrow +%a").strip()
    window = f"{day} 08:00-09:00"
    done = project.provision(
        "apply", "-i", "lab", "-e", json.dumps({"gpu_maintenance_window": window})
    )
    assert done.returncode == 4, done.stdout + done.stderr
    found = blockers(project)
    assert sorted(found) == ["logged-in", "maintenance-window"]
    assert "the host would be rebooted under them: lab on pts/" in found["logged-in"]
    assert f"outside the maintenance window ({window}); it is" in found["maintenance-window"]
    assert machine.run("ls /var/lib/provision 2>&1 || true").count("No such file") == 1
    assert person.process.poll() is None
    assert machine.boots == 1


def test_a_run_that_reboots_its_host_ends_proven(
    project: Project, machine: own_kernel.Machine, person: Person
) -> None:
    """It waits for the person, who leaves when told to; then everything else in the same run."""

    def leave() -> None:
        own_kernel.wait_for("an announcement", 540, lambda: "Please log out now." in person.read)
        person.leave()

    reader = threading.Thread(target=leave, daemon=True)
    reader.start()
    waiting = {"nvidia_driver_logged_in_users": "wait", "nvidia_driver_wait_for_users": 120}
    done = project.provision("apply", "-i", "lab", "-e", json.dumps(waiting))
    reader.join(timeout=5)
    (Path(project.path) / "said").write_text(done.stdout + done.stderr, "utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert machine.boots == 2
    assert "(Going to reboot when nobody is logged in; waiting until" in person.read
    host = project.entry(HOST)
    assert host["status"] == "proven", host
    assert [change for change in host["changes"] if change["reboot"]], "no reboot was owed"
    assert host["left"] == []
    results = [e for e in events(project) if e["event"] == "host_result"]
    ended = [e["task"] for e in results if e["status"] != "skipped"]
    at = ended.index("nvidia_driver : kernel | reboot | Reboot the host")
    # The run holds the host again before it goes on, and all that follows came after the reboot.
    held = [n for n, task in enumerate(ended) if task.endswith("Hold the host again")]
    assert held
    assert at < held[0] < next(n for n, task in enumerate(ended) if task.startswith("cuda : "))
    assert machine.run("cat /sys/module/nvidia/version; ls /sys/module").split() == [
        "470.256.02",
        "nvidia",
    ]


def test_the_next_plan_is_empty(project: Project) -> None:
    done = project.provision("plan", "-i", "lab")
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.entry(HOST)["changes"] == []
