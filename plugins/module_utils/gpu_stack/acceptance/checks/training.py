"""Does every card train, alone and with the others?

Of what the programs of playbooks/files/acceptance have measured; acceptance/work.py says which.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import BLAMED, DEGRADED, FAILED, OK, finding, measured, not_applicable, ok
from . import computing
from .names import no_room

if TYPE_CHECKING:
    from typing import Any

# Of pictures that a network has not seen. It tells all apart; a guess is right in a tenth.
LEARNT = 0.9
# How far a card's part of the gradient's sum may be from 1. It was within 1e-6 on CPUs; cuDNN's
# sums of float32 are off by less than 1e-4. A card that takes no part has 0.
PART = 0.05
# Each card adds the same sum to the same weights: nothing but a last bit may differ.
APART = 1e-6
# From one device's training with the same batches, after 100 steps, with TF32 off. CPUs were
# within 6e-7, by another order of their sums; cuDNN has other algorithms for other batches, which
# are right to 1e-5 and not to 1e-7. Without one of three cards' gradients it is 0.1.
AGREE = {"GPU": 1e-3, "CPU": 1e-5}
# Of samples of up to a second: a card that trains works in nearly all, a silent one in none.
BUSY = 0.5
SOURCE = "provision"
# Units by which like cards are compared (teaching/rates.py): what a CPU makes differs more from
# day to day than what a card does with it.
IMAGES, FED = "images/s", "fed images/s"
TOGETHER = (
    "switch ACS off on the bridges above the cards, and the IOMMU to pass-through; then try them "
    "with NCCL_P2P_DISABLE=1, which leaves the ways between the cards out"
)


def card_work(work: dict[str, Any], index: int) -> dict[str, Any]:
    """computing.card_work's, with the answers of the programs that all cards were asked."""
    return {**computing.card_work(work, index), "host": work["host"], "index": str(index)}


def learns(card: dict[str, Any]) -> dict[str, Any]:
    """The dense network learns what it can."""
    broken = computing.fault(card, "dense")
    if broken:
        return broken
    facts = card["work"]["answers"]["dense"]["facts"]
    words = "{0:.1f} % right after {1} epochs of the dense network".format(
        100 * facts["accuracy"], facts["epochs"]
    )
    if not facts["accuracy"] >= LEARNT:
        reason = "it does not learn: " + words
        return finding(FAILED, reason, action="service", threshold=LEARNT, source=SOURCE)
    return computing.right(card, "dense", words)


def dense(card: dict[str, Any]) -> dict[str, Any]:
    """How fast the dense network trains, beside the CPU."""
    broken = computing.fault(card, "dense")
    if broken:
        return not_applicable(broken["reason"])
    facts = card["work"]["answers"]["dense"]["facts"]
    words = "{0:.1f} s for {1} epochs of {2} rows".format(
        facts["seconds"], facts["epochs"], facts["rows"]
    )
    beside = (card["work"]["host"].get("dense") or {}).get("facts")
    if beside:
        ratio = facts["rate"] / beside["rate"]
        words += ", {0:.1f} times as fast as the CPU".format(ratio)
    return computing.rated(card, words, "dense_rows", facts["rate"], "rows/s")


def together(card: dict[str, Any]) -> dict[str, Any]:
    """Its gradient is in the sum of all, and its weights are the others'."""
    answer = card["work"]["host"].get("mirrored")
    if culprit(answer, card["work"]["kind"]) == card["work"]["index"]:
        reason = "training fails on all {0} GPUs, and on all but this one it is right".format(
            len(answer["order"])
        )
        return finding(FAILED, reason, _without(answer, card["work"]["kind"]), action="reset")
    mirrored = _mirrored(card)
    if mirrored is None:
        return _why_not(card)
    facts, place = mirrored
    if facts["replicas"] == 1:
        return not_applicable("one GPU trains alone")
    if place in _outside(facts):
        reason = "it brings {0:.2f} of its gradient into a training of {1} GPUs".format(
            facts["shares"][place], facts["replicas"]
        )
        return finding(FAILED, reason, action="reset", threshold=PART, source=SOURCE)
    if place in _odd(facts):
        reason = "after 100 steps its weights differ from the others' by {0:.1g}".format(
            facts["apart"][place]
        )
        return finding(FAILED, reason, action="reset", threshold=APART, source=SOURCE)
    return ok("its gradient is in the sum of all {0}".format(facts["replicas"]))


def busy(card: dict[str, Any]) -> dict[str, Any]:
    """It works while all train."""
    mirrored = _mirrored(card)
    if mirrored is None:
        return _why_not(card)
    facts, place = mirrored
    share = facts["busy"][place]
    if share is None:
        return not_applicable("only a real GPU can show it")
    words = "in {0:.0f} % of NVML's samples it worked, while all trained".format(100 * share)
    if share < BUSY:
        return finding(FAILED, words, action="reset", threshold=BUSY, source=SOURCE)
    return ok(words)


