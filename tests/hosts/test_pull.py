"""A host that runs its tree itself: the units of the tree, a git server by ssh, signed commits.

Users of the host itself stand for the git server and for the machine that collects the reports:
the ways there are ssh with pinned keys all the same.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Project

from provision import locallab

pytestmark = [pytest.mark.slow]

HOST = "gpu07"
UNITS = "collections/ansible_collections/provision/gpu/playbooks/files/pull"
# What docs/pull.md says to do once at each host; and the two servers' users.
INSTALL = """\
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends ansible-core git >/dev/null
useradd -m -s /bin/bash git
useradd -m -s /bin/bash reports
cd /root/pull
install -m 755 provision-pull /usr/local/sbin/
install -m 755 take-report /usr/local/bin/
install -m 644 provision-pull.service provision-pull.timer /etc/systemd/system/
install -m 700 -d /etc/provision-pull
install -m 600 key allowed_signers settings /etc/provision-pull/
cd /etc/provision-pull
{ printf 'localhost '; cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub; } > known_hosts
cd /root/pull
for user in git reports; do
    home=$(getent passwd $user | cut -d: -f6)
    install -o $user -g $user -m 700 -d "$home/.ssh"
    install -o $user -g $user -m 600 keys.$user "$home/.ssh/authorized_keys"
