"""Does TensorFlow take a GPU's memory as it needs it, and no more, where growth is asked for?"""

from __future__ import annotations

import tensorflow as tf

from .card import Card
from .common import answer, arguments, devices

MIB = 2**20


def main() -> None:
    """{total, began, small, large, again} in bytes.

    `total` is what the card has. NVML's figure with a small tensor, with 512 MiB more, and with
    as much again after those were given back, less the one before TensorFlow had opened the card.
    """
    given = arguments()
    card = Card(given["uuid"])
    began = card.used()
    (device,) = devices(given)
    with tf.device(device):
        kept = tf.ones((1024,))
        small = card.used() - began
        block = tf.ones((128 * MIB,))  # float32: 512 MiB
        large = card.used() - began
        del block
        block = tf.ones((128 * MIB,))
        again = card.used() - began
        total = float((kept[0] + block[-1]).numpy())  # both are needed until here
    answer(sum=total, free=card.free(), small=small, large=large, again=again)


if __name__ == "__main__":
    main()
