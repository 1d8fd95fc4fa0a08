"""Every TensorFlow patch that the catalog offers is installed from its lock, imported, and trained.

A wheel's metadata often has no upper bound, and a later release of something else then breaks the
import of a patch that nobody has installed for years. So each patch gets the very requirements that
`provision lock` writes, in an environment of its own, and a Keras fit on the CPU.

About 40 minutes and 20 GB of downloads; at most 4 GB of disk at a time. What is small is kept in
`$XDG_CACHE_HOME/provision/patches`, where `outcomes.tsv` is the table; TensorFlow itself (500 MB
each) is not. The CUDA wheels of `tensorflow[and-cuda]` are left out: without a driver nothing opens
them. An interpreter of each minor version is taken from PATH, pyenv or uv,
which fetches what is missing where it can.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provision import catalog, home
from provision import lock as locks
from provision.models import Wish
from provision.resolve import Solver, Stack
from provision.upstream import wheels

pytestmark = [pytest.mark.slow, pytest.mark.network]

UV = Path(sys.executable).parent / "uv"
CACHE = home.cache_directory() / "patches"
PYTHONS = CACHE / "pythons"
CUDA_WHEELS = re.compile(r"(nvidia-|tensorrt)")
FIT = """
import importlib.metadata
import json
import numpy
import tensorflow as tf
from google import protobuf

tf.random.set_seed(1)
x = numpy.random.default_rng(1).normal(size=(256, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)
layers = [tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)]
model = tf.keras.Sequential(layers)
model.compile(optimizer="adam", loss="mse")
loss = model.fit(x, y, batch_size=32, epochs=8, verbose=0).history["loss"]
build = tf.sysconfig.get_build_info()
print(json.dumps({
    "tensorflow": tf.__version__,
    "keras": importlib.metadata.version("keras"),
    "numpy": numpy.__version__,
    "protobuf": protobuf.__version__,
    "loss": [float(loss[0]), float(loss[-1])],
    "capabilities": list(build["cuda_compute_capabilities"]),
}))
"""


@functools.cache
def offered() -> dict[str, Stack]:
    """Patch -> its stack on the first platform that can have it, Debian's own packages first."""
    facts = catalog.load()
    solver = Solver(facts)
    found = {}
    for row in facts.tensorflow:
        for patch in row.patches:
            wish = Wish(tensorflow=patch, literal={"tensorflow": patch})
            stacks = [solver.find(wish, platform) for platform in facts.platforms]
            fitting = [stack for stack in stacks if stack is not None and not stack.missing]
            if fitting:
                found[patch] = min(fitting, key=lambda wheel: not wheel.native)
    return found


def interpreter(version: str) -> str:
    """A Python of this minor version, fetched by uv where none is here.

    Where that can't be fetched either: a skip, or a failure where tests are promised.
    """
    python = found(version)
    if python is not None:
        return python
    # From GitHub, into this test's own cache.
    command = [UV, "python", "install", version, "--install-dir", PYTHONS]
    command += ["--no-bin", "--no-config"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    python = found(version)
    if python is not None:
        return python
    message = (
        f"no Python {version} with venv, ctypes and ssl on PATH, in pyenv or from uv, and uv can't "
        f"fetch it: {' '.join(done.stderr.split())[-300:]}. Install one: `pyenv install "
        f"{version}`, a package python{version}-venv, or `uv python install {version}` with "
        "UV_PYTHON_INSTALL_MIRROR naming a mirror of python-build-standalone"
    )
    if os.environ.get("PROVISION_REQUIRE_HOSTS"):
        pytest.fail(message)
    pytest.skip(message)


def found(version: str) -> str | None:
    """The first Python of this minor version that can make environments; None without one."""
    home = Path.home()
    asked = [sys.executable, shutil.which(f"python{version}") or ""]
    asked += map(str, sorted(home.glob(f".pyenv/versions/{version}.*/bin/python3")))
    for place in (home / ".local/share/uv/python", PYTHONS):
        asked += map(str, sorted(place.glob(f"cpython-{version}.*/bin/python3")))
    for python in filter(None, asked):
        answer = subprocess.run(
            [python, "-c", "import sys, venv, ctypes, ssl; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        if answer.stdout.strip() == version:
            return python
    return None


def without_cuda(requirements: str) -> str:
    """Requirements without the wheels that hold CUDA."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", requirements, flags=re.MULTILINE)
    return "".join(block for block in blocks if not CUDA_WHEELS.match(block))


def uv(*arguments: str | Path) -> None:
    """Runs uv with this test's own cache; its words are the failure's."""
    command = [UV, *arguments, "--cache-dir", CACHE, "--no-config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]


def outcome(answer: subprocess.CompletedProcess[str]) -> str:
    """What the fit printed, or the exception that ended it."""
    errors = re.findall(r"^[A-Za-z.]+Error: .*$", answer.stderr, flags=re.MULTILINE)
    return answer.stdout.strip() if answer.returncode == 0 else (errors or ["?"])[-1]


def record(line: str) -> None:
    """Keeps a table beside the wheels, for whoever asks after the run."""
    with (CACHE / "outcomes.tsv").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@pytest.mark.parametrize("patch", list(offered()))
def test_what_a_patch_locks_is_imported_and_trains(patch: str, tmp_path: Path) -> None:
    """2.7.0, 2.8.0 and 2.8.1 locked protobuf 6: "Descriptors cannot be created directly"."""
    stack = offered()[patch]
    python = interpreter(stack.python)
    text = wheels.requirements(
        locks.wanted(stack), stack.constraints,
        python=stack.python, wheel_platform=stack.platform.wheel_platform,
    )  # fmt: skip
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(without_cuda(text), encoding="utf-8")
    venv = tmp_path / "venv"
    uv("venv", "--python", python, venv)
    try:
        uv(
            *("pip", "install", "--python", venv / "bin" / "python"),
            *("--no-deps", "--require-hashes", "--requirements", requirements),
        )
        answer = subprocess.run(
            [venv / "bin" / "python", "-c", FIT],
            env={"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"},
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        record(f"{patch}\t{stack.platform.id}\t{stack.python}\t{outcome(answer)}")
        assert answer.returncode == 0, answer.stderr[-3000:]
        versions = json.loads(answer.stdout.splitlines()[-1])
        assert versions["tensorflow"] == patch.replace(".post1", "")
        first, last = versions["loss"]
        assert last < first
        assert stack.row is not None
        assert [
            _capability(capability) for capability in versions["capabilities"]
        ] == stack.row.capabilities
    finally:
        shutil.rmtree(venv, ignore_errors=True)
        uv("cache", "clean", "tensorflow")


def _capability(name: str) -> str:
    """ "8.0" of "sm_80" and "compute_80"."""
    digits = name.partition("_")[2]
    return f"{digits[:-1]}.{digits[-1]}"
