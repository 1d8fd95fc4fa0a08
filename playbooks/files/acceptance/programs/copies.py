"""Copies between the host and each device, and between every two devices, compared to the byte."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from .common import answer, arguments, devices, seconds, size

MIB = 2**20


def main() -> None:
    """{host: [{wrong, to, back}], pairs: {"0-1": {wrong, rate}}}, devices by their order.

    wrong: numbers that arrived changed; to, back, rate: 10^9 bytes a second. A pair's copy goes
    there and back, and its rate is of both.
    """
    given = arguments()
    names = devices(given)
    amount = size(given, 256 * MIB, 16 * MIB)
    data = np.random.default_rng(1).integers(0, 2**31, amount // 4, dtype="int32").view("float32")
    data = np.nan_to_num(data)
    hosts, held = [], []
    for name in names:
        entry, tensor = _host(name, data)
        hosts.append(entry)
        held.append(tensor)
    pairs = {}
    for one, two in itertools.combinations(range(len(names)), 2):
        pairs["{0}-{1}".format(one, two)] = _pair(names[one], names[two], held[one], data)
    answer(host=hosts, pairs=pairs, bytes=int(data.nbytes))


def _host(name: str, data: Any) -> tuple[dict[str, Any], Any]:
    with tf.device(name):
        tensor = tf.identity(tf.constant(data))
        wrong = _wrong(tensor.numpy(), data)
        to = seconds(lambda: tf.identity(tf.constant(data))[0].numpy(), least=0.3, most=20)
        # A result that is asked for twice is copied once.
        back = seconds(lambda: (tensor + 0).numpy(), least=0.3, most=20)
    return {"wrong": wrong, "to": data.nbytes / to / 1e9, "back": data.nbytes / back / 1e9}, tensor


def _pair(one: str, two: str, tensor: Any, data: Any) -> dict[str, Any]:
    def there_and_back() -> Any:
        with tf.device(two):
            there = tf.identity(tensor)
        with tf.device(one):
            return tf.identity(there)

    wrong = _wrong(there_and_back().numpy(), data)
    each = seconds(lambda: there_and_back()[0].numpy(), least=0.3, most=20)
    return {"wrong": wrong, "rate": 2 * data.nbytes / each / 1e9}


def _wrong(result: Any, data: Any) -> int:
    return int(np.count_nonzero(result.view("int32") != data.view("int32")))


if __name__ == "__main__":
    main()
