"""Does TensorFlow compute on every card, and right? Of what acceptance/work.py has measured."""

from __future__ import annotations

from statistics import median_high, median_low

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, FAILED, finding, measured, not_applicable, ok
from ..words import in_use
from .names import HOSTS, NAMES, no_room, unasked, unasked_host

if TYPE_CHECKING:
    from typing import Any

MIB = 2**20
# The largest difference of a product from the right one, in root mean squares of that. float32 has
# 24 bits and a sum of 1024 terms errs by some of the last; a float16 is rounded to 11 bits after a
# sum in float32. A CPU also sums in float16.
PRODUCT_ERRORS = {"float32": 1e-4, "float16": 1e-2}
STAND_IN_ERRORS = {"float32": 1e-4, "float16": 1e-1}
# XLA fuses, and rounds in another place.
XLA_ERROR = 1e-4
# A growing TensorFlow takes CUDA's own part, up to about 600 MiB, and a little; without growth it
# would take nearly all of the card at once.
GROWN_SMALL = 0.5
# What half a gibibyte more may cost, in MiB: the allocator takes powers of two.
GROWN_LARGE = (512, 1536)
# The share of a training's time in which the card waits for a tuned input.
STARVING = 0.5
# A warm card clocks lower than a cold one, by a tenth at most where it is cooled.
SLOWED = 0.8
ONLY_REAL = "only a real GPU can show it"
STACK = "look at the stack: provision verify --limit HOST; provision doctor --limit HOST"


def fault(card: dict[str, Any], program: str) -> dict[str, Any] | None:
    """The finding where a program has no facts of this card; None where it has."""
    work = card["work"]
    answer = work["answers"].get(program)
    if answer is None and work["skipped"]:
        return not_applicable("not loaded: {0}".format(work["skipped"]))
    if answer is None:
        return not_applicable(unasked(work["answers"], program, work["late"]) or ONLY_REAL)
    room = no_room(program, answer)
    if room or answer["error"] is None:
        return room
    reason = "{0} failed: {1}".format(NAMES[program], answer["error"])
    if program in work["everywhere"]:
        return finding(FAILED, reason, answer["log"], action="configure", how=STACK)
    return finding(FAILED, reason, answer["log"], action="reset")


def right(card: dict[str, Any], program: str, words: str) -> dict[str, Any]:
    """`words`, and where the first of two tries failed what that said."""
    first = card["work"]["answers"][program].get("first")
    if not first:
        return ok(words)
    if first["error"]:
        return ok(words, evidence=["the first of two tries failed: " + first["error"]])
    reason = "{0}; wrong once, and right when tried again".format(words)
    return finding(DEGRADED, reason, action="watch")


def product(card: dict[str, Any]) -> dict[str, Any]:
    """Products of matrices are right, and the same each time."""
    broken = fault(card, "product")
    if broken:
        return broken
    facts = card["work"]["answers"]["product"]["facts"]
    limits = PRODUCT_ERRORS if card["work"]["kind"] == "GPU" else STAND_IN_ERRORS
    for kind, limit in sorted(limits.items()):
        error, differing = facts[kind]["error"], facts[kind]["differing"]
        # NaN is below and above nothing.
        if not error <= limit:
            reason = "a wrong product in {0}: off by {1:.2g}".format(kind, error)
            return finding(FAILED, reason, action="service", threshold=limit, source="IEEE 754")
        if differing:
            reason = "{0} of 10 equal products in {1} are not the same".format(differing, kind)
            return finding(FAILED, reason, action="service")
    return right(card, "product", "products in float32 and float16 are right")


def rated(card: dict[str, Any], reason: str, name: str, value: float, unit: str) -> dict[str, Any]:
    """A rate that like cards and earlier acceptances are compared with; a stand-in's with none."""
    figure = {"name": name, "value": value, "unit": unit, "better": "higher"}
    entry = measured(reason, figure=figure)
    if card["work"]["kind"] != "GPU":
        entry["stand_in"] = True
    return entry


