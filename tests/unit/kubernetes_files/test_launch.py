"""The launcher of an Indexed Job, run as Kubernetes runs it: in a process, by its environment.

Names of pods have addresses in a cluster alone: `sitecustomize` of the test is a stand-in for its
DNS, and knows the names that it is given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kubernetes_files.test_manifests import manifests

STAND_IN = """\
import os, socket

real = socket.getaddrinfo


def getaddrinfo(host, *arguments, **more):
    if host not in os.environ["KNOWN_NAMES"].split():
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return real("127.0.0.1", *arguments, **more)


socket.getaddrinfo = getaddrinfo
"""
SCRIPT = (
    "import json, os, sys\nprint(json.dumps([sys.argv[1:], json.loads(os.environ['TF_CONFIG'])]))\n"
)


class Pod:
    """A pod of the Job: the files of its ConfigMap in a folder, and its environment."""

    def __init__(self, folder: Path, known: str = "", **changes: Any) -> None:
        by_kind = manifests(name="train", data=SCRIPT.encode(), **changes)
        for name, text in by_kind["ConfigMap"]["data"].items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "sitecustomize.py").write_text(STAND_IN, encoding="utf-8")
        self.folder = folder
        (container,) = by_kind["Job"]["spec"]["template"]["spec"]["containers"]
        self.command = [
            word.replace("/training/", f"{folder}/") for word in container["command"]
        ] + container.get("args", [])
        self.environment = {entry["name"]: entry["value"] for entry in container["env"]}
        self.environment |= {
            "PYTHONPATH": str(folder),
            "KNOWN_NAMES": known,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def run(self, index: str | None, **changes: str) -> subprocess.CompletedProcess[str]:
        given = {} if index is None else {"JOB_COMPLETION_INDEX": index}
        return subprocess.run(
            self.command,
            env=self.environment | given | changes,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


NAMES = "train-0.train train-1.train train-2.train"


def test_every_worker_has_the_same_cluster_and_its_own_index(tmp_path: Path) -> None:
    pod = Pod(tmp_path, NAMES, workers=3, arguments=["--epochs", "5"])
    for index in range(3):
        done = pod.run(str(index))
        assert (done.returncode, done.stderr) == (0, "")
        arguments, config = json.loads(done.stdout)
        assert arguments == ["--epochs", "5"]
        assert config == {
            "cluster": {
                "worker": ["train-0.train:2222", "train-1.train:2222", "train-2.train:2222"]
            },
            "task": {"type": "worker", "index": index},
        }


def test_one_worker_waits_for_nobody(tmp_path: Path) -> None:
    done = Pod(tmp_path, "").run("0")
    assert json.loads(done.stdout)[1]["cluster"] == {"worker": ["train-0.train:2222"]}


def test_a_peer_without_a_name_is_said_by_its_name(tmp_path: Path) -> None:
    """TensorFlow itself would wait for it without a word."""
    pod = Pod(tmp_path, "train-0.train train-2.train", workers=3)
    done = pod.run("0", PROVISION_PATIENCE="0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "launch: after 0 s there is no address for train-1.train: its pod" in done.stderr


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (None, "JOB_COMPLETION_INDEX is ''; expected a number"),
        ("one", "JOB_COMPLETION_INDEX is 'one'; expected a number"),
        ("3", "the index is 3, of 3 workers"),
    ],
)
def test_a_pod_that_is_of_no_such_job_is_said_so(
    tmp_path: Path, index: str | None, words: str
) -> None:
    done = Pod(tmp_path, NAMES, workers=3).run(index)
    assert done.returncode == 1
    assert words in done.stderr
