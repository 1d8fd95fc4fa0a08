"""The workspaces' image is built on the host, and its TensorFlow sees the GPUs that were promised.

dockerd, the build, Jupyter, TensorBoard, TensorFlow and the CUDA libraries are real; the GPUs are
simulated, and the toolkit that hands them over is a stand-in (tests/ground/toolkit_simulated.py).
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from conftest import BIN
from docked import HOST, Docked, docked

from tests.ground import workspace_image

pytestmark = [pytest.mark.slow]

PEOPLE: list[dict[str, Any]] = [
    {"name": "ada", "gpus": [1], "shared": True, "port": 8801, "tensorboard_port": 8901},
    {
        "name": "bob",
        "kind": "both",
        "gpus": "all",
        "shared": True,
        "port": 8802,
        "tensorboard_port": 8902,
        "ssh_port": 2202,
        "memory": "3g",
    },
]
LISTS = "import tensorflow as tf; print(len(tf.config.list_physical_devices('GPU')))"
# As TensorFlow's own guide writes an event: https://www.tensorflow.org/tensorboard/get_started
EVENT = """\
import os
import tensorflow as tf
with tf.summary.create_file_writer(os.path.expanduser('~/logs/first')).as_default():
    tf.summary.scalar('loss', 0.25, step=1)
"""
NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": "one",
            "metadata": {},
            "outputs": [],
            "source": LISTS,
        }
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
FETCH = """\
import sys, urllib.request, urllib.error
try:
    with urllib.request.urlopen(sys.argv[1], timeout=10) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print("none", error)
"""


class Built(Docked):
    """A host whose workspaces have an image of their host's own stack."""

    stack: ClassVar[dict[str, Any]] = {"packages": ["jupyterlab", "pandas", "matplotlib"]}

    def say(self, people: list[dict[str, Any]], **more: Any) -> None:
        folder = self.path / "lab" / "group_vars" / "gpu_hosts"
        folder.mkdir(parents=True, exist_ok=True)
        key = self.lab.hosts[0].key_file.with_suffix(".pub").read_text("utf-8")
        keyed = [
            {**person, "ssh_keys": [key]} if "ssh_port" in person else person for person in people
        ]
        base = workspace_image.pack_base()
        plain = {
            "gpu_workspaces": keyed,
            "gpu_workspace_base_file": str(base),
            "gpu_workspace_base_sha256": workspace_image.sha256(base),
            **more,
        }
        (folder / "workspaces.yml").write_text(json.dumps(plain), "utf-8")

    def inside(self, name: str, *command: str, stdin: str = "") -> str:
        words = ("docker", "exec", "--interactive", f"gpu-workspace-{name}", *command)
        return self.root(*words, stdin=stdin)

    def image(self) -> str:
        return self.root("docker", "inspect", "-f", "{{.Config.Image}}", "gpu-workspace-ada")

    def uuids(self) -> list[str]:
        return re.findall(r"UUID: (\S+)\)", self.root("nvidia-smi", "-L"))

    def fetched(self, url: str) -> str:
        return self.root("python3", "-c", FETCH, url)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    with docked(tmp_path_factory.mktemp("workspace-image"), "workspace-image", Built) as made:
        made.say(PEOPLE)
        yield made


def test_from_bare_to_an_image_and_two_people_in_one_run(built: Built) -> None:
    entry = built.proven()
    assert {"tensorflow", "nvidia_container_toolkit", "gpu_workspace"} <= set(entry["components"])
    results = built.results("gpu_workspace")
    assert results == dict.fromkeys(results, "passed")
    assert {"gpu_workspace.gpus", "gpu_workspace.tensorboard"} <= set(results)
    details = {check["id"]: check["detail"] for check in built.proof["checks"]}
    assert details["gpu_workspace.gpus"] == "nvidia-smi: ada 1, bob 2; TensorFlow 1 (simulated)"
    assert built.image().startswith("gpu-workspace-built:")


