"""Turns the output of NVIDIA's programs and TensorFlow into what is wrong and what cures it.

Pure functions over texts. Every pattern is a sentence that a real program prints, with its source
beside it. Without this module a failed check would show 60 lines of log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .cures import RUN


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong, in one sentence, and what cures it."""

    message: str
    hint: str = ""


# (pattern, message, hint); the first that matches wins. `{1}` is the pattern's first group.
NVIDIA_SMI: tuple[tuple[str, str, str], ...] = (
    (
        # nvidia-smi, after an unattended upgrade of the libraries alone.
        r"Driver/library version mismatch",
        "the driver's libraries and the loaded kernel module have different versions "
        "(Driver/library version mismatch)",
        "reboot the host, so that the module of the installed version is loaded; if it comes "
        "back, something upgrades the libraries behind your back: `apt-mark showhold` must list "
        "the locked packages",
    ),
    (
        r"Mismatch in versions between nvidia-smi and NVML",
        "nvidia-smi and libnvidia-ml.so.1 come from different driver versions",
        RUN + "; look for a second driver "
        "(`ldconfig -p | grep nvidia-ml`, `ls /usr/bin/nvidia-uninstall`)",
    ),
    (
        r"couldn't communicate with the NVIDIA driver|couldn't communicate with NVIDIA driver",
        "nvidia-smi can't reach the kernel module",
        "`dkms status` and `modinfo nvidia-current` show whether the module was built for the "
        "running kernel; if it was built for another, reboot into that kernel",
    ),
    (
        r"[Nn]o devices were found",
        "the driver is loaded but sees no GPU",
        "`dmesg | grep -i nvrm` says why: a GPU this driver branch doesn't know, a fallen-off "
        "bus, or power",
    ),
    (
        r"Unable to determine the device handle for (?:GPU|gpu)\s*([0-9A-Fa-f:.]*[0-9A-Fa-f])",
        "GPU {1} does not answer the driver",
        "`dmesg | grep -i xid` shows the fault; a GPU that fell off the bus needs a power cycle",
    ),
    (
        r"Failed to initialize NVML: Insufficient Permissions",
        "this user may not open /dev/nvidia*",
        "add the user to the group that owns /dev/nvidia0 (`ls -l /dev/nvidia*`)",
    ),
    (
        r"Failed to initialize NVML: (.+)",
        "NVML, the driver's library, does not start: {1}",
        "`ldconfig -p | grep libnvidia-ml` must show one library, of the locked version",
    ),
    (
        r"nvidia-smi: command not found|nvidia-smi: not found",
        "nvidia-smi is not installed",
        RUN,
    ),
)

TENSORFLOW: tuple[tuple[str, str, str], ...] = (
    (
        # TF built for numpy 1 (before 2.18) under numpy 2: facts.md 4.10; tensorflow#90245.
        r"_ARRAY_API not found|compiled using NumPy 1\.x|numpy\.core\.multiarray failed to import"
        r"|Unable to convert function return value to a Python type",
        "this TensorFlow was built for NumPy 1, and the environment has NumPy 2",
        f"somebody ran pip in the environment (the lock has numpy<2): {RUN}",
    ),
    (
        # protobuf 4 under generated code of protobuf 3: tensorflow#56266.
        r"Descriptors cannot (?:not )?be created directly"
        r"|cannot import name 'builder' from 'google\.protobuf",
        "the environment's protobuf is not the one this TensorFlow was built for",
        f"somebody ran pip in the environment (the lock has protobuf<3.20): {RUN}",
    ),
    (
        r"Illegal instruction|rc -4\b|compiled to use AVX\S* instructions",
        "TensorFlow's wheel uses AVX, and this processor has none",
        "no wheel of TensorFlow runs here; in a virtual machine, choose a CPU model with AVX",
    ),
    (
        r"No module named '?([\w.]+)'?",
        "the environment lacks the Python module {1}",
        RUN,
    ),
    (
        r"ImportError: (\S+\.so\S*): cannot open shared object file",
        "TensorFlow needs {1}, and the loader can't find it",
        RUN,
    ),
    (
        # The probe kills it with signal 9, so this comes before the rule for rc -9.
        r"no answer within (\d+) s",
        "TensorFlow did not answer within {1} s",
        "a GPU that hangs, or a very slow disk: try it by hand on the host",
    ),
    (
        # rc -9: the kernel's out-of-memory killer.
        r"rc -9\b|MemoryError|Cannot allocate memory",
        "the host has too little memory to import TensorFlow",
        "TensorFlow needs about 1 GB free",
    ),
    (
        r"No space left on device",
        "the disk is full",
        "free some space on the host",
    ),
)

# dso_loader.cc of TF 2.x: "Could not load dynamic library 'libcusolver.so.11'; dlerror: ..."
MISSING_LIBRARY = re.compile(r"Could not load dynamic library '([^']+)'(?:; dlerror: ([^\n;]+))?")
# cuda_dnn.cc: "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0."
CUDNN_OLDER = re.compile(
    r"Loaded runtime CuDNN library: ([\d.]+) but source was compiled with: ([\d.]+?)\.?(?:\s|$)"
)
# Warned about on every host without TensorRT; TensorFlow works without it.
OPTIONAL = ("libnvinfer", "libnvinfer_plugin")


def first_match(rules: tuple[tuple[str, str, str], ...], text: str) -> Diagnosis | None:
    """The diagnosis of the first rule whose pattern is in the text; None without a match."""
    for pattern, message, hint in rules:
        match = re.search(pattern, text)
        if match:
            for number, group in enumerate(match.groups(), 1):
                message = message.replace(f"{{{number}}}", group.strip())
            return Diagnosis(message, hint)
    return None