# {type: the figure's name}: of the catalog's, where it has the model's. A card without tensor cores
# has none of the second, and is compared with its like alone.
RATES = {"float32": "fp32_tflops", "float16": "fp16_tensor_tflops"}


def rate(kind: str) -> Any:
    """The check of how fast products of this type are."""

    def check(card: dict[str, Any]) -> dict[str, Any]:
        broken = fault(card, "product")
        if broken:
            return not_applicable(broken["reason"])
        value = card["work"]["answers"]["product"]["facts"][kind]["tflops"]
        words = "{0:.3g} TFLOP/s in {1}".format(value, kind)
        return rated(card, words, RATES[kind], value, "TFLOP/s")

    return check


def copied(direction: str, words: str) -> Any:
    """The check of how fast data goes between the host and the card."""

    def check(card: dict[str, Any]) -> dict[str, Any]:
        rates = card["work"]["copied"]
        if rates is None:
            why = unasked({}, "copies", card["work"]["late"]) or "nothing was copied"
            return not_applicable(why)
        value = rates[direction]
        name = "copy_{0}_gb_per_s".format(direction)
        return rated(card, "{0:.3g} GB/s {1}".format(value, words), name, value, "GB/s")

    return check


def pattern(card: dict[str, Any]) -> dict[str, Any]:
    """What was written into the card's memory is read back."""
    broken = fault(card, "pattern")
    if broken:
        return broken
    facts = card["work"]["answers"]["pattern"]["facts"]
    words = "{0:.0f} MiB of memory".format(facts["bytes"] / MIB)
    if facts["wrong"]:
        reason = "{0} wrong numbers in {1}".format(facts["wrong"], words)
        return finding(FAILED, reason, action="service")
    return right(card, "pattern", words + " keep what is written")


def growth(card: dict[str, Any]) -> dict[str, Any]:
    """TensorFlow takes memory as it needs it, and does not take it twice."""
    broken = fault(card, "growth")
    if broken:
        return broken
    facts = card["work"]["answers"]["growth"]["facts"]
    small, large, again = (facts[name] / MIB for name in ("small", "large", "again"))
    words = "{0:.0f} MiB with little, {1:.0f} with 512 MiB more, {2:.0f} with as much again".format(
        small, large, again
    )
    total = card["memory"]["total"] / MIB if card["memory"] else None
    if total and small > GROWN_SMALL * total:
        reason = "TensorFlow takes the card's memory at once: {0}".format(words)
        return finding(DEGRADED, reason, action="configure", how=STACK)
    least, most = GROWN_LARGE
    if not least <= large - small <= most or again - large > least / 2:
        reason = "TensorFlow's memory does not grow as asked for: {0}".format(words)
        return finding(DEGRADED, reason, action="configure", how=STACK)
    return ok(words)


def xla(card: dict[str, Any]) -> dict[str, Any]:
    """XLA finds what it needs of CUDA, and computes the same."""
    broken = fault(card, "xla")
    if broken:
        return broken
    error = card["work"]["answers"]["xla"]["facts"]["error"]
    if not error <= XLA_ERROR:
        reason = "XLA's result is off by {0:.2g}".format(error)
        return finding(FAILED, reason, action="configure", how=STACK, threshold=XLA_ERROR,
                       source="IEEE 754")  # fmt: skip
    return right(card, "xla", "XLA compiles, and its result is right")


def convolution(card: dict[str, Any]) -> dict[str, Any]:
    """A convolution and its gradient are right, by cuDNN on a GPU."""
    broken = fault(card, "convolution")
    if broken:
        return broken
    facts = card["work"]["answers"]["convolution"]["facts"]
    if not facts["error"] < 0.5:
        reason = "a wrong convolution: off by {0:.2g}".format(facts["error"])
        return finding(FAILED, reason, facts["libraries"], action="service")
    by = " by cuDNN" if facts["libraries"] else ""
    return right(card, "convolution", "a convolution and its gradient{0} are right".format(by))


