"""Runs TensorFlow in its own environment."""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from .system import SIMULATED, end, text

# Importing TensorFlow from a cold disk can take minutes; a hang must not hold the run for ever.
TENSORFLOW_TIMEOUT = 600
TENSORFLOW_GPUS = r"""
import json, sys
out = {"python": "%d.%d.%d" % sys.version_info[:3]}
try:
    import tensorflow as tf
    out["version"] = tf.__version__
    out["built_with_cuda"] = tf.test.is_built_with_cuda()
    info = tf.sysconfig.get_build_info()
    out["build"] = {key: str(info[key]) for key in ("cuda_version", "cudnn_version") if key in info}
    out["gpus"] = [device.name for device in tf.config.list_physical_devices("GPU")]
except BaseException as error:
    out["error"] = "%s: %s" % (type(error).__name__, error)
    import traceback
    traceback.print_exc()
print("PROVISION " + json.dumps(out))
"""
TENSORFLOW_TRAINS = r"""
import json
out = {}
try:
    import numpy as np
    import tensorflow as tf
    tf.random.set_seed(1)
    x = np.linspace(-1, 1, 256, dtype="float32").reshape(-1, 1)
    y = 3 * x + 0.5
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    history = model.fit(x, y, batch_size=32, epochs=8, verbose=0).history["loss"]
    out["first"], out["last"] = float(history[0]), float(history[-1])
except BaseException as error:
    out["error"] = "%s: %s" % (type(error).__name__, error)
    import traceback
    traceback.print_exc()
print("PROVISION " + json.dumps(out))
"""
# Whole numbers, exact even in a GPU's shortest floats, so that the CPU's answer is the right one. A
# product uses cuBLAS, a sum TensorFlow's own kernels, a convolution cuDNN.
TENSORFLOW_COMPUTES = r"""
import json
out = {"devices": {}}
try:
    import numpy as np
    import tensorflow as tf
    x = (np.arange(4096) % 7).astype("float32").reshape(64, 64)
    image, kernel = x.reshape(1, 64, 64, 1), np.ones((3, 3, 1, 1), dtype="float32")
    for device in tf.config.list_logical_devices("GPU"):
        with tf.device(device.name):
            product = tf.linalg.matmul(x, x) + 1.0
            blurred = tf.nn.conv2d(image, kernel, 1, "VALID")
        far = np.abs(product.numpy() - (x @ x + 1)).max()
        sums = sum(x[i:i + 62, j:j + 62] for i in range(3) for j in range(3))
        far = max(far, np.abs(blurred.numpy()[0, :, :, 0] - sums).max())
        out["devices"][device.name] = {"on": product.device, "error": float(far)}
except BaseException as error:
    out["error"] = "%s: %s" % (type(error).__name__, error)
    import traceback
    traceback.print_exc()
print("PROVISION " + json.dumps(out))
"""
# CUDA from wheels is in nvidia/*/lib beside TensorFlow, whose files name these folders (RUNPATH).
# Each library is loaded from there; one that needs another is tried again after that is loaded, as
# the loader then finds it by its soname.
CUDA_WHEELS = r"""
import ctypes, glob, json, os, sys, sysconfig
site = sysconfig.get_paths()["purelib"]
out, left = {}, json.loads(sys.argv[1])
while left:
    failed = []
    for name in left:
        paths = sorted(glob.glob(os.path.join(glob.escape(site), "nvidia", "*", "lib", name)))
        out[name] = {"path": paths[0] if paths else None, "error": None}
        try:
            if paths:
                ctypes.CDLL(paths[0])
        except OSError as error:
            out[name]["error"] = str(error)
            failed.append(name)
    if len(failed) == len(left):
        break
    left = failed
print("PROVISION " + json.dumps(out))
"""


def wheels(venv: str) -> dict[str, list[str]]:
    """{project: its versions} of a venv, by dist-info folders; names normalized as in PEP 503."""
    versions: dict[str, list[str]] = {}
    pattern = os.path.join(glob.escape(venv), "lib", "python3*", "site-packages", "*.dist-info")
    for path in sorted(glob.glob(pattern)):
        name, _, version = os.path.basename(path)[: -len(".dist-info")].rpartition("-")
        versions.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append(version)
    return versions


def tensorflow(
    root: str, sonames: Sequence[str] = (), directory: str = "current"
) -> dict[str, Any]:
    """Runs all TensorFlow programs at once, each in its own process (training without a GPU).

    `sonames` are CUDA's libraries that should be in the environment itself. Computing is left out
    on a simulated GPU. {"python", "missing": True} without an environment.
    """
    python = os.path.join(root, directory, "bin", "python")
    if not os.path.exists(python):
        return {"python": python, "missing": True}
    started = time.time()
    base = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="0", PYTHONNOUSERSITE="1")
    base.pop("PYTHONPATH", None)
    jobs = {}
    questions: list[tuple[str, list[str], dict[str, str]]] = [
        ("gpus", [TENSORFLOW_GPUS], {}),
        ("trains", [TENSORFLOW_TRAINS], {"CUDA_VISIBLE_DEVICES": "-1"}),
    ]
    if not os.path.exists(SIMULATED):
        # Without this TensorFlow takes all memory of GPUs that others use.
        questions.append(("computes", [TENSORFLOW_COMPUTES], {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}))
    if sonames:
        questions.append(("cuda_wheels", [CUDA_WHEELS, json.dumps(list(sonames))], {}))
    for name, arguments, extra in questions:
        jobs[name] = subprocess.Popen(
            [python, "-c", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(base, **extra),
            cwd="/",
        )
    answers: dict[str, Any] = {
        "python": python,
        "real": os.path.realpath(os.path.dirname(os.path.dirname(python))),
        "wheels": wheels(os.path.join(root, directory)),
    }
    for name, job in jobs.items():
        try:
            remaining = max(1.0, TENSORFLOW_TIMEOUT - (time.time() - started))
            out, log = job.communicate(timeout=remaining)
        except subprocess.TimeoutExpired:
            out, log = end(job)
            log += f"\nno answer within {TENSORFLOW_TIMEOUT} s".encode()
        answer = {}
        for line in text(out).splitlines():
            if line.startswith("PROVISION "):
                answer = json.loads(line[len("PROVISION ") :])
        if name == "cuda_wheels":
            answer = {"libraries": answer}
        answer.update({"rc": job.returncode, "log": text(log)})
        answers[name] = answer
    answers["seconds"] = round(time.time() - started, 1)
    return answers