def resnet(card: dict[str, Any]) -> dict[str, Any]:
    """How many images a second ResNet-50 trains with on this card alone."""
    broken = computing.fault(card, "resnet")
    if broken:
        return broken
    return _rate(card, "float32 1", "resnet50", "in float32")


def variant(label: str, name: str, words: str, unit: str = IMAGES) -> Any:
    """The check of ResNet-50's rate in another way."""

    def check(card: dict[str, Any]) -> dict[str, Any]:
        broken = computing.fault(card, "resnet")
        return not_applicable(broken["reason"]) if broken else _rate(card, label, name, words, unit)

    return check


def _rate(
    card: dict[str, Any], label: str, name: str, words: str, unit: str = IMAGES
) -> dict[str, Any]:
    facts = card["work"]["answers"]["resnet"]["facts"]
    if label not in facts["rates"]:
        return not_applicable("no time was left for it")
    rate = facts["rates"][label]
    reason = "{0:.0f} images a second {1}, {2} at a time: {3}".format(
        rate, words, facts["batch"], facts["model"]
    )
    return computing.rated(card, reason, name, rate, unit)


def replicas(facts: dict[str, Any]) -> dict[str, Any]:
    """Training on all cards is one training: all take part, and it comes to the same as on one."""
    work = facts["work"]
    answer = work["host"].get("mirrored")
    judged = _together(facts)
    tried = [*judged["evidence"], *_without(answer, work["kind"])]
    named = culprit(answer, work["kind"])
    if named is not None:
        # The rest follows from it.
        return measured("see GPU {0}: {1}".format(named, judged["reason"]), evidence=tried)
    return dict(judged, evidence=tried)


def _together(facts: dict[str, Any]) -> dict[str, Any]:
    """The finding on the training on all cards, without what trainings on some of them showed."""
    broken = computing.host_fault(facts, "mirrored")
    if broken:
        return broken
    work = facts["work"]
    answer, order = work["host"]["mirrored"]["facts"], work["host"]["mirrored"]["order"]
    difference = (
        "loss differs by {0:.1g}, weights by {1:.1g} from one device's after 100 steps".format(
            answer["loss"], answer["weights"]
        )
    )
    if answer["replicas"] != len(order):
        reason = "{0} of {1} GPUs train in sync".format(answer["replicas"], len(order))
        return finding(FAILED, reason, [difference], action="configure", how=computing.STACK)
    named = sorted({*_outside(answer), *_odd(answer)})
    if named:
        # The rest follows from it.
        cards = ", ".join("GPU " + order[place] for place in named)
        return measured("see {0}: {1}".format(cards, difference))
    if any(not part <= APART for part in answer["apart"]):
        cards = " and ".join("GPU " + index for index in order)
        reason = "after 100 steps the weights of {0} are not the same".format(cards)
        how = "reset them; where it comes again, train each with another card to see which it is"
        return finding(FAILED, reason, [difference], action="reset", how=how, threshold=APART,
                       source=SOURCE)  # fmt: skip
    limit = AGREE[work["kind"]]
    if not (answer["loss"] <= limit and answer["weights"] <= limit):
        reason = "training on {0} GPUs comes to another end than on one: {1}".format(
            len(order), difference
        )
        return finding(FAILED, reason, action="configure", how=TOGETHER, threshold=limit,
                       source=SOURCE)  # fmt: skip
    words = "training on {0} is one training: {1}".format(len(order), difference)
    first = work["host"]["mirrored"].get("first")
    if first and not first["error"]:
        reason = "{0}; wrong once, and right when tried again".format(words)
        return finding(DEGRADED, reason, action="watch")
    return ok(words)


def disputed(work: dict[str, Any]) -> bool:
    """Whether somebody would be accused for what training on all cards came to."""
    answer = work["host"].get("mirrored")
    if not answer or answer["silent"]:
        return False
    accused = replicas({"work": work})["state"] in BLAMED
    if answer["error"]:
        return accused
    return accused or bool(_outside(answer["facts"]) or _odd(answer["facts"]))


def unresolved(work: dict[str, Any]) -> bool:
    """Whether training on three cards or more failed, and nothing says which card it is."""
    answer = work["host"].get("mirrored")
    if not answer or answer["silent"] or len(answer["order"]) < 3:
        return False
    if answer["error"]:
        return no_room("mirrored", answer) is None
    in_sync: bool = answer["facts"]["replicas"] == len(answer["order"])
    state: str = _together({"work": work})["state"]
    return in_sync and state == FAILED


def culprit(answer: dict[str, Any] | None, kind: str | None) -> str | None:
    """The index of the one card without which training is right on all others; else None.

    `answer`: of all cards, whose `without` has {index: the answer of all cards but that one}. Two
    cards of which either may be left out can't be told from the link between them.
    """
    tried = (answer or {}).get("without", {})
    if not answer or any(index not in tried for index in answer["order"]):
        return None
    cures = [index for index in tried if _right_without(answer, index, kind)]
    return cures.pop() if len(cures) == 1 else None