def pipeline(card: dict[str, Any]) -> dict[str, Any]:
    """With prefetch and a parallel map the card seldom waits for its input."""
    broken = fault(card, "pipeline")
    if broken:
        return broken
    facts = card["work"]["answers"]["pipeline"]["facts"]
    tuned, plain = facts["tuned"], facts["plain"]
    evidence = [
        "{0}: {1:.1f} steps a second, {2:.0f} % of the time without input".format(
            name, entry["steps"], 100 * entry["idle"]
        )
        for name, entry in (("plain", plain), ("prefetch and parallel map", tuned))
    ]
    words = "waits {0:.0f} % of the time for its input".format(100 * tuned["idle"])
    if tuned["idle"] > STARVING:
        how = "see what else uses the CPUs, and how many this host may use (nproc, cgroups)"
        return finding(
            DEGRADED, words, evidence, action="configure", how=how, threshold=STARVING,
            source="provision",
        )  # fmt: skip
    return ok(words, evidence=evidence)


def burn_in(card: dict[str, Any]) -> dict[str, Any]:
    """At work for long the card makes no error, and keeps its pace."""
    broken = fault(card, "burn")
    if broken:
        return broken
    facts = card["work"]["answers"]["burn"]["facts"]
    paces = facts["paces"]
    words = "{0} products in {1:.0f} minutes".format(facts["products"], facts["seconds"] / 60)
    evidence = []
    if paces:
        evidence = ["{0:.3g} TFLOP/s at first, {1:.3g} at last, {2:.3g} at worst".format(
            paces[0], paces[-1], min(paces))]  # fmt: skip
    if facts["differing"]:
        reason = "{0} wrong of {1}".format(facts["differing"], words)
        return finding(FAILED, reason, evidence, action="service")
    # A stand-in's CPU has other work.
    if card["work"]["kind"] == "GPU" and paces and last(paces) < SLOWED * first(paces):
        reason = "after {0} the card has {1:.0f} % of its pace".format(
            words, 100 * last(paces) / first(paces)
        )
        others = _others(card)
        if others:
            return measured("{0}, and is not alone: {1}".format(reason, others), evidence=evidence)
        how = "look at the cooling and the power supply: nvidia-smi -q -d PERFORMANCE,TEMPERATURE"
        return finding(DEGRADED, reason, evidence, action="service", how=how, threshold=SLOWED,
                       source="provision")  # fmt: skip
    return ok(words + " without an error", evidence=evidence)


def _others(card: dict[str, Any]) -> str | None:
    """Who computes on a card after its burn-in, in words; None where nobody does.

    A process that nobody has any more has just ended, as the burn-in's own.
    """
    at_work = [entry for entry in card["processes"] or () if entry["kind"] == "compute"]
    return in_use([entry["user"] for entry in at_work if entry.get("user")])


