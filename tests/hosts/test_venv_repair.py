"""A repair of TensorFlow's environment costs nobody anything, whatever happens in the middle of it.

A new one is built beside and takes the place of the old one when it is whole. One host, with the
tests in this order: each leaves the host as locked for the next.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Project, make_project
from fault_run import kill_tree

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("venv-in-use", "venv-kept", "venv-parents")

HOST = "venv1"
TAGS = ("--tags", "tensorflow")
ROOT = "/opt/tensorflow"
LIBRARY = "h5py/defs.cpython-39-x86_64-linux-gnu.so"
NO_INDEX = ("-e", "tensorflow_index_url=http://127.0.0.1:9/simple")
# Uses numpy's libraries from the environment until somebody ends it, and imports once more then.
JOB = (
    "import numpy, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); "
    "open('/tmp/ready', 'w').close(); signal.sigwait([signal.SIGUSR1]); import numpy.ma.extras"
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A host with TensorFlow alone."""
    path = tmp_path_factory.mktemp("venv") / "project"
    for project in make_project(path, "test-venv", [HOST]):
        done = apply(project)
        assert done.returncode == 0, done.stdout + done.stderr
        yield project


def apply(host: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return host.provision("apply", "-i", "lab", *TAGS, *arguments)


def plan(host: Project, *arguments: str) -> tuple[dict[str, str | None], str]:
    """{item: from} of TensorFlow's changes, and what a person reads."""
    done = host.provision("plan", "-i", "lab", *TAGS, *arguments)
    assert done.returncode in {0, 5}, done.stdout + done.stderr
    entry: dict[str, Any] = host.entry(HOST)
    changes = [change for change in entry["changes"] if change["component"] == "tensorflow"]
    return {change["item"]: change["from"] for change in changes}, done.stdout


def root(host: Project, command: str) -> str:
    return host.ssh(HOST, "sudo sh -c " + shlex.quote(command))


def venv(host: Project) -> str:
    return root(host, f"readlink -f {ROOT}/current").strip()


def entries(host: Project) -> list[str]:
    return root(host, f"ls -A {ROOT}/").split()


def site(host: Project) -> str:
    return venv(host) + "/lib/python3.9/site-packages"


def works(host: Project) -> None:
    command = f"CUDA_VISIBLE_DEVICES=-1 {ROOT}/current/bin/python -c 'import tensorflow' 2>&1"
    host.ssh(HOST, command)


def start(host: Project, *arguments: str) -> subprocess.Popen[str]:
    command = [str(BIN / "provision"), "apply", "-i", "lab", *TAGS, *arguments]
    return subprocess.Popen(
        command, cwd=host.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def wait_for_pip(host: Project, run: subprocess.Popen[str]) -> None:
    """Until pip is at work in the environment that is built."""
    deadline = time.monotonic() + 900
    while not root(host, f"ls -d {ROOT}/.building-*/pip-* 2>/dev/null || true").strip():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline, "pip never came to its work"
        time.sleep(0.3)


def begin_job(host: Project) -> str:
    """The process id of somebody's program."""
    python = f"setsid {ROOT}/current/bin/python -c {shlex.quote(JOB)} </dev/null >/tmp/job 2>&1"
    pid = host.ssh(HOST, f"rm -f /tmp/ready; {python} & echo $!").strip()
    deadline = time.monotonic() + 60
    while not host.ssh(HOST, "ls /tmp/ready 2>/dev/null || true").strip():
        assert time.monotonic() < deadline, host.ssh(HOST, "cat /tmp/job")
        time.sleep(0.2)
    return pid


def end_job(host: Project, pid: str) -> None:
    """It was at work all the time, and imports what it still needs."""
    host.ssh(HOST, f"kill -USR1 {pid}; tail --pid={pid} -f /dev/null; test ! -s /tmp/job")


def test_m1_a_wheel_that_is_put_back_in_place_needs_the_index_too(host: Project) -> None:
    """Nothing is taken out before it is there; and the failure is told in one sentence."""
    root(host, f"{ROOT}/current/bin/python -m pip install --quiet --no-deps wrapt==1.15.0")
    assert plan(host)[0] == {"wrapt": "1.15.0"}
    done = apply(host, *NO_INDEX)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "was not installed: this host does not reach the package index" in done.stdout
    assert plan(host)[0] == {"wrapt": "1.15.0"}
    done = apply(host)
    assert done.returncode == 0, done.stdout + done.stderr
    assert plan(host)[0] == {}


def test_m1_an_index_out_of_reach_leaves_what_was_there(host: Project) -> None:
    """What was there was deleted before pip began, and the message said that it was current."""
    root(host, f"rm {site(host)}/{LIBRARY}")
    before = entries(host)
    assert plan(host)[0] == {LIBRARY: "missing"}
    done = apply(host, *NO_INDEX)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "The version in use before is still the current one" in done.stdout
    assert entries(host) == before
    host.ssh(HOST, f"{ROOT}/current/bin/python -c 'import numpy'")
    assert plan(host)[0] == {LIBRARY: "missing"}


def test_m1_nobodys_program_is_ended_and_a_repair_waits_for_it(host: Project) -> None:
    before = entries(host)
    pid = begin_job(host)
    done = apply(host)
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"pid {pid} of lab uses TensorFlow's environment" in done.stdout
    assert "none is ever ended for you" in done.stdout
    assert entries(host) == before
    end_job(host, pid)


def test_m1_a_program_that_begins_during_a_repair_goes_on(host: Project) -> None:
    before = entries(host)
    run = start(host)
    wait_for_pip(host, run)
    pid = begin_job(host)
    output = run.communicate()[0]
    assert run.returncode == 4, output
    assert f"is in use by pid {pid} (python)" in output
    assert "The version in use before is still the current one" in output
    assert entries(host) == before
    end_job(host, pid)


def test_d5_a_repair_that_is_killed_is_cured_by_one_run_and_keeps_peoples_packages(
    host: Project,
) -> None:
    root(host, f"{ROOT}/current/bin/pip install --quiet --no-deps colorama==0.4.6")
    root(host, f"echo 'x = 1' > {site(host)}/mine.py")
    here = venv(host)
    output = plan(host)[1]
    assert f"{here}.save: colorama 0.4.6, mine.py" in " ".join(output.split()), output
    run = start(host)
    wait_for_pip(host, run)
    assert kill_tree(run.pid), "it had no ansible-playbook"
    run.communicate()
    root(host, "pkill -KILL -f '[.]building-.* -m pip' || true")
    host.ssh(HOST, f"{ROOT}/current/bin/python -c 'import numpy, mine, colorama'")
    left = plan(host)[0]
    assert left.pop(LIBRARY) == "missing"
    assert [name for name in left if not name.startswith(".building-")] == []

    done = apply(host)
    assert done.returncode == 0, done.stdout + done.stderr
    assert venv(host) == here
    name = Path(here).name
    assert entries(host) == [name, name + ".save", "current"]
    works(host)
    listed = host.ssh(HOST, f"{here}.save/bin/python -m pip freeze 2>/dev/null")
    assert "colorama==0.4.6" in listed
    host.ssh(HOST, f"cd /; {here}.save/bin/python -c 'import mine'")
    assert plan(host)[0] == {}
    assert root(host, f"grep -rlI building- {here}/bin {here}/pyvenv.cfg || true") == ""


def test_d6_what_a_user_may_write_is_seen_and_made_anew(host: Project) -> None:
    """Others import from it, and root runs pip in it."""
    here, short = venv(host), "lib/python3.9/site-packages"
    uid = host.ssh(HOST, "id -u").strip()
    damages = {
        f"chown lab {here}/{short}": {short: f"owned by user {uid}"},
        f"chmod o+w {here}/bin": {"bin": "writable for all"},
        f"ln -sfn /usr/bin/perl {here}/bin/python3": {"bin/python3": "leads to /usr/bin/perl"},
        f"mkdir -p /home/lab/x; chown lab /home/lab/x; echo /home/lab/x > {here}/{short}/a.pth": {
            f"{short}/a.pth": f"leads to others: /home/lab is owned by user {uid}"
        },
        f"chown lab {ROOT}": {ROOT: f"owned by user {uid}"},
        f"chown -h lab {ROOT}/current": {f"{ROOT}/current": f"owned by user {uid}"},
    }
    expected: dict[str, str | None] = {}
    for command, items in damages.items():
        root(host, command)
        expected |= items
        assert plan(host)[0] == expected
    done = apply(host)
    assert done.returncode == 0, done.stdout + done.stderr
    assert plan(host, "--deep")[0] == {}
    works(host)
    owners = root(host, f"find -H {ROOT} -path '*.save*' -prune -o -not -user root -print")
    assert owners == ""


def test_a_link_to_another_disk_works_where_root_alone_may_write(host: Project) -> None:
    root(host, f"mv {ROOT} /srv/tf && ln -s /srv/tf {ROOT}")
    assert plan(host)[0] == {}
    root(host, "chmod o+w /srv")
    assert plan(host)[0] == {ROOT: "/srv is writable for all"}
    done = apply(host)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "/srv is writable for all: who may write there" in done.stdout
    root(host, "chmod o-w /srv")
    pid = begin_job(host)
    root(host, f"rm {site(host)}/{LIBRARY}")
    done = apply(host)
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"pid {pid} of lab uses TensorFlow's environment" in done.stdout
    end_job(host, pid)
    done = apply(host)
    assert done.returncode == 0, done.stdout + done.stderr
    works(host)
    done = apply(host, "-e", "tensorflow_state=absent")
    assert done.returncode == 0, done.stdout + done.stderr
    kept = root(host, "ls -A /srv/tf").split()
    assert kept
    assert all(".save" in name for name in kept), kept
    assert root(host, f"readlink {ROOT}").strip() == "/srv/tf"
