"""Fifty hosts of which some hang, each in its own way: the others end, and those are named.

A host is an sshd on its own port of one container (bench/fleet.py). What hangs is real: an sshd
that is stopped before its first word, one that is stopped in the middle of a session, a session in
which the look has root's rights and never answers, and one that hangs in the midst of the work.
"""

from __future__ import annotations

import contextlib
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
# As ever until the run has left its mark on the host; then its task hangs, as on a dead disk. It is
# root's and has the run's own name, as a real one.
SLOW = "bench011"
SLEEP = "sleep 3601"
IN_THE_WORK = f"""\
#!/bin/sh
[ -e /var/lib/provision/unfinished.json ] || exec sh -c "$SSH_ORIGINAL_COMMAND"
printf '%s' "$SSH_ORIGINAL_COMMAND" | grep -o 'BECOME-SUCCESS-[a-z]*' | head -n 1
exec sudo -n sh -c '
    PROVISION_RUN=$(sed -n "s/.*\\"run\\": \\"\\([^\\"]*\\)\\".*/\\1/p" /var/lib/provision/run.lock)
    export PROVISION_RUN
    exec {SLEEP}
'
"""
HEALED = '#!/bin/sh\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n'
# All fifty share this machine's processors: fifty logins and looks at once take their time.
LOGIN_SECONDS, LOOK_SECONDS = 120, 240
# Beside the longest of the three: the plays, and the looks of the others.
LONGEST = LOOK_SECONDS + 120
STEP_SECONDS = 60

hung = bare_hosts("hung", "hung1")


@dataclass
class Many:
    project: Project
    inventory: Path
    masters: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            cwd=self.project.path, capture_output=True, text=True, check=False, timeout=1800,
            env={
                **os.environ, "ANSIBLE_TIMEOUT": str(LOGIN_SECONDS),
                "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.masters),
            },
        )  # fmt: skip


def on_host(project: Project, command: str, stdin: str = "") -> None:
    podman, (host,) = project.lab.podman, project.lab.hosts
    podman.call("exec", "-i", host.container, "sh", "-c", command, stdin=stdin.encode())


def hang(project: Project, port: int, program_text: str) -> None:
    """The sshd of this port runs this program in place of every command."""
    program = f"/run/hang-{port}"
    on_host(project, f"cat > {program}; chmod 755 {program}", program_text)
    again = f"/usr/sbin/sshd -p {port} -o PidFile=$pid -o ForceCommand={program}"
    stop = 'kill "$(cat $pid)"; while [ -e $pid ]; do sleep 0.1; done'
    on_host(project, f"pid=/run/bench-sshd-{port}.pid; {stop}; {again}")


@contextlib.contextmanager
def fifty(project: Project, folder: Path) -> Iterator[tuple[Many, dict[str, int]]]:
    """Fifty hosts as wished in what the run is asked for, and their ports."""
    done = project.provision("apply", "-i", "lab", "--tags", "gpu_env")
    assert done.returncode == 0, done.stdout + done.stderr
    with fleet.up(project.lab.podman, cold.target(project.lab), HOSTS, folder / "fleet") as hosts:
        inventory = folder / "inventory"
        hosts.inventory(inventory / "hosts.yml", "gpu_hosts")
        shutil.copytree(project.path / "lab" / "group_vars", inventory / "group_vars")
        # Of this fleet alone: a later one at the same ports would be led to what hung here.
        masters = folder / "m"
        masters.mkdir()
        try:
            many = Many(project, inventory, masters)
            yield many, dict(zip(hosts.names(), hosts.ports, strict=True))
        finally:
            fleet.close_masters(masters)


