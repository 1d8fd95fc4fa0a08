"""Is every GPU there, and does it answer?"""

from __future__ import annotations

from ...host import gpu_models
from ...type_checking import TYPE_CHECKING
from ..findings import FAILED, finding, not_applicable, ok

if TYPE_CHECKING:
    from typing import Any

# The kernel's driver of a card that a virtual machine has.
PASSED_THROUGH = "vfio-pci"
# {what NVML says of a card: (action, how)}
ERRORS = {
    "GPU needs a reset": ("reset", ""),
    "insufficient power": ("reseat", "switch the host off, and connect the card's power cables"),
    "no permission": ("configure", "let root use the card: see the modes of /dev/nvidia*"),
}


def nvml(facts: dict[str, Any]) -> dict[str, Any]:
    """The driver's NVML answers at all."""
    answer = facts["nvml"]
    if not facts["bus"] and not facts["declared"]:
        return not_applicable("no NVIDIA GPU on the PCI bus")
    if not answer["error"]:
        return ok("driver {0} answers".format(answer["driver"]))
    reason = "NVML does not answer: {0}".format(answer["error"])
    evidence = [line for gpu in here(facts) for line in _errors(gpu, facts)]
    if answer.get("hangs"):
        how = "reboot the host: a driver that hangs does not recover"
        return finding(FAILED, reason, evidence, action="reboot", how=how)
    how = "bring the driver to its lock: ansible-playbook site.yml --limit HOST"
    return finding(FAILED, reason, evidence, action="configure", how=how)


def count(facts: dict[str, Any]) -> dict[str, Any]:
    """As many GPUs on the bus, and in NVML, as the inventory and the bus say."""
    declared = facts["declared"]
    seen, counted = len(here(facts)), len(facts["nvml"]["gpus"])
    if not seen and not declared:
        return not_applicable("no NVIDIA GPU on the PCI bus")
    if seen < declared:
        addresses = ["on the bus: " + gpu["pci"] for gpu in here(facts)]
        reason = "{0} of {1} GPUs are on the PCI bus".format(seen, declared)
        return finding(
            FAILED, reason, addresses, action="reseat", threshold=declared, source="inventory"
        )
    if declared and seen > declared:
        reason = "gpu_count says {0}, and {1} GPUs are on the PCI bus".format(declared, seen)
        how = "correct gpu_count in the inventory"
        return finding(
            FAILED, reason, action="configure", how=how, threshold=declared, source="inventory"
        )
    if facts["nvml"]["error"]:
        return not_applicable("NVML does not answer; {0} on the PCI bus".format(_gpus(seen)))
    missing = uncounted(facts)
    if missing:
        evidence = [line for gpu in missing for line in (_place(gpu), *_errors(gpu, facts))]
        reason = "NVML counts {0} of {1} GPUs on the PCI bus".format(counted, seen)
        return finding(FAILED, reason, evidence, action="reboot", threshold=seen, source="host")
    return ok("{0} on the PCI bus and in NVML".format(_gpus(seen)), threshold=seen, source="host")


def models(facts: dict[str, Any]) -> dict[str, Any]:
    """The GPUs on the bus are of the models that the inventory says, and each model is there."""
    devices_of: dict[str, list[str] | None] | None = facts["models"]
    if not devices_of:
        return not_applicable("gpu_models says nothing")
    known = {word: set(ids) for word, ids in devices_of.items() if ids is not None}
    unknown = [word for word in devices_of if word not in known]
    if unknown:
        words = ", ".join(unknown)
        return not_applicable("the lock knows nothing of {0}: run provision lock".format(words))
    gpus = here(facts)
    meant = set().union(*known.values())
    strange = [gpu for gpu in gpus if gpu_models.bare(gpu["device"]) not in meant]
    devices = {gpu_models.bare(gpu["device"]) for gpu in gpus}
    absent = [word for word, ids in known.items() if not devices & ids]
    wanted = ", ".join(devices_of)
    if not strange and not absent:
        return ok("as gpu_models says: {0}".format(wanted))
    reason = "gpu_models says {0}, and there is {1}".format(
        wanted, "; ".join(_card(gpu, facts) for gpu in strange) or "no " + ", ".join(absent)
    )
    how = "see who changed the cards; correct gpu_models in the inventory, then run provision lock"
    return finding(FAILED, reason, action="configure", how=how)


def here(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The GPUs on the bus that are this host's own: not those that a virtual machine has."""
    return [gpu for gpu in facts["bus"] if gpu["driver"] != PASSED_THROUGH]


def uncounted(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Those on the bus that NVML does not count; lost ones are counted and have no address."""
    addresses = {gpu.get("pci") for gpu in facts["nvml"]["gpus"]}
    missing = [gpu for gpu in here(facts) if gpu["pci"] not in addresses]
    lost = [gpu for gpu in facts["nvml"]["gpus"] if gpu["error"]]
    return missing if len(missing) > len(lost) else []


def answers(gpu: dict[str, Any]) -> dict[str, Any]:
    """The card answers its driver."""
    if not gpu["error"]:
        return ok("answers")
    reason = "the card does not answer: {0}".format(gpu["error"])
    action, how = ERRORS.get(gpu["error"], ("reboot", ""))
    return finding(FAILED, reason, action=action, how=how)


def _gpus(number: int) -> str:
    return "{0} GPU{1}".format(number, "" if number == 1 else "s")


def _card(gpu: dict[str, Any], facts: dict[str, Any]) -> str:
    """ "NVIDIA A100 (10de:20b0) at 0000:17:00.0, slot 4, GPU-8f2a..."; name and UUID by NVML."""
    named = (entry for entry in facts["nvml"]["gpus"] if entry.get("pci") == gpu["pci"])
    details: dict[str, Any] = next(named, {})
    slot = "slot {0}".format(gpu["slot"]) if gpu["slot"] else None
    place = ", ".join(filter(None, (gpu["pci"], slot, details.get("uuid"))))
    device = gpu_models.bare(gpu["device"])
    return "{0} (10de:{1}) at {2}".format(details.get("name") or "a card", device, place)


def _place(gpu: dict[str, Any]) -> str:
    slot = ", slot {0}".format(gpu["slot"]) if gpu["slot"] else ""
    driver = "no driver" if gpu["driver"] is None else "the driver {0}".format(gpu["driver"])
    return "not in NVML: {0}{1}, which {2} has".format(gpu["pci"], slot, driver)


def _errors(gpu: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """The last error in the kernel's log of a card that NVML says nothing of."""
    xids = [xid for xid in (facts["log"] or {}).get("xids") or [] if xid["pci"] == gpu["pci"]]
    return ["{pci}: Xid {number}: {message}".format(**xid) for xid in xids[-1:]]


HOST = (("nvml", nvml), ("count", count), ("models", models))
GPU = (("answers", answers),)