def _right_without(answer: dict[str, Any], index: str, kind: str | None) -> bool:
    """False as well where another card was missing: somebody had begun to work on it."""
    others = [card_index for card_index in answer["order"] if card_index != index]
    answer_without = answer["without"][index]
    work = {"kind": kind, "missing": None, "host": {"mirrored": answer_without}}
    state: str = _together({"work": work})["state"]
    return answer_without["order"] == others and state == OK


def _without(answer: dict[str, Any] | None, kind: str | None) -> list[str]:
    """What training without each card came to, a line each; [] where that was not tried."""
    if not answer:
        return []
    lines = []
    for index in answer.get("without", {}):
        word = "right" if _right_without(answer, index, kind) else "not right"
        lines.append("training without GPU {0}: {1}".format(index, word))
    return lines


def scaling(facts: dict[str, Any]) -> dict[str, Any]:
    """How much of their rate alone the cards keep together; worse than one alone is a fault."""
    work = facts["work"]
    if work["missing"]:
        return not_applicable(work["missing"])
    if len(work["order"]) == 1:
        return not_applicable("one GPU trains alone")
    broken = computing.host_fault(facts, "resnet")
    if broken:
        return broken
    answer, count = work["host"]["resnet"]["facts"], len(work["host"]["resnet"]["order"])
    if count == 1:  # somebody has begun to work on the others
        return not_applicable("one GPU trained alone")
    rates = answer["rates"]
    evidence = ["{0}: {1:.0f} images/s".format(label, rates[label]) for label in sorted(rates)]
    evidence += ["{0}: no time was left for it".format(label) for label in answer["left_out"]]
    alone, all_of_them = rates.get("float32 1"), rates.get("float32 {0}".format(count))
    if alone is None or all_of_them is None:
        return not_applicable("no time was left for it")
    share = all_of_them / alone / count
    words = "{0} train at {1:.0f} % of {0} times one's rate: {2}".format(
        count, 100 * share, answer["model"]
    )
    if work["kind"] == "GPU" and all_of_them <= alone:
        reason = "{0} GPUs together are no faster than one: {1}".format(count, words)
        return finding(DEGRADED, reason, evidence, action="configure", how=TOGETHER,
                       threshold=1 / count, source="host")  # fmt: skip
    if work["kind"] != "GPU":
        words += ", on one CPU"
    name = "resnet50_scaling_{0}".format(count)
    return dict(computing.rated(facts, words, name, share, "of 1"), evidence=evidence)


def _mirrored(card: dict[str, Any]) -> tuple[dict[str, Any], int] | None:
    """(what the training on all cards says, and this one's place in it); None without."""
    answer, index = card["work"]["host"].get("mirrored"), card["work"]["index"]
    if not answer or answer["error"] or index not in answer["order"]:
        return None
    if answer["facts"]["replicas"] != len(answer["order"]):
        return None
    return answer["facts"], answer["order"].index(index)


def _why_not(card: dict[str, Any]) -> dict[str, Any]:
    if card["work"]["skipped"]:
        return not_applicable("not loaded: {0}".format(card["work"]["skipped"]))
    return not_applicable("the GPUs did not train together: see the host's check `replicas`")


def _outside(facts: dict[str, Any]) -> list[int]:
    """The places of those whose gradient is not in the sum; none where that is said of all."""
    bad = [k for k, share in enumerate(facts["shares"]) if not 1 - PART <= share <= 1 + PART]
    return bad if len(bad) < facts["replicas"] else []


def _odd(facts: dict[str, Any]) -> list[int]:
    """The places of those whose weights are not the others'; none without a majority."""
    bad = [k for k, part in enumerate(facts["apart"]) if not part <= APART]
    return bad if 2 * len(bad) < facts["replicas"] else []


# {program: the check of its answer about a card}
JUDGES = {**computing.JUDGES, "dense": learns, "resnet": resnet}


def suspect(gpu: dict[str, Any], kind: str, program: str, answers: dict[str, Any]) -> bool:
    """Whether a card would be accused for this answer."""
    work: dict[str, Any] = {
        "kind": kind, "skipped": None, "late": (), "answers": answers, "everywhere": [],
    }  # fmt: skip
    return JUDGES[program](dict(gpu, work=work))["state"] in BLAMED


HOST = (("replicas", replicas), ("scaling", scaling))
GPU = (
    ("learns", learns),
    ("dense", dense),
    ("together", together),
    ("busy", busy),
    ("resnet50", resnet),
    ("resnet50_mixed", variant("mixed 1", "resnet50_mixed", "in mixed precision")),
    ("resnet50_xla", variant("XLA 1", "resnet50_xla", "with XLA")),
    ("resnet50_fed", variant("with prefetch", "resnet50_fed", "from a prefetched pipeline", FED)),
    (
        "resnet50_unfed",
        variant("without prefetch", "resnet50_unfed", "from a pipeline without prefetch", FED),
    ),
)
