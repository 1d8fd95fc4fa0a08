"""Processors and GPUs that TensorFlow's wheels do not run on, and a conda in front of them."""

from __future__ import annotations

import os
import re

from ...host import gpu_models, surroundings
from ...host.processes import accounts, text_of
from ...rules import rules_of
from ...tables import TENSORFLOW_TRANSLATED, TENSORFLOW_WITHOUT_CODE
from ...type_checking import TYPE_CHECKING
from .. import tensorflow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Reasons, Row

    Windows = Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]

CONDAS_OWN = "/etc/profile.d/conda.sh"
# In the names of the directories of anaconda, miniconda, miniforge and mambaforge.
CONDAS = ("ana", "mini", "mambaf")
# Characters; people write no longer ones.
LONGEST_LINE = 4096


def callers_home(context: Context) -> dict[str, tuple[str, int, int]]:
    """{home: (name, uid, gid)} of the user who logged in by ssh; {} when that is root."""
    user = os.environ.get("SUDO_USER")
    for name, _password, uid, gid, _words, home, _shell in accounts(context):
        if name == user and uid.isdigit() and gid.isdigit():
            return {home: (name, int(uid), int(gid))}
    return {}


def conda(context: Context) -> list[str]:
    """Login files that put conda's Python in front of the system's."""
    files = [CONDAS_OWN] if text_of(context, CONDAS_OWN) else []
    people = {"/root": ("root", 0, 0), **callers_home(context)}
    people.update(surroundings.homes(accounts(context)))
    return files + surroundings.login_files(context, people, puts_conda_first)


def puts_conda_first(text: str) -> bool:
    """Whether a login file has conda's block, or sets a PATH with the programs of a conda.

    Its user may have written anything: no step takes longer than in proportion to the text.
    """
    lines = [line for line in text.split("\n") if len(line) <= LONGEST_LINE]
    return any("conda initialize" in line or _has_condas_path(line) for line in lines)


def _has_condas_path(line: str) -> bool:
    """Whether a line, outside a comment, has PATH=.../NAME/bin with NAME of a conda."""
    for word in line.split():
        before, _sign, value = word.partition("PATH=")
        if "#" in before:
            return False
        for directory in value.split("/bin")[:-1]:
            name = re.split(r"\W", directory)[-1]
            if any(part in name for part in CONDAS):
                return True
        if "#" in value:
            return False
    return False


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


def within(table: Windows, facts: Facts, version: str) -> list[str]:
    """The generations of the host's GPUs whose window of releases has this TensorFlow."""
    release = _release(version)
    return [
        name
        for name in gpu_models.generations(facts["gpus"])
        if name in table and table[name][0] <= release <= table[name][1]
    ]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def gpu_without_code(facts: Facts, _changes: Changes, _options: Options, row: Row) -> Reasons:
    """Stops on GPUs that this wheel has no code for."""
    version = row["tensorflow"]["version"]
    return [
        (
            f"TensorFlow {version} does not run on a {name} GPU: its wheel has no code for it",
            _with_code(name),
        )
        for name in within(TENSORFLOW_WITHOUT_CODE, facts, version)
    ]


def _with_code(name: str) -> str:
    """What to do about a generation that a wheel has no code for."""
    first = TENSORFLOW_WITHOUT_CODE[name][0]
    # What the driver would translate ends at the first operation on 12.0; 10.0 is not reported.
    if first == min(window[0] for window in TENSORFLOW_WITHOUT_CODE.values()):
        return (
            "take this host out of the group; NVIDIA's own container of TensorFlow has code for "
            "newer GPUs (https://github.com/tensorflow/tensorflow/issues/89272)"
        )
    return "wish for a TensorFlow older than {}.{} on this host".format(*first)


def gpu_translated(facts: Facts, _changes: Changes, _options: Options, row: Row) -> Reasons:
    """Warns of GPUs whose first run waits for the driver's translation."""
    version = row["tensorflow"]["version"]
    # None where the libraries are wheels.
    cuda = (row.get("cuda") or {}).get("release")
    unknown = ""
    # The first CUDA whose libraries have code for Hopper.
    if cuda and _release(cuda) < (11, 8):
        unknown = f", and cuDNN and cuBLAS of CUDA {cuda} do not know it"
    return [
        (
            f"TensorFlow {version} has no code for a {name} GPU: the first run translates for "
            f"half an hour{unknown}",
            "wish for a TensorFlow newer than {}.{} on this host".format(
                *TENSORFLOW_TRANSLATED[name][1]
            ),
        )
        for name in within(TENSORFLOW_TRANSLATED, facts, version)
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
