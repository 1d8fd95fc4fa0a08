"""Local hosts for tests: real Debian 11 over real SSH, never the demo's.

`make test` sets PROVISION_REQUIRE_HOSTS: there a machine that can't make hosts is an error;
elsewhere it is a skip that says what is missing.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from xdist.scheduler import LoadFileScheduling

from provision import locallab
from provision.errors import MachineError
from provision.locallab.machine import cache_directory
from provision.locallab.vm import needs
from tests import collection
from tests.collection import one_role
from tests.ground import Site, serve

HERE = Path(__file__).parent
ROOT = HERE.resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import demo  # noqa: E402 - the script that `make demo` runs

BIN = Path(sys.executable).parent
OLDEST = collection.OLDEST / "ansible-playbook"
NEWEST = BIN / "ansible-playbook"


# These begin first, the longest before the others: everybody waits for what begins last.
LONGEST = (
    "test_spine.py", "test_molecule.py", "test_faults.py", "test_roles_alone.py",
    "test_virtual.py", "test_refusals.py", "test_lab.py",
)  # fmt: skip
# They share the hosts of `spine`, which one worker then brings from bare to proven, once.
ON_SPINE = {
    "test_spine.py", "test_evidence.py", "test_checks_red.py", "test_examples.py",
    "test_train.py",
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs hosts, whether its author said so or not."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        item.add_marker(pytest.mark.hosts)
        if "spine" in getattr(item, "fixturenames", ()):
            assert item.path.name in ON_SPINE, f"{item.path.name} is missing in ON_SPINE"
    first = {name: place for place, name in enumerate(LONGEST)}
    ours.sort(key=lambda item: first.get(item.path.name, len(first)))
    mine = set(ours)
    items[:] = [item for item in items if item not in mine] + ours


class ByHosts(LoadFileScheduling):
    """A file is of one worker, and so are the files that share hosts.

    Not by xdist's own groups, `--dist loadgroup`: it writes them into the names of tests, which
    pytest 9.2 no longer lets it.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "spine" if Path(file).name in ON_SPINE else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByHosts | None:
    return ByHosts(config, log) if config.getvalue("dist") == "loadfile" else None


def _promised(what: str, error: MachineError) -> None:
    """Fails where hosts were promised, else skips, with the reason."""
    if os.environ.get("PROVISION_REQUIRE_HOSTS"):
        pytest.fail(f"{what} were promised, but: {error}")
    pytest.skip(f"no {what} on this machine: {error}")


@pytest.fixture(scope="session", autouse=True)
def hosts_possible() -> None:
    try:
        from provision.locallab.machine import measure, require

        require(measure())
    except MachineError as error:
        _promised("local hosts", error)


@pytest.fixture(scope="session")
def machines_possible() -> None:
    """For tests that need a virtual machine of three GiB at most, with or without Secure Boot."""
    try:
        needs.require(
            hosts=1, memory_mib=3072, secure_boot=True, cache=cache_directory(), enrol=True
        )
    except MachineError as error:
        _promised("virtual machines", error)


