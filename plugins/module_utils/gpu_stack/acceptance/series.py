"""What of a training is drawn: images a second by the number of GPUs, and how busy each card was.

The checks judge a share of each; a picture needs the numbers. They come from programs, which may
print anything: what is no number is left out, and a verdict has no more of them than a page shows.
"""

from __future__ import annotations

import math
from statistics import median

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Sequence

# Points of one card's line.
POINTS = 60
# {the first word of a label of the program resnet.py: the way to train}, as a page calls it.
WAYS = {"float32": "float32", "mixed": "mixed precision", "XLA": "XLA"}
# {kind of work: its program}: those that sample a card while it works.
TOGETHER, BURN_IN = "together", "burn_in"


def scaling(work: dict[str, Any]) -> dict[str, Any] | None:
    """{model, batch, rates: [{way, gpus, images_per_second}]}; None where nothing was measured.

    Of the training on several cards at once. What a card can do alone and was not measured there,
    as with XLA, is the median of the cards that trained alone with as many images at a time. An
    images_per_second of None is one for which no time was left.
    """
    alone = [facts for card in work["cards"].values() for facts in [_facts(card.get("resnet"))]]
    alone = [facts for facts in alone if facts]
    host = _facts(work["host"].get("resnet"))
    shown = host or (alone[0] if alone else None)
    if shown is None:
        return None
    like = [facts["rates"] for facts in alone if facts["batch"] == shown["batch"]]
    rates: dict[str, float | None] = dict.fromkeys(shown["left_out"])
    for label in {label for measured in like for label in measured}:
        values = [measured[label] for measured in like if _is_rate(measured.get(label))]
        if values:
            rates[label] = median(values)
    rates.update((label, value) for label, value in shown["rates"].items() if _is_rate(value))
    rate_of = {way: rates[label] for label in rates for way in [_way(label)] if way}
    order = list(WAYS.values())
    return {
        "model": shown["model"],
        "batch": shown["batch"],
        "rates": [
            {"way": way, "gpus": count, "images_per_second": rate_of[way, count]}
            for way, count in sorted(rate_of, key=lambda way: (order.index(way[0]), way[1]))
        ],
    }


def utilization(work: dict[str, Any], index: int) -> dict[str, list[list[float]]]:
    """{"together": [[seconds, per cent], ...], "burn_in": ...} of a card, of what was sampled."""
    card, points_of = str(index), {}
    answer = work["host"].get("mirrored")
    facts = _facts(answer)
    if answer and facts and card in answer["order"]:
        samples, place = facts.get("samples") or [], answer["order"].index(card)
        points_of[TOGETHER] = thinned(samples[place] if place < len(samples) else None)
    burnt = _facts((work["cards"].get(card) or {}).get("burn"))
    if burnt:
        points_of[BURN_IN] = thinned(burnt.get("samples"))
    return {kind: points for kind, points in points_of.items() if points}


def thinned(samples: Any, most: int = POINTS) -> list[list[float]]:
    """[[seconds, per cent]] of at most so many points: the means of neighbours."""
    points = [[float(part) for part in sample] for sample in samples or () if _is_sample(sample)]
    size = max(1, math.ceil(len(points) / most))
    groups = [points[at : at + size] for at in range(0, len(points), size)]
    return [[round(_mean(part), 1) for part in zip(*group)] for group in groups]  # noqa: B905


def _facts(answer: dict[str, Any] | None) -> Any:
    """What a program has measured; None where it has not answered."""
    return answer["facts"] if answer and not answer["error"] else None


def _way(label: str) -> tuple[str, int] | None:
    """(way, GPUs) of a label as "float32 4"; None of one that is no part of this."""
    name, _space, count = label.rpartition(" ")
    return (WAYS[name], int(count)) if name in WAYS and count.isdigit() else None


def _is_rate(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def _is_sample(sample: Any) -> bool:
    return (
        isinstance(sample, list)
        and len(sample) == 2
        and all(isinstance(part, (int, float)) and math.isfinite(part) for part in sample)
        and sample[0] >= 0
        and 0 <= sample[1] <= 100
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
