"""Parses versions and GPUs out of the outputs that the probe recorded."""

from __future__ import annotations

import re
from typing import Any

from .check import Seen

# The fields of the probe's --query-gpu.
SMI_CELLS = 6


def numbers(version: str) -> tuple[int, ...]:
    """ "8.1.0" as (8, 1, 0); text between the numbers is ignored."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def smi_rows(seen: Seen) -> list[list[str]]:
    """`nvidia-smi --query-gpu=driver_version,name,uuid,pci.bus_id,mig.mode.current,memory.total`
    as cells. Other lines ("WARNING: infoROM is corrupted at gpu ...") are skipped.
    """
    answer = seen.probe["nvidia_smi"]
    if answer["rc"] != 0:
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in answer["stdout"].splitlines()]
    return [row for row in rows if len(row) == SMI_CELLS]


def usable_gpus(seen: Seen) -> int:
    """GPUs that NVML reports, by `nvidia-smi -L`; MIG instances have lines of their own."""
    answer = seen.probe["nvidia_smi_list"]
    if answer["rc"] != 0:
        return 0
    return len(re.findall(r"^GPU \d+:", answer["stdout"], re.MULTILINE))


def mig_gpus(seen: Seen) -> int:
    """GPUs in MIG mode."""
    return sum(row[4] == "Enabled" for row in smi_rows(seen))


def lists_the_gpus(seen: Seen) -> bool:
    """Whether TensorFlow lists as many GPUs as the driver; at least one where any is in MIG mode.

    "CUDA can only enumerate a single compute instance", from R570 on one of each GPU instance:
    https://docs.nvidia.com/datacenter/tesla/mig-user-guide/mig-device-names.html
    """
    listed, usable = len(tensorflow_answer(seen)["gpus"]), usable_gpus(seen)
    return listed == usable or bool(listed and usable and mig_gpus(seen))


def loaded_module(seen: Seen) -> str | None:
    """The version of the loaded kernel module."""
    module = seen.probe["module"]
    if module.get("sys"):
        return str(module["sys"])
    proc = module["proc"]
    match = proc and re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", proc)
    return match.group(1) if match else None


def reason(library: dict[str, Any]) -> str:
    """The loader's error without the exception's name and the soname."""
    error = str(library.get("error") or "the loader says nothing")
    return error.rpartition("Error: ")[2].partition(": ")[2] or error


def nvcc_release(output: str) -> str | None:
    """ "release 11.2, V11.2.152" -> "11.2"."""
    match = re.search(r"release (\d+\.\d+)", output)
    return match.group(1) if match else None


def cudnn_loaded(seen: Seen) -> str | None:
    """cudnnGetVersion()'s number as a version: 8100 is 8.1.0, from cuDNN 9 on 90100 is 9.1.0."""
    answer = (seen.probe.get("cudnn") or {}).get("answer")
    if not answer:
        return None
    value = int(answer)
    if value >= 90000:
        return f"{value // 10000}.{value // 100 % 100}.{value % 100}"
    return f"{value // 1000}.{value // 100 % 10}.{value % 100}"


def gpu_devices(seen: Seen) -> list[dict[str, str]]:
    """Each GPU that NVML reports: name, uuid, address on the PCI bus, memory ("16384 MiB")."""
    return [
        {"name": row[1], "uuid": row[2], "pci": row[3].lower()[-12:], "memory": row[5]}
        for row in smi_rows(seen)
    ]


def tensorflow_answer(seen: Seen) -> dict[str, Any]:
    """The version, build and GPUs that TensorFlow reported; empty without an answer."""
    answer: dict[str, Any] = (seen.probe.get("tensorflow") or {}).get("gpus") or {}
    return answer


def facts(seen: Seen) -> dict[str, Any]:
    """The versions and GPUs that programs reported: the report's `found`."""
    if seen.error:
        return {}
    tensorflow = tensorflow_answer(seen)
    rows = smi_rows(seen)
    values = {
        "nvidia_driver": rows[0][0] if rows else None,
        "gpus": usable_gpus(seen),
        "gpu_names": sorted({row[1] for row in rows}),
        "gpu_devices": gpu_devices(seen),
        "nvcc": nvcc_release(seen.probe["nvcc"]["ssh"]["stdout"]),
        "cudnn": cudnn_loaded(seen),
        "tensorflow": tensorflow.get("version"),
        "tensorflow_gpus": len(tensorflow["gpus"]) if "gpus" in tensorflow else None,
        "python": tensorflow.get("python"),
    }
    return {key: value for key, value in values.items() if value not in (None, [])}