def over_ssh(
    lab: locallab.Lab,
    command: str,
    *,
    host: str | None = None,
    stdin: str | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """A command of the ordinary user on a host of the lab, by default its only one."""
    (target,) = [entry for entry in lab.hosts if host in (None, entry.name)]
    # Never this process's own input: a killed ssh leaves it non-blocking, and Ansible refuses that.
    return subprocess.run(
        [
            "ssh", *lab.ssh_arguments(), "-i", str(target.key_file), "-p", str(target.port),
            f"{target.user}@{target.address}", command,
        ],
        input=stdin or "", capture_output=True, text=True, check=False, timeout=timeout,
    )  # fmt: skip


def as_root(
    lab: locallab.Lab, command: str, stdin: str | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """A shell's command on the lab's only host, as root."""
    words = "sudo sh -c " + shlex.quote(command)
    return over_ssh(lab, words, stdin=stdin, timeout=timeout)


@dataclass
class Project:
    """A rendered project and the lab it is for."""

    path: Path
    lab: locallab.Lab

    def ssh(self, host: str, command: str, *, check: bool = True, timeout: float = 300) -> str:
        """What a command prints on a host, over SSH, as the ordinary user."""
        done = over_ssh(self.lab, command, host=host, timeout=timeout)
        if check:
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + ("" if check else done.stderr)

    def playbook(
        self, *arguments: str, program: Path = NEWEST, book: str = "site.yml",
        inventory: str = "lab",
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """The plain `ansible-playbook` of a person who has no `provision`."""
        return subprocess.run(
            [str(program), book, "-i", inventory, *arguments],
            cwd=self.path, capture_output=True, text=True, check=False, timeout=1800,
        )  # fmt: skip

    def role_alone(self, role: str, **variables: Any) -> str:
        """What a play of someone else's with this role says; it must succeed.

        The options are variables of the play; the inventory knows how the hosts are reached.
        """
        inventory = self.path / "reached.yml"
        inventory.write_text(yaml.safe_dump(self.lab.inventory("gpu")), "utf-8")
        (self.path / "alone.yml").write_text(one_role(role, "gpu", **variables), "utf-8")
        done = self.playbook(book="alone.yml", inventory=inventory.name)
        assert done.returncode == 0, done.stdout[-9000:] + done.stderr
        return done.stdout

    def provision(self, *arguments: str, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / "provision"), *arguments],
            cwd=self.path, capture_output=True, text=True, check=False, timeout=timeout,
        )  # fmt: skip

    @property
    def report(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(
            (self.path / "report/latest/report.json").read_text("utf-8")
        )
        return loaded

    def entry(self, host: str) -> Any:
        """What the report of the last run says of the host."""
        return self.report["hosts"][host]

    def tasks_run(self) -> dict[str, list[str]]:
        """{host: tasks that did something on it} of the last run, from its events."""
        seen: dict[str, list[str]] = {host.name: [] for host in self.lab.hosts}
        for line in (self.path / "report/latest/events.jsonl").read_text("utf-8").splitlines():
            event = json.loads(line)
            # The lock is read on the controller, once for all hosts, in the name of one of them.
            if event.get("task") == "Look | Load the lock":
                continue
            if event["event"] == "host_result" and event.get("status") not in {"skipped", None}:
                seen[event["host"]].append(event["task"])
        return seen


def make_project(directory: Path, name: str, hosts: list[str]) -> Iterator[Project]:
    lab = demo.prepare(directory, name, hosts, keep=False)
    try:
        yield Project(directory, lab)
    finally:
        lab.down()
        shutil.rmtree(directory, ignore_errors=True)


def bare_hosts(name: str, *hosts: str) -> Any:
    """A fixture of a module: bare hosts, and a rendered project for them."""

    @pytest.fixture(scope="module")
    def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
        path = tmp_path_factory.mktemp(name) / "project"
        yield from make_project(path, f"test-{name}", list(hosts))

    return project


def make_proven(directory: Path, name: str, hosts: list[str]) -> Iterator[Project]:
    """Hosts that `provision apply` has brought from bare to proven."""
    for project in make_project(directory, name, hosts):
        applied = project.provision("apply", "-i", "lab")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        yield project


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The proving ground, from which hosts install."""
    with serve(tmp_path_factory.mktemp("site")) as server:
        yield server


@pytest.fixture(scope="session")
def spine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Two hosts brought from bare to proven once, by `provision apply`."""
    directory = tmp_path_factory.mktemp("spine") / "project"
    for project in make_proven(directory, "test-spine", ["spine1", "spine2"]):
        for name in ("report.json", "events.jsonl"):
            shutil.copy(
                project.path / "report/latest" / name, project.path / f"report/first-{name}"
            )
        yield project


bare = bare_hosts("bare", "bare1")
