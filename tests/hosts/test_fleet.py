"""A fleet of six, taken in batches: nothing is begun after a batch that is not proven.

The hosts are bare, and the cheapest component stands for all: what is shown is who is touched
when, not what is installed.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from typing import Any

import pytest
import yaml
from conftest import Project, bare_hosts

pytestmark = [pytest.mark.slow]

FLEET = [f"fleet{number}" for number in range(1, 7)]
CANARY = "fleet3"
OTHERS = [name for name in FLEET if name != CANARY]

# What a run would leave on a host: files, packages, its own marks, a login.
TRACES = (
    "cat /var/lib/dpkg/status | sha256sum; find /etc /opt /usr/local /var/lib/provision"
    " -printf '%p %T@ %l\\n' 2>&1 | sort; cat /var/log/dpkg.log /var/log/apt/history.log 2>&1;"
    " journalctl --no-pager --quiet --unit=ssh | grep -c Accepted"
)


fleet = bare_hosts("fleet", *FLEET)


def traces(fleet: Project) -> dict[str, str]:
    """{host: everything a run would have left}, asked past SSH."""
    found = {}
    for host in fleet.lab.hosts:
        done = fleet.lab.podman.run("exec", host.container, "sh", "-c", TRACES)
        found[host.name] = done.stdout.decode("utf-8", "replace")
    return found


def order(fleet: Project) -> list[str]:
    """Hosts in the order in which they were looked at first."""
    hosts = [e["host"] for e in events(fleet) if e["event"] == "plan" and e["phase"] == "look"]
    return list(dict.fromkeys(hosts))


def events(fleet: Project) -> list[dict[str, Any]]:
    lines = (fleet.path / "report" / "latest" / "events.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def undo(fleet: Project, *names: str) -> None:
    """Leaves these hosts something to do."""
    for host in fleet.lab.hosts:
        if host.name in names:
            fleet.lab.podman.call("exec", host.container, "rm", "-f", "/etc/provision/gpu.env")


def apply(fleet: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return fleet.provision("apply", "-i", "lab", *arguments)


def test_a_canary_that_is_none_is_refused(fleet: Project) -> None:
    before = traces(fleet)
    done = apply(fleet, "--tags", "gpu_env", "-e", "gpu_canary=fleet9")
    assert done.returncode == 4, done.stdout + done.stderr
    assert 'gpu_canary is "fleet9": it must name one host of this run' in done.stdout + done.stderr
    assert traces(fleet) == before


def test_a_canary_that_fails_its_proof_leaves_the_other_five_untouched(fleet: Project) -> None:
    before = traces(fleet)
    # Of a bare host the environment alone is set up, and then all is to be proven.
    done = apply(fleet, "--tags", "gpu_env,verify", "-e", f"gpu_canary={CANARY}")
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 6, output
    after = traces(fleet)
    assert {name: after[name] for name in OTHERS} == {name: before[name] for name in OTHERS}
    assert after[CANARY] != before[CANARY]
    report = fleet.report
    assert list(report["hosts"]) == [CANARY]
    assert report["hosts"][CANARY]["failure"]["phase"] == "verify"
    assert report["not_begun"]["hosts"] == OTHERS
    message = f"Not begun, and untouched: {', '.join(OTHERS)}; a batch before them is not proven"
    assert f"{message} ({CANARY})" in output
    assert "there is no TensorFlow" in output


def test_a_proven_canary_is_followed_by_the_batches(fleet: Project) -> None:
    undo(fleet, CANARY)  # what the run before has done there
    done = apply(fleet, "--tags", "gpu_env", "-e", f"gpu_canary={CANARY}", "-e", "gpu_serial=50%")
    assert done.returncode == 0, done.stdout + done.stderr
    assert order(fleet)[0] == CANARY
    assert sorted(order(fleet)) == FLEET
    assert "not_begun" not in fleet.report
    # Each batch has come to its receipt before the next one is looked at.
    plays = [event["hosts"] for event in events(fleet) if event["event"] == "play"]
    assert plays[:3] == [1, 3, 2]
    at = {
        (event["event"], event["host"], event["phase"]): number
        for number, event in enumerate(events(fleet))
        if event["event"] in {"plan", "host_result"} and event.get("phase") in {"look", "receipt"}
    }
    batches = [order(fleet)[:1], order(fleet)[1:4], order(fleet)[4:]]
    for earlier, later in itertools.pairwise(batches):
        finished = max(at["host_result", name, "receipt"] for name in earlier)
        assert finished < min(at["plan", name, "look"] for name in later)


def test_a_host_that_cannot_be_reached_stops_the_next_batch_and_not_its_own(
    fleet: Project,
) -> None:
    """Ansible's own max_fail_percentage would count neither."""
    undo(fleet, *FLEET)
    folder = fleet.path / "lab" / "host_vars"
    folder.mkdir()
    (folder / "fleet1.yml").write_text(yaml.safe_dump({"ansible_port": 1}), "utf-8")
    before = traces(fleet)
    try:
        done = apply(fleet, "--tags", "gpu_env", "-e", "gpu_serial=2")
    finally:
        (folder / "fleet1.yml").unlink()
    assert done.returncode == 4, done.stdout + done.stderr
    report = fleet.report
    assert report["hosts"]["fleet1"]["status"] == "unreachable"
    assert report["hosts"]["fleet2"]["status"] in {"converged", "drift"}
    assert report["hosts"]["fleet2"]["components"]
    assert report["not_begun"]["hosts"] == FLEET[2:]
    after = traces(fleet)
    assert {n: after[n] for n in FLEET[2:]} == {n: before[n] for n in FLEET[2:]}
