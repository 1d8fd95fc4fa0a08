"""A card's ways to the processor and to the other cards."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from ..findings import DEGRADED, finding, measured, not_applicable, ok

if TYPE_CHECKING:
    from typing import Any


def pcie_width(gpu: dict[str, Any]) -> dict[str, Any]:
    """The PCIe link has all lanes that the card and its slot have together.

    A slot with fewer lanes than the card is how the machine was built, and only reported.
    """
    link = gpu["pcie"]
    now, possible = link["width"], link["width_possible"]
    if now is None or possible is None:
        return not_applicable("the driver does not say")
    if now < possible:
        reason = "the PCIe link has {0} of {1} lanes".format(now, possible)
        return finding(DEGRADED, reason, action="reseat", threshold=possible, source="card")
    own = gpu["figures"] and gpu["figures"].pcie_width
    if own and now < own:
        return ok(
            "{0} lanes, all of its slot's; the card has {1}".format(now, own),
            threshold=possible, source="card",
        )  # fmt: skip
    return ok("{0} lanes".format(now), threshold=possible, source="card")


def pcie_generation(gpu: dict[str, Any]) -> dict[str, Any]:
    """Under load the PCIe link is as fast as the card and its slot can be together.

    An idle card slows its link down, so that an idle one's is only reported.
    """
    link = gpu["pcie"]
    now, possible = link["generation"], link["generation_possible"]
    if now is None or possible is None:
        return not_applicable("the driver does not say")
    words = "PCIe generation {0} of {1}".format(now, possible)
    if now >= possible:
        return ok(words, threshold=possible, source="card")
    if gpu["utilization"] and gpu["state"] is not None and gpu["state"] <= BUSY_STATE:
        reason = words + " under load"
        return finding(DEGRADED, reason, action="reseat", threshold=possible, source="card")
    return measured(words + " while the card is idle")


# Performance states P0 to P2 are those of a card that computes.
BUSY_STATE = 2


def replays(gpu: dict[str, Any]) -> dict[str, Any]:
    """How often the PCIe link had to repeat; how fast that grows is judged from another day on."""
    number = gpu["pcie"]["replays"]
    if number is None:
        return not_applicable("the driver does not say")
    figure = {"name": "pcie_replays", "value": number, "unit": "", "better": "lower"}
    return measured("{0} PCIe replays since the driver was loaded".format(number), figure=figure)


def nvlink(gpu: dict[str, Any]) -> dict[str, Any]:
    """As many NVLinks are up as on the cards of the same model.

    Bridges join only some of a card's links, and only some of the cards: a card without any, and
    links that are down on all of them, are how the machine was built. A model whose links need no
    bridge has all of its cards joined.
    """
    links = gpu["links"]
    if not links:
        return not_applicable("the driver shows no NVLink of this card")
    number = up(gpu)
    if not number and not (gpu["like"] and _needs_no_bridge(gpu)):
        return not_applicable("no NVLink is in use")
    if not number and (gpu["mig"] or {}).get("mode"):
        # NVIDIA's driver switches those of an A100 off.
        return not_applicable("no NVLink is in use, and MIG is on")
    if not gpu["like"]:
        return measured("{0} of {1} NVLinks are up".format(number, len(links)))
    most = max(number, *(up(card) for card in gpu["like"]))
    if number < most:
        down = ", ".join(str(link["link"]) for link in links if not link["up"])
        reason = "{0} of {1} NVLinks are up".format(number, most)
        evidence = ["down: link {0}".format(down)]
        return finding(DEGRADED, reason, evidence, action="reseat", threshold=most, source="host")
    return ok("{0} NVLinks are up".format(number), threshold=most, source="host")


def _needs_no_bridge(gpu: dict[str, Any]) -> bool:
    """Whether the catalog says how many NVLinks each card of the model has in every machine."""
    return bool(gpu["figures"] and gpu["figures"].nvlink_links)


def up(gpu: dict[str, Any]) -> int:
    """How many of its NVLinks are up."""
    return sum(link["up"] for link in gpu["links"])


GPU = (
    ("pcie_width", pcie_width),
    ("pcie_generation", pcie_generation),
    ("replays", replays),
    ("nvlink", nvlink),
)
