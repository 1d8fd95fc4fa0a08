"""What figures are of: a card, or a host with all its cards; and which of them are alike.

A card of another model, power limit, driver or TensorFlow is as fast as it is; to hold it to
others' figures would accuse it of how it is set.
"""

from __future__ import annotations

import collections

from ...type_checking import TYPE_CHECKING
from ..figures import product
from ..findings import FAILED, MEASURED, OK

if TYPE_CHECKING:
    from typing import Any, Iterator

MIB = 2**20
LARGEST = 1e300
# host: its name; gpu: the place in the verdict's gpus, None for the host; id: what the subject is
# known by on another day, None where nothing tells; like: what alike subjects have in common, as a
# text; model: the card's product name, "" for a host; plain: whether the catalog's figures hold
# for it; checks: its findings.
Subject = collections.namedtuple("Subject", "host gpu id like model plain checks")


def subjects(host: str, verdict: dict[str, Any]) -> list[Any]:
    """The Subjects of a host's verdict whose figures can be believed: nothing failed on them."""
    conditions = _conditions(verdict)
    believed = []
    for place, gpu in enumerate(verdict["gpus"]):
        if gpu["verdict"] != FAILED:
            believed.append(_card(host, place, gpu, conditions))
    if verdict["gpus"] and verdict["verdict"] != FAILED:
        believed.append(_whole(host, verdict, conditions))
    return believed


def figures_of(
    subject: Any, states: tuple[str, ...] = (MEASURED, OK)
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(place, finding) of a subject's checks in these states that have a figure.

    A stand-in's figures say nothing of a card: they are left as they were measured.
    """
    for at, entry in enumerate(subject.checks):
        figure = entry.get("figure")
        if figure is None or entry["state"] not in states or entry.get("stand_in"):
            continue
        if is_number(figure["value"]):
            yield at, entry


def is_number(value: Any) -> bool:
    """Whether it is a number that can be compared: what a host sends may be anything."""
    return isinstance(value, (int, float)) and -LARGEST < value < LARGEST


def _conditions(verdict: dict[str, Any]) -> list[str]:
    """What the figures of a host depend on, besides its cards."""
    driver = verdict.get("driver")
    parts = [
        ("driver", driver and driver.split(".")[0]),
        ("TensorFlow", _branch(verdict.get("tensorflow"))),
        ("level", verdict.get("level")),
    ]
    words = ["{0} {1}".format(word, value) for word, value in parts if value]
    return [*words, "simulated"] if verdict["simulated"] else words


def _branch(version: str | None) -> str:
    """ "2.9" of "2.9.3"."""
    return ".".join(version.split(".")[:2]) if version else ""


def _card(host: str, place: int, gpu: dict[str, Any], conditions: list[str]) -> Any:
    limit = gpu["measured"].get("power_limit")
    default = gpu["measured"].get("power_limit_default")
    mig = gpu["measured"].get("mig")
    plain = (
        not mig and not (limit and default and limit < default) and "simulated" not in conditions
    )
    like = "; ".join([*_make(gpu), *conditions])
    return Subject(host, place, gpu["uuid"], like, gpu["name"] or "", plain, gpu["checks"])


def _make(gpu: dict[str, Any]) -> list[str]:
    """What a card is and how it is set, as far as its speed depends on it."""
    facts = gpu["measured"]
    memory = (facts.get("memory") or {}).get("total")
    limit = facts.get("power_limit")
    parts = [
        product(gpu["name"] or ""),
        gpu["part"],
        memory and "{0} MiB".format(memory // MIB),
        limit and "{0:.0f} W".format(limit / 1000),
        facts.get("mig") and "MIG",
    ]
    return [part for part in parts if part]


def _whole(host: str, verdict: dict[str, Any], conditions: list[str]) -> Any:
    """The host: what its cards do together is compared with hosts that have the same cards."""
    made = ["; ".join(_make(gpu)) for gpu in verdict["gpus"]]
    counted = sorted(collections.Counter(made).items())
    cards = ["{0} x ({1})".format(number, words) for words, number in counted]
    names = sorted(gpu["uuid"] or "" for gpu in verdict["gpus"])
    identity = " ".join(names) if all(names) else None
    return Subject(
        host, None, identity, "; ".join([*cards, *conditions]), "", False, verdict["checks"]
    )
