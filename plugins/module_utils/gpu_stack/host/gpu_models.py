"""Which GPU is of which generation, by the ids that PCI gives."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Sequence


# GPU generations by PCI device id (pci.ids): (first, last, generation).
GENERATIONS = (
    (0x06C0, 0x06DF, "Fermi"),
    (0x0DC0, 0x0F3F, "Fermi"),
    (0x0FC0, 0x0FFF, "Kepler"),
    (0x1001, 0x103F, "Kepler"),
    (0x1040, 0x1179, "Fermi"),
    (0x1180, 0x11FF, "Kepler"),
    (0x1200, 0x125F, "Fermi"),
    (0x1280, 0x130F, "Kepler"),
    (0x1340, 0x143F, "Maxwell"),
    (0x15C0, 0x15FF, "Pascal"),
    (0x1600, 0x167F, "Maxwell"),
    (0x174D, 0x179C, "Maxwell"),
    (0x17C0, 0x17FF, "Maxwell"),
    (0x1B00, 0x1D7F, "Pascal"),
    (0x1D80, 0x1DFF, "Volta"),
    (0x1E00, 0x1FFF, "Turing"),
    (0x2080, 0x20FF, "Ampere"),
    (0x2180, 0x21FF, "Turing"),
    (0x2200, 0x22FF, "Ampere"),
    (0x2300, 0x23FF, "Hopper"),
    (0x2400, 0x25FF, "Ampere"),
    (0x2680, 0x28FF, "Ada"),
    (0x2900, 0x29FF, "Blackwell"),
    (0x2B00, 0x31FF, "Blackwell"),
)


def generation(device: Any) -> str | None:
    """The GPU generation of a PCI device id ("0x1eb8"); None when it is not in the table."""
    try:
        number = int(device, 16)
    except (TypeError, ValueError):
        return None
    for first, last, name in GENERATIONS:
        if first <= number <= last:
            return name
    return None


def generations(gpus: Sequence[dict[str, Any]]) -> list[str]:
    """The generations of these GPUs as far as the table knows them, sorted, without doubles."""
    devices = [gpu.get("device") for gpu in gpus]
    return sorted({name for name in map(generation, devices) if name is not None})


def named(lock: dict[str, Any] | None, words: Sequence[str]) -> dict[str, list[str] | None]:
    """{word of gpu_models: the PCI device ids that it can mean, as "1eb8"}, by the lock's rows.

    None for a word that the lock knows nothing of.
    """
    devices_of: dict[str, Any] = {}
    for row in (lock or {}).get("rows") or []:
        devices_of.update(row.get("models") or {})
    return {word: devices_of.get(word) for word in words}


def bare(device: str) -> str:
    """A PCI device id as the lock has it: "0x1eb8" -> "1eb8"."""
    return device.replace("0x", "")
