"""`provision train --diagnose` over a stand-in for TensorFlow, whose ways do what a test says.

The real TensorFlow exchanges tensors in tests/hosts/test_train.py, by RING: no GPU is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.provision.gpu.plugins.plugin_utils import training

TENSORFLOW = """
import enum, os, sys, time, types
_does = dict(part.split("=") for part in os.environ["WAYS"].split())

class Kind(enum.Enum):
    RING = "RING"
    NCCL = "NCCL"

class Context:
    def all_reduce(self, op, values, options):
        does = _does[options.kind.name]
        if does == "hangs":
            time.sleep(600)
        if does == "fails":
            sys.exit(9)
        assert len(values) > 1
        return [1.0 if does == "is-wrong" else 2.0 for _value in values]

class Strategy:
    num_replicas_in_sync = 2
    def __init__(self, communication_options):
        self.options = communication_options
    def run(self, each):
        return each()
    def experimental_local_results(self, value):
        return [value]

distribute = types.SimpleNamespace(
    MultiWorkerMirroredStrategy=Strategy,
    ReduceOp=types.SimpleNamespace(SUM="SUM"),
    get_replica_context=Context,
    experimental=types.SimpleNamespace(
        CommunicationImplementation=Kind,
        CommunicationOptions=lambda implementation: types.SimpleNamespace(kind=implementation),
    ),
)
config = types.SimpleNamespace(
    list_physical_devices=lambda _kind: ["GPU:0"] * int(os.environ["GPUS"]),
    experimental=types.SimpleNamespace(set_memory_growth=lambda _gpu, _on: None),
)
ones = lambda shape: 1.0
function = lambda done: done
reduce_min = reduce_max = float
"""


def diagnose(folder: Path, ways: str, gpus: int = 1) -> tuple[int, str, bool]:
    """(exit code, what it says, whether it is complete) of worker 0."""
    (folder / "tensorflow.py").write_text(TENSORFLOW)
    (folder / ".job").mkdir()
    path = os.pathsep.join([str(folder), str(training.HELPER.parent)])
    more = {
        "WAYS": ways, "GPUS": str(gpus), "PYTHONPATH": path, "PROVISION_TRAINING": str(folder),
        "DIAGNOSE_PATIENCE": "1.5", "TF_CONFIG": "{}", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(training.DIAGNOSE)],
        env={**os.environ, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    mark = folder / ".job" / "complete.json"
    is_complete = mark.exists() and Path(json.loads(mark.read_text())["model"]).exists()
    return done.returncode, done.stdout, is_complete


@pytest.mark.parametrize(
    ("ways", "gpus", "code", "expected"),
    [
        ("RING=works NCCL=works", 1, 0, "diagnosis: RING and NCCL get through"),
        (
            "RING=works NCCL=hangs",
            1,
            1,
            "diagnosis: RING gets through and NCCL does not: train with",
        ),
        ("RING=works NCCL=fails", 1, 1, "NCCL: it ended with 9"),
        ("RING=works NCCL=is-wrong", 1, 1, "NCCL: the sum over 2 replicas is wrong"),
        ("RING=works NCCL=hangs", 0, 0, "diagnosis: RING gets through; there is no NCCL without"),
        ("RING=hangs NCCL=works", 1, 1, "diagnosis: the workers do not exchange anything"),
    ],
)
def test_each_way_is_tried_by_itself_and_reported(
    tmp_path: Path, ways: str, gpus: int, code: int, expected: str
) -> None:
    ended, text, is_complete = diagnose(tmp_path, ways, gpus)
    assert (ended, is_complete) == (code, code == 0), text
    assert expected in text
