"""Fills a device's free memory with a pattern, and reads it back."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from .card import Card
from .common import answer, arguments, devices

MIB = 2**20
# Of a GPU's free memory; TensorFlow and the driver need some for themselves.
SHARE = 0.85
# A stand-in fills this much of the machine's memory.
LITTLE = 64 * MIB


def main() -> None:
    """{bytes, wrong}: how much was filled, and how many of its numbers came back wrong.

    Each block has numbers of its own, so that a block in another's place is seen. All are whole
    and below 2^24: float32 has them exactly.
    """
    given = arguments()
    (device,) = devices(given)
    room, block = LITTLE, 16 * MIB
    if given["kind"] == "GPU":
        room, block = int(Card(given["uuid"]).free() * SHARE), 256 * MIB
    with tf.device(device):
        # The work of comparing needs the room of three blocks.
        count = max(1, room // block - 3)
        base = tf.constant((np.arange(block // 4) % 8191).astype("float32"))
        blocks = [base + float(8192 + 8191 * (number % 1024)) for number in range(count)]
        wrong = 0
        for number, filled in enumerate(blocks):
            back = filled - float(8192 + 8191 * (number % 1024))
            wrong += int(tf.math.count_nonzero(tf.not_equal(back, base)).numpy())
    answer(bytes=count * block, wrong=wrong)


if __name__ == "__main__":
    main()
