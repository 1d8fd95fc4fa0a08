"""Processors and GPUs that TensorFlow's wheels do not run on, and a conda in front of them."""

import os
import re

from ...host import gpu_models, surroundings
from ...host.processes import accounts, text_of
from ...rules import Rule
from .. import tensorflow

# Newer than the code inside TensorFlow 2.9's wheel (up to compute capability 8.0 and its PTX).
TRANSLATED = ("Hopper",)

# No wheel up to 2.21 has machine code for it; what the driver would translate ends at the first
# operation on 12.0 (https://github.com/tensorflow/tensorflow/issues/89272); 10.0 is not reported.
WITHOUT_CODE = ("Blackwell",)

LAST_WITHOUT_CODE = [2, 21]


def home(context):
    """Home directory of who came in by ssh; None when that is root."""
    user = os.environ.get("SUDO_USER")
    homes = [fields[5] for fields in accounts(context) if fields[0] == user]
    return homes[0] if homes else None


def conda(context):
    """Login files that put conda's Python in front of the system's."""
    found = []
    files = ["/etc/profile.d/conda.sh", "/root/.bashrc", "/root/.bash_profile", "/root/.profile"]
    directory = home(context)
    if directory:
        files += [directory + "/.bashrc", directory + "/.bash_profile", directory + "/.profile"]
    files += surroundings.login_files(accounts(context))
    for path in dict.fromkeys(files):
        text = text_of(context, path)
        if (path.endswith("conda.sh") and text) or re.search(
            r"conda initialize|^[^#\n]*PATH=\S*(ana|mini|mambaf)\w*/bin", text, re.M
        ):
            found.append(path)
    return found


def avx_missing(found, _changes, _options, _row):
    if found["preflight"].get("avx") is not False:
        return []
    return [
        (
            "the processor has no AVX, which TensorFlow's wheels are built with "
            "(they end with 'Illegal instruction')",
            "in a virtual machine let the CPU model pass AVX on (host-passthrough); "
            "otherwise take another machine",
        )
    ]


def gpu_without_code(found, _changes, _options, row):
    version = row["tensorflow"]["version"]
    if [int(part) for part in version.split(".")[:2]] > LAST_WITHOUT_CODE:
        return []
    return [
        (
            "TensorFlow {0} does not run on a {1} GPU: its wheel has no code for it "
            "(https://github.com/tensorflow/tensorflow/issues/89272)".format(version, name),
            "take this host out of the group; NVIDIA's own container of TensorFlow has code for it",
        )
        for name in gpu_models.generations(found["gpus"])
        if name in WITHOUT_CODE
    ]


def gpu_translated(found, _changes, _options, row):
    version = [int(part) for part in row["tensorflow"]["version"].split(".")[:2]]
    if version >= [2, 12]:
        return []
    return [
        (
            "TensorFlow {0} has no code for a {1} GPU: the first run translates for half an hour, "
            "and cuDNN and cuBLAS of CUDA {2} do not know it".format(
                row["tensorflow"]["version"], name, row["cuda"]["release"]
            ),
            "wish for TensorFlow 2.12 or newer on this host",
        )
        for name in gpu_models.generations(found["gpus"])
        if name in TRANSLATED
    ]


def conda_first(found, _changes, _options, _row):
    files = found["preflight"].get("conda")
    if not files:
        return []
    return [
        (
            "conda stands first in PATH after login ({0}): 'python' and its CUDA libraries are "
            "conda's, not this stack's".format(", ".join(files)),
            "conda config --set auto_activate_base false, and call TensorFlow's Python by its path",
        )
    ]


RULES = (
    Rule("avx", tensorflow.NAME, True, avx_missing),
    Rule("gpu-without-code", tensorflow.NAME, True, gpu_without_code),
    Rule("gpu-translated", tensorflow.NAME, False, gpu_translated),
    Rule("conda", tensorflow.NAME, False, conda_first),
)