def first(paces: list[float]) -> float:
    """The pace of the first fifth, by its median: of several intervals one alone says nothing.

    Of two middle values it is the one that accuses less, here and in `last`: a fifth of a short
    burn-in is two intervals.
    """
    return median_low(paces[: max(1, len(paces) // 5)])


def last(paces: list[float]) -> float:
    """The pace of the last fifth, by its median."""
    return median_high(paces[-max(1, len(paces) // 5) :])


def visible(card: dict[str, Any]) -> dict[str, Any]:
    """CUDA_VISIBLE_DEVICES, by UUID and by index, shows this card and no other."""
    for program, word in (("by_uuid", card["uuid"]), ("by_index", card["index"])):
        broken = fault(card, program)
        if broken:
            return broken
        addresses = card["work"]["answers"][program]["facts"]["addresses"]
        if addresses != [card["pci"]]:
            reason = "with CUDA_VISIBLE_DEVICES={0} TensorFlow sees {1}".format(
                word, ", ".join(addresses) or "no GPU"
            )
            return finding(FAILED, reason, action="configure", how=STACK)
    return ok("CUDA_VISIBLE_DEVICES chooses it, by UUID and by index")


def listed(facts: dict[str, Any]) -> dict[str, Any]:
    """TensorFlow sees the cards that the driver has."""
    work = facts["work"]
    # Said once: the other checks of the host have nothing to say then.
    if work["missing"]:
        return finding(FAILED, work["missing"], action="configure", how=STACK)
    broken = host_fault(facts, "listed")
    if broken:
        return broken
    if work["kind"] != "GPU":
        return not_applicable(ONLY_REAL)
    seen = work["host"]["listed"]["facts"]
    order = work["host"]["listed"]["order"]
    addresses = [work["gpus"][index]["pci"] for index in order]
    if sorted(seen["addresses"]) == sorted(addresses):
        return ok("TensorFlow {0} sees {1} of {1} GPUs".format(seen["version"], len(addresses)))
    if not seen["built_with_cuda"]:
        return finding(
            FAILED, "this TensorFlow was built without CUDA", action="configure", how=STACK
        )
    missing = [address for address in addresses if address not in seen["addresses"]]
    reason = "TensorFlow {0} sees {1} of {2} GPUs".format(
        seen["version"], len(seen["addresses"]), len(addresses)
    )
    evidence = ["not seen: " + address for address in missing]
    return finding(FAILED, reason, evidence, action="configure", how=STACK)


def host_fault(facts: dict[str, Any], program: str) -> dict[str, Any] | None:
    """The finding where a program has no facts of this host; None where it has."""
    work = facts["work"]
    if work["missing"]:
        return not_applicable(work["missing"])
    answer = work["host"].get(program)
    if answer is None:
        return not_applicable(unasked_host(work, program))
    room = no_room(program, answer)
    if room or answer["error"] is None:
        return room
    reason = "{0} failed: {1}".format(NAMES[program], answer["error"])
    return finding(FAILED, reason, answer["log"], action="configure", how=STACK)


# A program that a card was not asked any more.
BROKEN = {"error": "not asked"}
# {program: the check of its answer about a card}
JUDGES = {
    "product": product,
    "pattern": pattern,
    "growth": growth,
    "xla": xla,
    "convolution": convolution,
    "pipeline": pipeline,
    "by_uuid": visible,
    "by_index": visible,
}


def everywhere(cards: dict[str, Any]) -> set[str]:
    """The programs that have no facts of any card: that is not a card's fault."""
    names = {program for answers in cards.values() for program in answers}
    return {
        program
        for program in names
        if all((answers.get(program) or BROKEN)["error"] for answers in cards.values())
    }


def card_work(work: dict[str, Any], index: int) -> dict[str, Any]:
    """The part of acceptance/work.py's answer that the checks of one card read."""
    return {
        "kind": work["kind"],
        "skipped": work["missing"] or work["skipped"].get(str(index)),
        "late": [*work["late"].get(str(index), ()), *work["late"].get(HOSTS, ())],
        "answers": work["cards"].get(str(index)) or {},
        "everywhere": everywhere(work["cards"]),
        "copied": _copied(work, str(index)),
    }


def _copied(work: dict[str, Any], index: str) -> dict[str, Any] | None:
    """{wrong, to, back} of a card, as the program copies.py says; None without."""
    answer = work["host"].get("copies")
    if answer is None or answer["error"] or index not in answer["order"]:
        return None
    entry: dict[str, Any] = answer["facts"]["host"][answer["order"].index(index)]
    return entry


def version(work: dict[str, Any]) -> str | None:
    """The version of TensorFlow that answered; None where none did."""
    facts = (work.get("host", {}).get("listed") or {}).get("facts") or {}
    release: str | None = facts.get("version")
    return release


HOST = (("listed", listed),)
GPU = (
    ("visible", visible),
    ("growth", growth),
    ("product", product),
    ("rate_float32", rate("float32")),
    ("rate_float16", rate("float16")),
    ("copy_to", copied("to", "from the host's memory")),
    ("copy_back", copied("back", "to the host's memory")),
    ("pattern", pattern),
    ("xla", xla),
    ("convolution", convolution),
    ("pipeline", pipeline),
)
# Of the level long.
LONG_GPU = (("burn_in", burn_in),)
