"""What the driver itself says is to be done for a card.

https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html and
https://docs.nvidia.com/deploy/nvidia-smi/ (GPU Recovery Action) describe the first five; Xid 154
says the same in the kernel's log, and provision/catalog/xids.yml judges it alike.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, FAILED, finding, not_applicable, ok

if TYPE_CHECKING:
    from typing import Any

# {nvmlDeviceGpuRecoveryAction_t: (what it asks for, state, action, how)}
ASKED = {
    1: ("a reset of the card", FAILED, "reset", ""),
    2: (
        "a reboot of the host", FAILED, "reboot",
        "reboot the host: its operating system may be inconsistent",
    ),
    3: (
        "an end of all traffic between GPUs", DEGRADED, "watch",
        "end the programs that use several GPUs, switch persistence mode off, and ask again: the "
        "driver then says what else; if it says the same, reset the card",
    ),
    4: (
        "no new work, and a reset when the present work is done", DEGRADED, "reset",
        "give the card no new work; when the present work is done: "
        "sudo nvidia-smi --gpu-reset -i {uuid}; else reboot",
    ),
}  # fmt: skip
# {a newer one: (what it asks for, action)}, of which NVIDIA says no more than a few words; 5 is
# there since 595, 6 and 7 since 615: DeviceGpuRecoveryAction in https://nvidia.github.io/cuda-python
NAMED = {
    5: ("a recovery of the IMEX domain", "reset"),
    6: ("a reset of the card's PCIe bus", "reset"),
    7: ("a reboot of the system", "reboot"),
}
LOOK_UP = (
    "do what nvidia-smi -q -i {uuid} names as GPU Recovery Action; where that says nothing to you, "
    "reset the card, else reboot"
)
REPAIRS = {"channel": "a channel of its memory", "tpc": "a TPC"}


def recovery(gpu: dict[str, Any]) -> dict[str, Any]:
    """The driver asks for nothing, and no repair waits for a reset."""
    asked, repairs = gpu["recovery"], gpu["repairs"] or {}
    waiting = [words for name, words in REPAIRS.items() if repairs.get(name)]
    evidence = ["the repair of {0} waits for a reset".format(words) for words in waiting]
    if asked:
        words, action = NAMED.get(asked, ("recovery action {0}".format(asked), "reset"))
        words, state, action, how = ASKED.get(asked, (words, FAILED, action, LOOK_UP))
        reason = "the driver asks for {0}".format(words)
        return finding(state, reason, evidence, action=action, how=how)
    if waiting:
        # As Xid 156, which says that such a repair was recorded: its reset activates it.
        return finding(DEGRADED, evidence[0], evidence[1:], action="reset")
    if asked is None:
        return not_applicable("the driver does not say")
    return ok("the driver asks for nothing")


GPU = (("recovery", recovery),)
