"""Keeps one device at work for as long as said, and compares every result with the first."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import tensorflow as tf

from .card import Card, Sampler
from .common import answer, arguments, devices, size

# How often the pace is noted, in seconds.
INTERVAL = 5.0


def main() -> None:
    """{seconds, products, differing, paces, samples}.

    products: how many were made; differing: how many of them were not the first to the bit. paces:
    10^12 operations a second, one for each interval of five seconds. samples: how busy NVML says
    the card was, as card.Sampler's; none where it is not asked.
    """
    given = arguments()
    (device,) = devices(given)
    number = size(given, 8192, 192)
    with tf.device(device):
        # Tensor cores take the most power; a CPU has none.
        kind, bits = ("float16", tf.int16) if given["kind"] == "GPU" else ("float32", tf.int32)
        matrix = tf.cast(tf.random.normal((number, number), seed=1), kind)
        first = tf.bitcast(tf.linalg.matmul(matrix, matrix), bits)
        with Sampler(watched(given), given["seconds"]) as sampler:
            facts = burn(given["seconds"], matrix, first, bits)
    answer(**facts, samples=sampler.samples[0] if sampler.samples else [])


def watched(given: dict[str, Any]) -> list[Card]:
    """The card as NVML knows it: how busy it is, is drawn and not judged, and may be unknown."""
    if given["kind"] == "GPU" and given.get("uuid"):
        with contextlib.suppress(OSError, RuntimeError):
            return [Card(given["uuid"])]
    return []


def burn(seconds: float, matrix: Any, first: Any, bits: Any) -> dict[str, Any]:
    number = int(matrix.shape[0])
    paces: list[float] = []
    products = differing = 0
    began = noted = time.perf_counter()
    since = 0
    while noted - began < seconds:
        # One answer for many products: the device never waits for Python.
        wrong = sum(
            tf.cast(
                tf.reduce_any(tf.bitcast(tf.linalg.matmul(matrix, matrix), bits) != first), tf.int64
            )
            for _turn in range(16)
        )
        differing += int(wrong.numpy())
        products, since = products + 16, since + 16
        now = time.perf_counter()
        if now - noted >= min(INTERVAL, seconds):
            paces.append(since * 2 * number**3 / (now - noted) / 1e12)
            noted, since = now, 0
    return {
        "seconds": noted - began, "products": products, "differing": differing, "paces": paces,
    }  # fmt: skip


if __name__ == "__main__":
    main()
