"""What of the host itself breaks or slows work on several cards."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, finding, measured, not_applicable, ok
from .presence import here

if TYPE_CHECKING:
    from typing import Any

SHARED_MEMORY = "/dev/shm"  # noqa: S108  where NCCL has it
ONE_GPU = "concerns hosts with several GPUs"
# docker's default, with which NCCL fails: https://github.com/tensorflow/tensorflow/issues/44637
TOO_LITTLE = 64 * 1024 * 1024


def acs(facts: dict[str, Any]) -> dict[str, Any]:
    """No bridge sends what one card writes to another through the root complex.

    NaN in the gradients of MirroredStrategy where one does:
    https://github.com/tensorflow/tensorflow/issues/57893
    """
    gpus = here(facts)
    if len(gpus) < 2:
        return not_applicable(ONE_GPU)
    bridges = sorted({address for gpu in gpus for address in gpu["bridges"]})
    hidden = sorted({address for gpu in gpus for address in gpu["hidden"]})
    if hidden and not bridges:
        words = "only root can read the settings of bridge {0}"
        return not_applicable(words.format(", ".join(hidden)))
    if not bridges:
        return ok("no bridge above the GPUs redirects their traffic (PCIe ACS)")
    how = (
        "switch ACS off in the firmware, or at each boot: "
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"
    )
    return finding(
        DEGRADED,
        "PCIe ACS redirects traffic between GPUs, which corrupts or slows training on several",
        ["bridge " + address for address in bridges],
        action="configure",
        how=how,
    )


def iommu(facts: dict[str, Any]) -> dict[str, Any]:
    """Whether the IOMMU translates the cards' addresses.

    With it some hosts hang: https://github.com/tensorflow/tensorflow/issues/44976. Most do not, so
    it is reported and not judged.
    """
    gpus = here(facts)
    if len(gpus) < 2:
        return not_applicable(ONE_GPU)
    kinds = sorted({gpu["iommu"] for gpu in gpus if gpu["iommu"]})
    if not kinds or kinds == ["identity"]:
        return ok("the IOMMU does not translate the GPUs' addresses")
    return measured("the IOMMU translates the GPUs' addresses ({0})".format(", ".join(kinds)))


def shared_memory(facts: dict[str, Any]) -> dict[str, Any]:
    """Room in /dev/shm for what NCCL's processes share."""
    if len(here(facts)) < 2:
        return not_applicable(ONE_GPU)
    size = facts["shared_memory"]
    if size is None:
        return not_applicable(SHARED_MEMORY + " can't be measured")
    words = "{0} has {1:.0f} MiB".format(SHARED_MEMORY, size / 2**20)
    if size <= TOO_LITTLE:
        how = "mount -o remount,size=8G {0}, and the same in /etc/fstab".format(SHARED_MEMORY)
        return finding(
            DEGRADED, words, action="configure", how=how, threshold=TOO_LITTLE, source="provision"
        )
    return ok(words, threshold=TOO_LITTLE, source="provision")


HOST = (("acs", acs), ("iommu", iommu), ("shared_memory", shared_memory))