def test_a_container_lists_the_gpus_promised_and_no_more(built: Built) -> None:
    uuids = built.uuids()
    assert len(uuids) == 2
    for name, mine in (("ada", uuids[1:]), ("bob", uuids)):
        assert re.findall(r"UUID: (\S+)\)", built.inside(name, "nvidia-smi", "-L")) == mine
        assert built.inside(name, "python", "-c", LISTS).splitlines()[-1] == str(len(mine))


def test_the_image_has_the_hosts_own_lock(built: Built) -> None:
    """Wheel for wheel; and CUDA's libraries and cuDNN are found without a path."""
    freeze = "python -m pip list --format=freeze --disable-pip-version-check"
    here = built.root("sh", "-c", f"/opt/tensorflow/current/bin/{freeze}")
    assert built.inside("ada", "sh", "-c", freeze) == here
    assert "jupyterlab==" in here
    loads = "import ctypes; [ctypes.CDLL(n) for n in ('libcublas.so.11', 'libcudnn.so.8')]"
    built.inside("ada", "python3.9", "-c", loads)
    assert "release 11.2" in built.inside("ada", "ptxas", "--version")
    left = built.inside("bob", "sh", "-c", "ls /etc/ssh; ls /var/lib/apt/lists")
    assert "ssh_host" not in left


def test_a_notebook_run_by_the_workspaces_jupyter_lists_them(built: Built) -> None:
    built.inside("bob", "sh", "-c", "cat > ~/gpus.ipynb", stdin=json.dumps(NOTEBOOK))
    uid = built.root("stat", "-c", "%u", "/srv/gpu-workspaces/bob")
    person = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sh", "-c")
    run = "cd && jupyter nbconvert --to notebook --execute --output out.ipynb gpus.ipynb"
    built.inside("bob", *person, run)
    done = json.loads(built.root("cat", "/srv/gpu-workspaces/bob/out.ipynb"))
    outputs = [output for output in done["cells"][0]["outputs"] if output.get("name") == "stdout"]
    assert ["".join(output["text"]).split() for output in outputs] == [["2"]]


def test_tensorboard_shows_what_was_written(built: Built) -> None:
    # Without a GPU: a simulated one can be listed, and runs nothing.
    built.inside("ada", "env", "CUDA_VISIBLE_DEVICES=-1", "python", "-c", EVENT)
    top = "http://127.0.0.1:8901/ada/tensorboard"
    until = time.time() + 60
    while "first" not in built.fetched(f"{top}/data/runs"):
        assert time.time() < until, built.fetched(f"{top}/data/runs")
        time.sleep(2)
    output = built.fetched(f"{top}/data/plugin/scalars/scalars?run=first&tag=loss")
    assert json.loads(output.split(" ", 1)[1])[0][1:] == [1, 0.25]
    assert built.fetched("http://127.0.0.1:8901/").startswith("404")
    # systemd holds the port, and docker publishes none.
    assert built.root("docker", "port", "gpu-workspace-ada") == ""
    assert "127.0.0.1:8901" in built.root("ss", "-Hltn")
    homes = ("/srv/gpu-workspaces/ada", "/srv/gpu-workspaces/ada/logs")
    owners = built.root("stat", "-c", "%u", *homes).split()
    assert owners[0] == owners[1] != "1000"


def test_a_tensorboard_that_dies_comes_back_alone(built: Built) -> None:
    before = built.root("docker", "inspect", "-f", "{{.State.StartedAt}}", "gpu-workspace-bob")
    find = "grep -l tensorboard /proc/[0-9]*/comm | cut -d/ -f3"
    old = built.inside("bob", "sh", "-c", find).split()
    assert old
    built.inside("bob", "sh", "-c", f"kill -9 {' '.join(old)}")
    until = time.time() + 120
    while not built.fetched("http://127.0.0.1:8902/bob/tensorboard/").startswith("200"):
        assert time.time() < until
        time.sleep(2)
    assert not set(built.inside("bob", "sh", "-c", find).split()) & set(old)
    after = built.root("docker", "inspect", "-f", "{{.State.StartedAt}}", "gpu-workspace-bob")
    assert after == before


