"""Does data arrive as it was sent: to each card and back, and between every two?

Of what the program copies.py has measured. Two cards that exchange something wrong say nothing of
which is sick: that is seen by what each exchanges with others.
"""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, FAILED, finding, measured, not_applicable, ok
from . import computing

if TYPE_CHECKING:
    from typing import Any

CONFIGURE = "switch ACS off on the bridges above the cards, and the IOMMU to pass-through"
BETWEEN = CONFIGURE + (
    "; each of the two exchanges right with other cards, so that else it is what lies between them:"
    " an NVLink bridge, a PCIe switch"
)
OF_TWO = CONFIGURE + (
    "; where it comes again, put another card in the place of one: two cards alone don't show which"
    " of them it is"
)
RESEAT = (
    "where `acs` or `iommu` of its host says that they are on, switch these off first; then switch"
    " the host off, put the card and its riser in again, then try another slot"
)


def copies(facts: dict[str, Any]) -> dict[str, Any]:
    """Data arrives as it was sent: host to card and back, and between every two cards."""
    broken = computing.host_fault(facts, "copies")
    if broken:
        return broken
    answer = facts["work"]["host"]["copies"]
    bad = _wrong(answer)
    if not bad:
        if _wrong(answer.get("first")):
            reason = "data arrives as it was sent; wrong once, and right when tried again"
            return finding(DEGRADED, reason, _rates(answer), action="watch")
        return ok("data arrives as it was sent", evidence=_rates(answer))
    reason = "data arrives changed between {0}".format("; ".join(_words(who) for who in bad))
    named = suspect(answer)
    if named is not None:
        return measured("see GPU {0}: {1}".format(named, reason), evidence=_rates(answer))
    how, pairs = CONFIGURE, [who for who in bad if len(who) == 2]
    if len(bad) == len(pairs) == 1:
        how = OF_TWO if len(answer["order"]) == 2 else BETWEEN
    return finding(FAILED, reason, _rates(answer), action="configure", how=how)


def exchange(card: dict[str, Any]) -> dict[str, Any]:
    """It is not the one card that takes part in every copy that arrives changed."""
    answer, index = card["work"]["host"].get("copies"), card["work"]["index"]
    if card["work"]["skipped"]:
        return not_applicable("not loaded: {0}".format(card["work"]["skipped"]))
    if not answer or answer["error"] or index not in answer["order"]:
        return not_applicable("nothing was copied: see the host's check `copies`")
    if len(answer["order"]) == 1:
        return not_applicable("there is no other card to tell its faults from the host's")
    if suspect(answer) == index:
        others = ["GPU " + peer for who in _wrong(answer) for peer in who if peer != index]
        if [index] in _wrong(answer):
            others.insert(0, "the host")
        reason = "data arrives changed between it and {0}, and nowhere else".format(
            ", ".join(others)
        )
        return finding(FAILED, reason, action="reseat", how=RESEAT)
    if any(index in who for who in _wrong(answer)):
        return measured("not all that it exchanges arrives as it was sent: see `copies`")
    return ok("what it exchanges arrives as it was sent")


def suspect(answer: dict[str, Any]) -> str | None:
    """The index of the one card that is a part of every exchange that failed; else None.

    `answer`: of copies.py, with its `order`. One pair alone names nobody, nor does a card alone.
    """
    failed = [set(who) for who in _wrong(answer)]
    common = set.intersection(*failed) if failed and len(answer["order"]) > 1 else set()
    return common.pop() if len(common) == 1 else None


def disputed(work: dict[str, Any]) -> bool:
    """Whether somebody would be accused for what was copied."""
    return bool(_wrong(work["host"].get("copies")))


def _wrong(answer: dict[str, Any] | None) -> list[list[str]]:
    """The indexes of the cards of each exchange that failed; of one card, it was with the host.

    [] where the program gave no answer: that says nothing of what arrived.
    """
    bad: list[list[str]] = []
    if answer and answer["facts"]:
        facts, order = answer["facts"], answer["order"]
        bad = [[order[place]] for place, entry in enumerate(facts["host"]) if entry["wrong"]]
        for pair, entry in sorted(facts["pairs"].items()):
            if entry["wrong"]:
                bad.append([order[int(place)] for place in pair.split("-")])
    return bad


def _words(who: list[str]) -> str:
    """ "GPU 0 and GPU 2"; "the host and GPU 1"."""
    cards = ["GPU " + index for index in who]
    return " and ".join(cards if len(cards) == 2 else ["the host", *cards])


def _rates(answer: dict[str, Any]) -> list[str]:
    facts, order = answer["facts"], answer["order"]
    lines = [
        "GPU {0}: {1:.1f} GB/s to it, {2:.1f} GB/s back".format(index, entry["to"], entry["back"])
        for index, entry in zip(order, facts["host"])  # noqa: B905  Python 3.7
    ]
    for pair, entry in sorted(facts["pairs"].items()):
        first, second = (order[int(place)] for place in pair.split("-"))
        lines.append("GPU {0} and GPU {1}: {2:.1f} GB/s".format(first, second, entry["rate"]))
    return lines


HOST = (("copies", copies),)
GPU = (("exchange", exchange),)
