"""Processors and GPUs that TensorFlow's wheels do not run on, and a conda in front of them."""

from __future__ import annotations

import os
import re

from ...host import gpu_models, surroundings
from ...host.processes import accounts, text_of
from ...rules import rules_of
from ...type_checking import TYPE_CHECKING
from .. import tensorflow

if TYPE_CHECKING:
    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Reasons, Row

# Newer than the code inside TensorFlow 2.9's wheel (up to compute capability 8.0 and its PTX).
TRANSLATED = ("Hopper",)

# No wheel up to 2.21 has machine code for it; what the driver would translate ends at the first
# operation on 12.0 (https://github.com/tensorflow/tensorflow/issues/89272); 10.0 is not reported.
WITHOUT_CODE = ("Blackwell",)

LAST_WITHOUT_CODE = [2, 21]


def home(context: Context) -> str | None:
    """Home directory of the user who logged in by ssh; None when that is root."""
    user = os.environ.get("SUDO_USER")
    homes = [fields[5] for fields in accounts(context) if fields[0] == user]
    return homes[0] if homes else None


def conda(context: Context) -> list[str]:
    """Login files that put conda's Python in front of the system's."""
    matching = []
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
            matching.append(path)
    return matching


def avx(context: Context) -> bool | None:
    """Whether the processor has AVX; None where it does not say."""
    flags = re.findall(r"^flags\s*:(.*)$", text_of(context, "/proc/cpuinfo"), re.M)
    return "avx" in flags[0].split() if flags else None


def avx_missing(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    """Stops on processors without AVX."""
    if facts["preflight"].get("avx") is not False:
        return []
    return [
        (
            "the processor has no AVX, which TensorFlow's wheels are built with "
            "(they end with 'Illegal instruction')",
            "in a virtual machine let the CPU model pass AVX on (host-passthrough); "
            "otherwise take another machine",
        )
    ]


def gpu_without_code(facts: Facts, _changes: Changes, _options: Options, row: Row) -> Reasons:
    """Stops on GPUs that no wheel has code for."""
    version = row["tensorflow"]["version"]
    if [int(part) for part in version.split(".")[:2]] > LAST_WITHOUT_CODE:
        return []
    return [
        (
            f"TensorFlow {version} does not run on a {name} GPU: its wheel has no code for it "
            "(https://github.com/tensorflow/tensorflow/issues/89272)",
            "take this host out of the group; NVIDIA's own container of TensorFlow has code for it",
        )
        for name in gpu_models.generations(facts["gpus"])
        if name in WITHOUT_CODE
    ]


def gpu_translated(facts: Facts, _changes: Changes, _options: Options, row: Row) -> Reasons:
    """Warns of GPUs whose first run waits for the driver's translation."""
    version = [int(part) for part in row["tensorflow"]["version"].split(".")[:2]]
    if version >= [2, 12]:
        return []
    return [
        (
            f"TensorFlow {row['tensorflow']['version']} has no code for a {name} GPU: the first "
            "run translates for half an hour, "
            f"and cuDNN and cuBLAS of CUDA {row['cuda']['release']} do not know it",
            "wish for TensorFlow 2.12 or newer on this host",
        )
        for name in gpu_models.generations(facts["gpus"])
        if name in TRANSLATED
    ]


def conda_first(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    """Warns of a conda that stands first in PATH."""
    files = facts["preflight"].get("conda")
    if not files:
        return []
    return [
        (
            f"conda stands first in PATH after login ({', '.join(files)}): 'python' and its CUDA "
            "libraries are conda's, not this stack's",
            "conda config --set auto_activate_base false, and call TensorFlow's Python by its path",
        )
    ]


FACTS = {"avx": avx, "conda": conda}
RULES = rules_of(
    tensorflow.NAME,
    stops={
        "avx": avx_missing,
        "gpu-without-code": gpu_without_code,
    },
    warns={
        "gpu-translated": gpu_translated,
        "conda": conda_first,
    },
)
