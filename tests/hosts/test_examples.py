"""Every example is run in a host's locked environment, as a script and as a notebook.

The host's GPUs are simulated and compute nothing, so they are hidden, and each example must say
that it had none. What it does on GPUs is not shown by this.
"""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from conftest import BIN, Project, over_ssh

from provision import examples

pytestmark = [pytest.mark.slow]

HOST = "spine1"
PYTHON = "/opt/tensorflow/current/bin/python"
# The code cells, one after the other, as a kernel runs them.
CELLS = """\
import json, sys
space = {"__name__": "__main__"}
for number, cell in enumerate(json.load(sys.stdin)["cells"]):
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), "cell %d" % number, "exec"), space)
"""
WITHOUT = re.compile(r"no GPU|not two GPUs")
# What must stand in its output, beside that it had no GPU.
SAYS = {
    "check_gpus": r"^CPU:0: \d+ GFLOP/s, largest relative error \S+e-0[4-9]$",
    "one_gpu": r"^CPU:0: \d+ images/s, accuracy \d\.\d+$",
    "mirrored_strategy": r"^2 x CPU: \d+ images/s, accuracy \d\.\d+$",
    "multi_worker": r"^1 replica on a CPU \(no GPU\)\n(.*\n)*epoch 5: accuracy \d\.\d+$",
    "mixed_precision": r"^CPU, mixed_float16: \d+ images/s, accuracy \d\.\d+$",
    "input_pipeline": r"^and cached: \d+ images/s, trained on the CPU$",
    "checkpoints": r"^interrupted in epoch 3\n(.*\n)*  epoch 3: accuracy",
    "export": r"^TFLite: largest difference \S+$",
    "train_slurm": r"^not in a job of Slurm's: one worker\n(.*\n)*1 workers x CPU: accuracy \d",
}


def printed(*arguments: str) -> str:
    """What `provision examples` prints."""
    command = [str(BIN / "provision"), "examples", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def run(host: Project, python: str, stdin: str) -> str:
    """What a program prints on the host, in a folder of its own that goes with it."""
    command = (
        'folder=$(mktemp -d) && cd "$folder" && { '
        f'{python}; code=$?; cd /; rm -rf "$folder"; exit $code; }}'
    )
    done = over_ssh(
        host.lab, f"export CUDA_VISIBLE_DEVICES=-1; {command}", host=HOST, stdin=stdin, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_is_a_word_for_every_example() -> None:
    assert set(SAYS) == set(examples.NAMES)


@pytest.mark.parametrize("name", examples.NAMES)
def test_a_script_runs(spine: Project, name: str) -> None:
    file = f"{name}.py"
    output = run(spine, f"cat > {file} && {PYTHON} {file}", printed(name))
    assert re.search(SAYS[name], output, re.MULTILINE), output
    assert WITHOUT.search(output), output


@pytest.mark.parametrize("name", examples.NAMES)
def test_a_notebook_runs(spine: Project, name: str) -> None:
    output = run(spine, f"{PYTHON} -c {shlex.quote(CELLS)}", printed(name, "--notebook"))
    assert re.search(SAYS[name], output, re.MULTILINE), output
    assert WITHOUT.search(output), output
