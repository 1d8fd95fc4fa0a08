"""What newer drivers say of a card's health themselves; None where one does not say it.

Names, numbers and structures are those of nvml.h of CUDA 13.3
(https://github.com/NVIDIA/go-nvml/blob/2f9e261fe40a7a1c54783d66805e8920564763b4/gen/nvml/nvml.h).
Since when each is there: https://docs.nvidia.com/deploy/nvml-api/change-log.html; of what that does
not name, the first nvml.h with it in the same repository (banks: of CUDA 11.1).
"""

from __future__ import annotations

import ctypes

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .nvml import Library

# What `read` returns; facts that an earlier version has recorded lack them.
KEYS = ("recovery", "repairs", "sram", "banks", "unrepairable")
SUCCESS = 0
# NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, since 565; before, the numbers of fields ended at 229.
RECOVERY_ACTION = 230
# {nvmlValueType_t: the member of nvmlValue_t that has the value}, of numbers without a sign
MEMBERS = {1: "unsigned", 3: "large"}
# How many of its spare rows a bank of memory has left, in nvidia-smi's words.
BANKS = ("max", "high", "partial", "low", "none")


class Value(ctypes.Union):
    """nvmlValue_t, as far as numbers without a sign go."""

    _fields_ = [("unsigned", ctypes.c_uint), ("large", ctypes.c_ulonglong)]


class Field(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [
        ("id", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong), ("kind", ctypes.c_int), ("result", ctypes.c_int),
        ("value", Value),
    ]  # fmt: skip


class Sram(ctypes.Structure):
    """nvmlEccSramErrorStatus_v1_t."""

    _fields_ = [
        ("version", ctypes.c_uint),
        *(
            (name, ctypes.c_ulonglong)
            for name in (
                "parity_ever", "secded_ever", "corrected_ever", "parity", "secded", "corrected",
                "l2", "sm", "pcie", "microcontroller", "other",
            )
        ),
        ("exceeded", ctypes.c_uint),
    ]  # fmt: skip


class Repairs(ctypes.Structure):
    """nvmlRepairStatus_v1_t."""

    _fields_ = [(name, ctypes.c_uint) for name in ("version", "channel", "tpc")]


class Banks(ctypes.Structure):
    """nvmlRowRemapperHistogramValues_t: how many banks have all, most... none of their spare rows.

    What was remapped for errors that could be corrected does not count: such rows can be had back
    (https://docs.nvidia.com/deploy/nvidia-smi/).
    """

    _fields_ = [(name, ctypes.c_uint) for name in BANKS]


def read(library: Library, handle: ctypes.c_void_p) -> dict[str, Any]:
    """KEYS of one GPU. Raises NvmlError for a lost one.

    recovery: nvmlDeviceGpuRecoveryAction_t (565); repairs: {channel, tpc}, whether one waits (580);
    sram: {exceeded, parity_ever, secded_ever} (535; for root alone); banks: {max, high,
    partial, low, none} (455); unrepairable: 1 where memory can't be repaired (590, and 580.159
    already).
    """
    return {
        "recovery": recovery(library, handle),
        "repairs": _repairs(library, handle),
        "sram": _sram(library, handle),
        "banks": _banks(library, handle),
        # nvmlUnrepairableMemoryStatus_v1_t is this one number.
        "unrepairable": library.numbers("nvmlDeviceGetUnrepairableMemoryFlag_v1", handle),
    }


def recovery(library: Library, handle: ctypes.c_void_p) -> int | None:
    """nvmlDeviceGpuRecoveryAction_t: what the driver asks for, 0 for nothing."""
    field = Field(id=RECOVERY_ACTION)
    answered = library.ask("nvmlDeviceGetFieldValues", handle, 1, ctypes.byref(field))
    # The call succeeds where the driver does not know the field: that is said of the field alone.
    if not answered or field.result != SUCCESS or field.kind not in MEMBERS:
        return None
    return int(getattr(field.value, MEMBERS[field.kind]))


def _repairs(library: Library, handle: ctypes.c_void_p) -> dict[str, bool] | None:
    status = Repairs(version=_version(Repairs))
    if not library.ask("nvmlDeviceGetRepairStatus", handle, ctypes.byref(status)):
        return None
    return {"channel": bool(status.channel), "tpc": bool(status.tpc)}


def _sram(library: Library, handle: ctypes.c_void_p) -> dict[str, int] | None:
    status = Sram(version=_version(Sram))
    if not library.ask("nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(status)):
        return None
    return {name: getattr(status, name) for name in ("exceeded", "parity_ever", "secded_ever")}


def _banks(library: Library, handle: ctypes.c_void_p) -> dict[str, int] | None:
    """None too where there is no bank: nvml.h names no error for a card that remaps no rows."""
    banks = Banks()
    answered = library.ask("nvmlDeviceGetRowRemapperHistogram", handle, ctypes.byref(banks))
    counts = {name: getattr(banks, name) for name in BANKS}
    return counts if answered and any(counts.values()) else None


def _version(kind: type[ctypes.Structure]) -> int:
    """NVML_STRUCT_VERSION of a structure's first version."""
    return ctypes.sizeof(kind) | 1 << 24