def test_workspaces_do_not_reach_each_other(built: Built) -> None:
    form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    address = built.root("docker", "inspect", "-f", form, "gpu-workspace-bob")
    for port in (6006, 8888, 22):
        ask = f"import socket; socket.create_connection(('{address}', {port}), 5)"
        # Its owner's own container answers there, and so it is the network that keeps others out.
        if port != 6006:  # TensorBoard listens to its own container alone
            built.inside("bob", "python3", "-c", ask)
        done = built.inside("ada", "sh", "-c", f'python3 -c "{ask}" 2>&1 || true')
        assert "timed out" in done, done
    out = "import socket; print(socket.create_connection(('deb.debian.org', 80), 20) and 'out')"
    assert built.inside("ada", "python3", "-c", out) == "out"


def test_a_second_run_changes_nothing(built: Built) -> None:
    again = built.provision("apply", "-i", "lab")
    assert again.returncode == 0, again.stdout + again.stderr
    assert built.tasks_run()[HOST] == ["gpu_state : Look | Compare the host with the lock"]


def test_a_build_that_fails_says_why_and_stops_nobody(built: Built) -> None:
    before = built.root("docker", "ps", "--quiet", "--no-trunc"), built.image()
    built.say(PEOPLE, gpu_workspace_packages=["openssh-server", "no-such-package"])
    refused = built.provision("apply", "-i", "lab")
    assert refused.returncode == 4, refused.stdout + refused.stderr
    output = " ".join(refused.stdout.split())
    assert "Unable to locate package no-such-package" in output
    assert "Nobody's workspace was touched" in output
    assert (built.root("docker", "ps", "--quiet", "--no-trunc"), built.image()) == before
    # The run that failed is still owed its end; the image is the one of before.
    built.say(PEOPLE)
    built.proven()
    assert (built.root("docker", "ps", "--quiet", "--no-trunc"), built.image()) == before


def test_another_lock_is_a_change_of_all_who_use_the_image(built: Built) -> None:
    """Told by the plan, before anything is built or stopped."""
    hosts = built.path / "lab" / "hosts.yml"
    kept, lock = hosts.read_text("utf-8"), (built.path / "lock.yml").read_bytes()
    inventory = yaml.safe_load(kept)
    inventory["gpu_hosts"]["vars"]["gpu_stack"]["packages"] = ["jupyterlab", "matplotlib"]
    hosts.write_text(yaml.safe_dump(inventory), "utf-8")
    try:
        built.relock()
        planned = built.provision("plan", "-i", "lab")
        assert planned.returncode == 5, planned.stdout + planned.stderr
        for name in ("ada", "bob"):
            line = f"workspace {name}: other settings -> as wished (changed: image)"
            assert line in planned.stdout
    finally:
        hosts.write_text(kept, "utf-8")
        (built.path / "lock.yml").write_bytes(lock)
        done = subprocess.run(
            [str(BIN / "provision"), "render", "."],
            cwd=built.path,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert built.provision("plan", "-i", "lab").returncode == 0


def test_a_foreign_network_of_that_name_is_refused(built: Built) -> None:
    built.say([])
    built.proven()
    assert "gpu-workspaces" not in built.root("docker", "network", "ls")
    built.root("docker", "network", "create", "gpu-workspaces")
    built.say(PEOPLE[:1])
    refused = built.provision("apply", "-i", "lab")
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert "network gpu-workspaces that is not of gpu_workspaces" in " ".join(
        refused.stdout.split()
    )
    assert built.root("docker", "ps", "--quiet") == ""
    built.root("docker", "network", "rm", "gpu-workspaces")


def test_an_image_that_is_there_is_not_built_again(built: Built) -> None:
    """The one of before, for it was never removed; the same lock is the same image."""
    built.proven()
    # The latest report is that of the plan behind the run.
    run = max(Path(built.path).glob("report/*-run/events.jsonl"))
    text = run.read_text("utf-8")
    results = [
        event["status"]
        for event in map(json.loads, text.splitlines())
        if event["event"] == "host_result" and "Pull, load or build it" in event["task"]
    ]
    assert results == ["ok"]
    assert built.image().startswith("gpu-workspace-built:")
