"""The worst value that a set of like values still explains: robust, and one-sided.

The median and the median deviation from it are what half of the values may be wrong without
moving far. A mean would be drawn to the sick card that it is to find.
"""

from __future__ import annotations

from statistics import median

from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Sequence

# Fewer than three values can't say which of them is the odd one.
ENOUGH = 3
# Iglewicz and Hoaglin's bound of the modified Z score; 1.4826 makes a median deviation a standard
# deviation: https://www.itl.nist.gov/div898/handbook/eda/section3/eda35h.htm
DEVIATIONS = 3.5 * 1.4826
# Of a figure's `better`; the other is "higher".
LOWER = "lower"


def bound(values: Sequence[float], share: float, better: str) -> float | None:
    """The value beyond which one is worse than ordinary; None where these values can't tell.

    `share` of the median is always ordinary, and so is what the values' own spread explains:
    values that lie far apart teach nothing.
    """
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    spread = median([abs(value - middle) for value in values])
    distance = max(share * abs(middle), DEVIATIONS * spread)
    if better == LOWER:
        return middle + distance
    return middle - distance if middle > distance else None


def worse(value: float, limit: float, better: str) -> bool:
    """Whether a value is beyond the limit."""
    return value > limit if better == LOWER else value < limit
