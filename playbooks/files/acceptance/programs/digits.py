"""Pictures of ten kinds that a network can learn to tell apart, in the shape of MNIST's digits.

Nothing is downloaded: a host may have no way to where the digits are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SIDE = 28
KINDS = 10


def digits(rows: int, seed: int = 1) -> tuple[Any, Any]:
    """(pictures: rows x 28 x 28 in float32, about 0 to 1; kinds: rows in int64).

    A picture is its kind's pattern and as much noise. Other seeds make others of the same kinds.
    """
    patterns = np.random.RandomState(0).uniform(0, 1, (KINDS, SIDE, SIDE)).astype("float32")
    state = np.random.RandomState(seed)
    kinds = state.randint(0, KINDS, rows)
    noise = state.uniform(0, 1, (rows, SIDE, SIDE)).astype("float32")
    return (patterns[kinds] + noise) / 2, kinds.astype("int64")
