"""Power cuts of a virtual machine: how they are drawn from a seed, and what proves the cure.

The machine has everything installed and no card. So a run's last checks fail where they ask the
driver for its GPUs, on every host without a card; all others must pass. What a cut has damaged
is looked for file by file (fault_compare.py), for the run itself does not read every file.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from fault_schedule import EVERY_WOUND, Fault, deal, entry_of, pick, weighted

# {phase: what is done to the host so that a run has it, and how often}
PHASES = {
    "dpkg": ("driver-leaf", "cuda-libraries"),
    "dkms": ("module-uninstalled",),
    "initramfs": ("blacklist-gone",),
    "cudnn": ("cudnn-gone", "cudnn-files"),
    "pip": ("wheels",),
    "configuration": ("env-gone", "driver-files", "cuda-holds", "cudnn-link"),
    "receipt": ("env-gone", "cudnn-link"),
}
# Packages of the lock whose removal takes no others along: nothing is compiled under emulation.
LEAF = ("nvidia-smi", "nvidia-persistenced")
LIBRARIES = ("libcufft10", "libcurand10", "libcupti11.2")
# Where the receipt is written; the cut falls into these seconds after it began. The task takes 13 s
# under emulation.
RECEIPT = ("gpu_state : Receipt | Write what was changed", 13.0)
# What a run takes in the machine before its first step, under emulation.
FACTOR = 3.0
# Checks that fail on every host without a card.
CARD = {"nvidia_driver.answers", "nvidia_driver.module"}


def draw(seed: int, number: int, attempt: int, names: Mapping[str, Sequence[str]]) -> Fault:
    """The cut of a seed and number (from 1): in each seven of them every phase once. Pure.

    A redraw falls earlier: the run, or its phase, was over before the last one.
    """
    during = deal(f"{seed} cuts", number, len(PHASES), list(PHASES))
    rng = random.Random(f"provision cut {seed} {number} {attempt}")  # noqa: S311 (not a secret)
    name = weighted(rng, {key: EVERY_WOUND[key] for key in PHASES[during]})
    picked = pick(rng, name, names)
    watched = "run" if during in ("configuration", "receipt") else during
    variant = "receipt" if during == "receipt" else ""
    return Fault(
        seed, number, attempt, "power", variant, (name,), tuple(picked), (), watched,
        round(rng.random() / 2**attempt, 3),
    )  # fmt: skip


def moment(fault: Fault) -> tuple[str, float] | None:
    """(task, seconds after its beginning) of a cut at the receipt; None for the others. Pure."""
    return (RECEIPT[0], fault.fraction * RECEIPT[1]) if fault.variant == "receipt" else None


def judge(
    code: int, report: Mapping[str, Any] | None, host: str, *, again: bool = False
) -> list[str]:
    """Why a run did not bring the machine to the lock; empty where it did. Pure.

    With `again` the report is a plan's, in which there must be nothing to do but to prove.
    """
    entry, missing = entry_of(code, report, host)
    if missing:
        return missing
    if again:
        more = [change["item"] for change in entry["changes"] if change["component"] != "receipt"]
        wrong = [f"changed again: {', '.join(more[:5])}"] if more else []
        return wrong + [f"in the way: {blocker['message']}" for blocker in entry["blockers"]]
    checks = {check["id"]: check["result"] for check in entry.get("checks") or []}
    failed = {name for name, result in checks.items() if result == "failed"}
    wrong = []
    if not checks:
        message = (entry.get("failure") or {}).get("message") or ""
        wrong.append(f"no check was made; the host is {entry.get('status')}: {message}")
    elif failed != CARD:
        wrong.append("failed: " + ", ".join(sorted(failed)))
    if entry.get("left"):
        wrong.append("left: " + ", ".join(change["item"] for change in entry["left"][:5]))
    return wrong