def last_line(text: str) -> str:
    """The last line that is not blank, where programs put the reason; "" without any."""
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def missing_libraries(log: str) -> list[str]:
    """Sonames that TensorFlow's log says could not be loaded, without TensorRT's optional ones."""
    names = dict.fromkeys(match.group(1) for match in MISSING_LIBRARY.finditer(log))
    return [name for name in names if name.partition(".so")[0] not in OPTIONAL]


def nvidia_smi(rc: int, output: str) -> Diagnosis:
    """Why nvidia-smi failed (its messages go to stdout as often as to stderr)."""
    diagnosis = first_match(NVIDIA_SMI, output)
    if diagnosis:
        return diagnosis
    return Diagnosis(f"nvidia-smi ended with {rc}: {last_line(output) or 'it said nothing'}")


def tensorflow_import(rc: int | None, error: str, log: str) -> Diagnosis:
    """Why `import tensorflow` failed. Searches the log too: numpy prints the cause there."""
    diagnosis = first_match(TENSORFLOW, f"{error}\n{log}\nrc {rc}")
    if diagnosis:
        return diagnosis
    reason = error or last_line(log) or f"its process ended with {rc}"
    return Diagnosis(
        f"TensorFlow can't be imported: {reason}",
        RUN,
    )


def tensorflow_gpus(log: str, listed: int, expected: int) -> Diagnosis:
    """Why TensorFlow lists fewer GPUs than the driver, from TensorFlow's own log."""
    counted = f"TensorFlow lists {listed} of {expected} GPUs"
    missing = missing_libraries(log)
    if missing:
        return Diagnosis(
            f"{counted}: it could not load {', '.join(missing)}",
            f"TensorFlow takes no GPU at all when one of its libraries is missing: {RUN}",
        )
    # gpu_device.cc; since 2.14 without the library's name, unless TF_CPP_MAX_VLOG_LEVEL is set.
    if "Cannot dlopen some GPU libraries" in log:
        return Diagnosis(
            f"{counted}: it could not load one of CUDA's libraries, and does not say which",
            f"{RUN}; LD_LIBRARY_PATH may put others in front",
        )
    older = CUDNN_OLDER.search(log)
    if older:
        return Diagnosis(
            f"{counted}: cuDNN {older.group(1)} was loaded, but it was built with {older.group(2)}",
            "another cuDNN comes first in the loader's order (LD_LIBRARY_PATH, conda, a deb)",
        )
    if "CUDA_ERROR_NO_DEVICE" in log:
        return Diagnosis(
            f"{counted}: CUDA sees no device (CUDA_ERROR_NO_DEVICE)",
            "CUDA_VISIBLE_DEVICES may hide them, or /dev/nvidia* may be missing",
        )
    # cuda_diagnostics.cc: "kernel version 470.256.2 does not match DSO version 535.309.1"
    if "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in log or "does not match DSO version" in log:
        return Diagnosis(
            f"{counted}: libcuda.so.1 and the loaded kernel module have different versions",
            "reboot the host",
        )
    if "CUDA_ERROR_COMPAT_NOT_SUPPORTED" in log:
        return Diagnosis(
            f"{counted}: a CUDA forward-compatibility library is in the way on this GPU",
            "take /usr/local/cuda*/compat out of LD_LIBRARY_PATH",
        )
    failed = re.search(r"failed call to cuInit: (\S+)", log)
    if failed:
        return Diagnosis(
            f"{counted}: CUDA does not start ({failed.group(1).rstrip(':')})",
            "`nvidia-smi` and `dmesg | grep -i nvrm` show the driver's messages",
        )
    ignored = re.search(r"Ignoring visible gpu device \((.+?)\)[^\n]*?with ([^\n]+)", log)
    if ignored:
        return Diagnosis(
            f"{counted}: it ignores a GPU with {ignored.group(2).strip()}",
            "this TensorFlow was not built for that GPU's generation",
        )
    return Diagnosis(counted, "TensorFlow's log has no reason that is known here")


def memory_taken(answer: Mapping[str, Any]) -> bool:
    """Did it run out of GPU memory, which other processes hold? That is no fault of the stack."""
    words = r"OUT_OF_MEMORY|ResourceExhausted|out of memory"
    return bool(re.search(words, f"{answer.get('error')}\n{answer['log']}"))


def tensorflow_computes(answer: Mapping[str, Any]) -> Diagnosis:
    """Why TensorFlow, which lists its GPUs, could not compute on them."""
    output = f"{answer.get('error')}\n{answer['log']}"
    no_code = r"INVALID_PTX|NO_BINARY_FOR_GPU|no kernel image|PTX version"
    if re.search(no_code, output):
        return Diagnosis(
            "TensorFlow lists the GPU and can't compute on it: it has no code for it",
            "this TensorFlow was not built for that GPU's generation; `provision catalog --gpu` "
            "shows which is",
        )
    if "no answer within" in output:
        return Diagnosis(
            "TensorFlow did not finish a matrix product on the GPU in time",
            "for a GPU that it has no machine code for the driver translates it first, and keeps "
            "the result: verify again; else see `dmesg | grep -i -e nvrm -e xid`",
        )
    return Diagnosis(
        f"TensorFlow can't compute on the GPU: {answer.get('error') or last_line(answer['log'])}",
        "`nvidia-smi` and `dmesg | grep -i -e nvrm -e xid` show the driver's messages",
    )