done
systemctl daemon-reload
systemctl enable --now provision-pull.timer
"""
SETTINGS = f"""\
PULL_URL=ssh://git@localhost/srv/lab.git
PULL_HOST={HOST}
PULL_ARGUMENTS=--tags gpu_env
PULL_REPORT_TO=reports@localhost
"""


@dataclass
class Pulling(Project):
    """A project, its repository at `source` and its host."""

    source: Path

    def root(self, command: str, *, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """A command of root on the host, past SSH."""
        podman, (host,) = self.lab.podman, self.lab.hosts
        argv = podman.argv("exec", host.container, "sh", "-c", command)
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout)

    def commit(self, text: str, signer: str | None) -> str:
        """A commit of everything in the repository, pushed; its id."""
        (self.source / "note").write_text(text, "utf-8")
        self.git("add", "--all")
        key = ("-c", f"user.signingkey={self.source.parent / f'{signer}.pub'}") if signer else ()
        sign = ("-S",) if signer else ("--no-gpg-sign",)
        self.git(*key, "commit", "--quiet", "--message", text, *sign)
        self.push()
        return self.git("rev-parse", "HEAD")

    def push(self) -> None:
        """Puts the repository as it is onto the host, whatever was there."""
        bare = self.source.parent / "lab.git"
        shutil.rmtree(bare, ignore_errors=True)
        self.git("clone", "--quiet", "--bare", str(self.source), str(bare))
        podman, (host,) = self.lab.podman, self.lab.hosts
        assert self.root("rm -rf /srv/lab.git").returncode == 0
        podman.call("cp", str(bare), f"{host.container}:/srv/lab.git")
        assert self.root("chown -R git: /srv/lab.git").returncode == 0

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@lab", "-c", "gpg.format=ssh")
        argv = ["git", "-C", str(self.source), *who, *arguments]
        return subprocess.run(
            argv, capture_output=True, text=True, check=True, timeout=120
        ).stdout.strip()

    def pull(self) -> tuple[str, str]:
        """Starts the unit and waits for its end: (its result, what the journal has of it)."""
        # A run has systemd execute itself again, which ends a systemctl that waits, and for a
        # moment no other gets an answer.
        begun = self.root("date +%s; systemctl start provision-pull").stdout.strip()
        deadline = time.monotonic() + 900
        ended = {"inactive", "failed"}
        while self.root("systemctl is-active provision-pull").stdout.strip() not in ended:
            assert time.monotonic() < deadline
            time.sleep(2)
        result = self.root("systemctl show --value --property ExecMainStatus provision-pull")
        log = self.root(f"journalctl --no-pager -o cat -u provision-pull --since @{begun}")
        return result.stdout.strip(), log.stdout


@pytest.fixture(scope="module")
def pulling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pulling]:
    directory = tmp_path_factory.mktemp("pull") / "project"
    locallab.sweep()
    directory.mkdir()
    lab = locallab.up(
        "test-pull", locallab.Shape(platform="debian13"), state_dir=directory / ".lab", hosts=[HOST]
    )
    try:
        project = Pulling(directory, lab, directory.parent / "source")
        wish = {"gpu_stack": {"python": "3.13"}, "gpu_platform": "debian13"}
        inventory(directory, lab.inventory("gpu_hosts"), wish)
        for command in (["lock"], ["render"]):
            done = project.provision(*command)
            assert done.returncode == 0, done.stdout + done.stderr
        skip = shutil.ignore_patterns(".lab", "report")
        shutil.copytree(directory, project.source, ignore=skip)
        # No address: each host is at home.
        inventory(project.source, {"gpu_hosts": {"hosts": {HOST: {}}}}, wish)
        (project.source / ".gitignore").write_text("/report/\n", "utf-8")
        install(project)
        yield project
    finally:
        lab.down()


def inventory(directory: Path, hosts: dict[str, Any], wish: dict[str, Any]) -> None:
    for name, data in (("hosts.yml", hosts), ("group_vars/gpu_hosts.yml", wish)):
        path = directory / "lab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(data), "utf-8")


def install(project: Pulling) -> None:
    folder = project.source.parent
    for name in ("ada", "mallory", "deploy"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name]
        subprocess.run(command, cwd=folder, check=True)
    pull = folder / "pull"
    shutil.copytree(project.path / UNITS, pull)
    shutil.copy(folder / "deploy", pull / "key")
    deploy = (folder / "deploy.pub").read_text("ascii")
    (pull / "keys.git").write_text(deploy, "ascii")
    forced = f'restrict,command="/usr/local/bin/take-report {HOST}" '
    (pull / "keys.reports").write_text(forced + deploy, "ascii")
    (pull / "allowed_signers").write_text(
        "ada@lab " + (folder / "ada.pub").read_text("ascii"), "ascii"
    )
    (pull / "settings").write_text(SETTINGS, "ascii")
    podman, (host,) = project.lab.podman, project.lab.hosts
    podman.call("cp", str(pull), f"{host.container}:/root/pull")
    done = project.root(INSTALL)
    assert done.returncode == 0, done.stdout + done.stderr
    project.git("init", "--quiet", "--initial-branch", "main")


def test_a_pull_comes_to_the_outcome_of_a_push(pulling: Pulling) -> None:
    planned = pulling.playbook("--tags", "gpu_env", "--check")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    wanted = pulling.entry(HOST)
    pulling.commit("first", "ada")
    code, log = pulling.pull()
    assert code == "0", log
    # As it was sent to the collector, under the name of the key and not of the host.
    sent = json.loads(pulling.root(f"cat ~reports/reports/{HOST}.json").stdout)
    entry = sent["hosts"][HOST]
    for key in ("changes", "wanted", "stack", "platform", "status"):
        assert entry[key] == wanted[key], key
    assert entry["components"]["gpu_env"]["changed"]
    # And a push finds nothing of it left to do.
    assert pulling.playbook("--tags", "gpu_env", "--check").returncode == 0
    left = [change for change in pulling.entry(HOST)["changes"] if change["selected"]]
    assert left == []
    assert "provision-pull.service" in pulling.root("systemctl list-timers --no-pager").stdout


@pytest.mark.parametrize("signer", [None, "mallory"])
def test_a_commit_that_nobody_of_the_lab_signed_is_not_run(
    pulling: Pulling, signer: str | None
) -> None:
    head = pulling.git("rev-parse", "HEAD")
    commit = pulling.commit("evil", signer)
    try:
        refused(pulling, f"commit {commit}", "is not signed by anybody in")
    finally:
        pulling.git("reset", "--quiet", "--hard", head)
        pulling.push()


def test_a_repository_that_was_set_back_is_not_run(pulling: Pulling) -> None:
    """An old commit is signed too: of the driver with the hole that the new one mends."""
    old = pulling.git("rev-parse", "HEAD")
    new = pulling.commit("second", "ada")
    pulling.root(
        "sed -i 's/^PULL_ARGUMENTS=.*/PULL_ARGUMENTS=--check/' /etc/provision-pull/settings"
    )
    code, log = pulling.pull()
    assert code == "0", log
    pulling.git("reset", "--quiet", "--hard", old)
    pulling.push()
    try:
        refused(pulling, f"commit {old} does not follow the last one")
    finally:
        pulling.git("reset", "--quiet", "--hard", new)
        pulling.push()


def refused(pulling: Pulling, *words: str) -> None:
    before = pulling.root("git -C /var/lib/provision-pull/tree rev-parse HEAD").stdout
    code, log = pulling.pull()
    assert code == "2", log
    for part in words:
        assert part in log
    assert "Starting Ansible Pull" not in log
    assert pulling.root("git -C /var/lib/provision-pull/tree rev-parse HEAD").stdout == before