@pytest.fixture
def many(hung: Project, tmp_path: Path) -> Iterator[Many]:
    """Fifty hosts of which three hang."""
    with fifty(hung, tmp_path) as (many, ports):
        for name, way in WAYS.items():
            hang(hung, ports[name], ANSWER + way)
        silent = f'"$(cat /run/bench-sshd-{ports[SILENT]}.pid)"'
        on_host(hung, f"kill -STOP {silent}")
        try:
            yield many
        finally:
            on_host(hung, f"kill -CONT {silent}; pkill -CONT sshd; pkill -x sleep; true")


def test_three_of_fifty_hang_and_the_others_end(many: Many) -> None:
    begun = time.monotonic()
    done = many.run(
        "provision", "apply", "-i", str(many.inventory), "--tags", "gpu_env",
        "-e", f"gpu_look_timeout={LOOK_SECONDS}",
    )  # fmt: skip
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 4, output
    assert time.monotonic() - begun < LONGEST
    hosts = many.project.report["hosts"]
    assert len(hosts) == HOSTS
    # Only what the tags left out differs on the others.
    others = {name: entry for name, entry in hosts.items() if name not in HUNG}
    assert {name: entry["failure"] for name, entry in others.items() if entry["failure"]} == {}
    assert {entry["status"] for entry in others.values()} == {"drift"}
    assert "47 drift" in output
    statuses = {name: entry["status"] for name, entry in hosts.items() if name in HUNG}
    assert statuses == {SILENT: "unreachable", STOPS: "unreachable", HANGS: "failed"}
    # Each of the three with what to do, in the report and at the terminal.
    assert "the ssh server there says nothing" in output
    assert "the host stopped answering in the middle" in output
    assert f"not done after {LOOK_SECONDS} s" in hosts[HANGS]["failure"]["message"]
    assert "dmesg" in output
    done = many.run("provision", "report")
    page = (many.project.path / "report" / "report.html").read_text("utf-8")
    for words in ("says nothing", "stopped answering in the middle", "not done after"):
        assert words in page


def test_a_step_that_hangs_on_one_of_fifty_ends_by_its_time(hung: Project, tmp_path: Path) -> None:
    with fifty(hung, tmp_path) as (many, ports):
        # The one that has something to do; the others have ended when it begins.
        variables = many.inventory / "host_vars" / f"{SLOW}.yml"
        variables.parent.mkdir()
        variables.write_text("gpu_env_variables: {TF_CPP_MIN_LOG_LEVEL: '1'}\n", "utf-8")
        hang(hung, ports[SLOW], IN_THE_WORK)
        command = (
            "provision", "apply", "-i", str(many.inventory), "--tags", "gpu_env",
            "-e", f"gpu_step_timeout={STEP_SECONDS}", "-e", f"gpu_look_timeout={LOOK_SECONDS}",
        )  # fmt: skip
        done = many.run(*command)
        output = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == 4, output
        hosts = hung.report["hosts"]
        others = {name: entry for name, entry in hosts.items() if name != SLOW}
        assert {name: entry["failure"] for name, entry in others.items() if entry["failure"]} == {}
        assert {entry["status"] for entry in others.values()} == {"drift"}
        assert len(others) == HOSTS - 1
        failure = hosts[SLOW]["failure"]
        assert hosts[SLOW]["status"] == "failed"
        assert failure["task"].startswith("gpu_env : ")
        assert f"not done after {STEP_SECONDS} s" in failure["message"]
        assert SLOW in output
        # What it had begun there was ended with the run, and nothing holds the host any more.
        on_host(hung, f"! pgrep -f '^{SLEEP}'")
        on_host(hung, "test ! -s /var/lib/provision/run.lock")
        # The same command repairs it, where nothing hangs any more.
        on_host(hung, f"cat > /run/hang-{ports[SLOW]}", HEALED)
        done = many.run(*command, "--limit", SLOW)
        assert done.returncode == 0, done.stdout + done.stderr
        on_host(hung, "grep -q TF_CPP_MIN_LOG_LEVEL /etc/provision/gpu.env")
        on_host(hung, "test ! -e /var/lib/provision/unfinished.json")
