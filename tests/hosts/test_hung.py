"""Fifty hosts of which three hang, each in its own way: the others end, and the three are named.

A host is an sshd on its own port of one container (bench/fleet.py). What hangs is real: an sshd
that is stopped before its first word, one that is stopped in the middle of a session, and a session
in which the look has root's rights and never answers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import BIN, Project, bare_hosts

from bench import cold, fleet

pytestmark = [pytest.mark.slow]

HOSTS = 50
SILENT, STOPS, HANGS = "bench007", "bench023", "bench041"
HUNG = {SILENT, STOPS, HANGS}
# In place of what ssh asks for: Ansible hears that it is root, and then nothing.
ANSWER = """\
#!/bin/sh
printf '%s' "$SSH_ORIGINAL_COMMAND" | grep -o 'BECOME-SUCCESS-[a-z]*' | head -n 1
"""
WAYS = {STOPS: "sleep 1\nkill -STOP $PPID\nexec sleep 3600\n", HANGS: "exec sleep 3600\n"}
# All fifty share this machine's processors: fifty logins and looks at once take their time.
LOGIN_SECONDS, LOOK_SECONDS = 120, 240
# Beside the longest of the three: the plays, and the looks of the others.
LONGEST = LOOK_SECONDS + 120

hung = bare_hosts("hung", "hung1")


@dataclass
class Many:
    project: Project
    inventory: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            cwd=self.project.path, capture_output=True, text=True, check=False, timeout=1800,
            env={**os.environ, "ANSIBLE_TIMEOUT": str(LOGIN_SECONDS)},
        )  # fmt: skip


def on_host(project: Project, command: str, stdin: str = "") -> None:
    podman, (host,) = project.lab.podman, project.lab.hosts
    podman.call("exec", "-i", host.container, "sh", "-c", command, stdin=stdin.encode())


def hang(project: Project, port: int, way: str) -> None:
    """The sshd of this port runs `way` in place of every command."""
    program = f"/run/hang-{port}"
    on_host(project, f"cat > {program}; chmod 755 {program}", ANSWER + way)
    again = f"/usr/sbin/sshd -p {port} -o PidFile=$pid -o ForceCommand={program}"
    stop = 'kill "$(cat $pid)"; while [ -e $pid ]; do sleep 0.1; done'
    on_host(project, f"pid=/run/bench-sshd-{port}.pid; {stop}; {again}")


@pytest.fixture
def many(hung: Project, tmp_path: Path) -> Iterator[Many]:
    """Fifty hosts as wished in what the run is asked for, three of which hang."""
    done = hung.provision("apply", "-i", "lab", "--tags", "gpu_env")
    assert done.returncode == 0, done.stdout + done.stderr
    with fleet.up(hung.lab.podman, cold.target(hung.lab), HOSTS, tmp_path / "fleet") as hosts:
        ports = dict(zip(hosts.names(), hosts.ports, strict=True))
        for name, way in WAYS.items():
            hang(hung, ports[name], way)
        silent = f'"$(cat /run/bench-sshd-{ports[SILENT]}.pid)"'
        on_host(hung, f"kill -STOP {silent}")
        inventory = tmp_path / "inventory"
        hosts.inventory(inventory / "hosts.yml", "gpu_hosts")
        shutil.copytree(hung.path / "lab" / "group_vars", inventory / "group_vars")
        try:
            yield Many(hung, inventory)
        finally:
            on_host(hung, f"kill -CONT {silent}; pkill -CONT sshd; pkill -x sleep; true")


def test_three_of_fifty_hang_and_the_others_end(many: Many) -> None:
    begun = time.monotonic()
    done = many.run(
        "provision", "apply", "-i", str(many.inventory), "--tags", "gpu_env",
        "-e", f"gpu_look_timeout={LOOK_SECONDS}",
    )  # fmt: skip
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 4, said
    assert time.monotonic() - begun < LONGEST
    hosts = many.project.report["hosts"]
    assert len(hosts) == HOSTS
    # Only what the tags left out differs on the others.
    others = {name: entry for name, entry in hosts.items() if name not in HUNG}
    assert {name: entry["failure"] for name, entry in others.items() if entry["failure"]} == {}
    assert {entry["status"] for entry in others.values()} == {"drift"}
    assert "47 drift" in said
    statuses = {name: entry["status"] for name, entry in hosts.items() if name in HUNG}
    assert statuses == {SILENT: "unreachable", STOPS: "unreachable", HANGS: "failed"}
    # Each of the three with what to do, in the report and at the terminal.
    assert "the ssh server there says nothing" in said
    assert "the host stopped answering in the middle" in said
    assert f"not done after {LOOK_SECONDS} s" in hosts[HANGS]["failure"]["message"]
    assert "dmesg" in said
    done = many.run("provision", "report")
    page = (many.project.path / "report" / "report.html").read_text("utf-8")
    for words in ("says nothing", "stopped answering in the middle", "not done after"):
        assert words in page
