"""What the PCI bus says of every NVIDIA GPU, with or without a driver."""

from __future__ import annotations

import re
import struct

from ..host import platform
from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from ..host.context import Context

GROUPS = "/sys/kernel/iommu_groups"
SLOTS = "/sys/bus/pci/slots"
# PCI Express Base Specification: extended capabilities begin at 0x100 of the configuration space;
# Access Control Services are 0x000d, its control register 6 bytes into it. Bits 2 and 3: requests
# and completions between devices below the bridge are sent up to the root complex.
EXTENDED, ACS, ACS_CONTROL = 0x100, 0x000D, 6
REDIRECTS = 0b1100
SPACE = 4096
# The kernel shows so many bytes of it to other users than root.
WITHOUT_RIGHTS = 64
# {GT/s of a link: the PCI Express generation}
GENERATIONS = {"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16": 4, "16.0": 4, "32": 5,
               "32.0": 5, "64": 6, "64.0": 6}  # fmt: skip
ADDRESS = re.compile(r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


def look(context: Context) -> list[dict[str, Any]]:
    """Every GPU: {pci, device, driver, slot, numa_node, generation, width, bridges, hidden, iommu}.

    `generation` and `width` are what the card and its slot can do together, as {now, possible};
    None where the kernel does not say. `bridges`: the addresses of those above it whose ACS sends
    traffic between cards through the root complex, `hidden` those of which only root can read it.
    `driver`: the kernel's that has the card, None where none has. `iommu`: the type of its group
    ("identity", "DMA"), or None.
    """
    slots = _slots(context)
    return [_function(context, gpu, slots) for gpu in platform.gpus(context)]


def _function(context: Context, gpu: dict[str, Any], slots: dict[str, str]) -> dict[str, Any]:
    base = "{0}/{1}".format(platform.PCI, gpu["pci"])

    def says(name: str) -> str:
        return (context.read("{0}/{1}".format(base, name)) or "").strip()

    node = says("numa_node")
    group = (context.readlink(base + "/iommu_group") or "").rpartition("/")[2]
    kind = context.read("{0}/{1}/type".format(GROUPS, group)) if group.isdigit() else None
    spaces = {
        address: context.read_bytes("{0}/{1}/config".format(platform.PCI, address), SPACE) or b""
        for address in above(context.resolve(base) or "")
    }
    return {
        "pci": gpu["pci"],
        "device": gpu["device"],
        "driver": (context.readlink(base + "/driver") or "").rpartition("/")[2] or None,
        "slot": slots.get(gpu["pci"].rpartition(".")[0]),
        "numa_node": int(node) if re.match(r"^-?\d+$", node) else None,
        "generation": {
            "now": generation(says("current_link_speed")),
            "possible": generation(says("max_link_speed")),
        },
        "width": {
            "now": _width(says("current_link_width")),
            "possible": _width(says("max_link_width")),
        },
        "bridges": [address for address, space in spaces.items() if redirects(space)],
        "hidden": [address for address, space in spaces.items() if len(space) <= WITHOUT_RIGHTS],
        "iommu": (kind or "").strip() or None,
    }


def generation(speed: str) -> int | None:
    """The PCI Express generation of a link's speed, "8.0 GT/s PCIe"."""
    return GENERATIONS.get(speed.split(" ")[0])


def _width(text: str) -> int | None:
    """Lanes; the kernel says 0 or 63 for a link that is down."""
    return int(text) if text.isdigit() and 0 < int(text) <= 32 else None


def _slots(context: Context) -> dict[str, str]:
    """{"0000:17:00": the slot's number on the case}."""
    slots = {}
    for name in context.listdir(SLOTS):
        address = (context.read("{0}/{1}/address".format(SLOTS, name)) or "").strip()
        if address:
            slots[address] = name
    return slots


def above(path: str) -> list[str]:
    """The bridges above a device by its real path in /sys/devices, from the root down."""
    return [part for part in path.split("/")[:-1] if ADDRESS.match(part)]


def redirects(space: bytes) -> bool:
    """Whether a bridge's ACS redirects traffic between cards, by its configuration space."""
    offset, seen = EXTENDED, set()
    while offset >= EXTENDED and offset + 8 <= len(space) and offset not in seen:
        seen.add(offset)
        header = struct.unpack_from("<I", space, offset)[0]
        if header & 0xFFFF == ACS:
            control: int = struct.unpack_from("<H", space, offset + ACS_CONTROL)[0]
            return bool(control & REDIRECTS)
        offset = header >> 20
    return False
