"""Matrix products on one device: are they right, do they repeat, and how fast are they?"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .common import answer, arguments, devices, seconds, size


def main() -> None:
    given = arguments()
    (device,) = devices(given)
    # Its ten bits of mantissa would pass for a wrong product of float32.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    with tf.device(device):
        answer(**{kind: product(given, kind) for kind in ("float32", "float16")})


def product(given: dict[str, Any], kind: str) -> dict[str, Any]:
    """{error, differing, tflops} of products of random matrices of this type.

    error: the largest difference from the same product in float64 on the CPU, in root mean squares
    of that. differing: of ten equal products of a large matrix, those unlike the first; each has
    to be the same to the bit. tflops: 2 n^3 operations a product, in 10^12 a second.
    """
    number = size(given, 1024, 256)
    generator = np.random.default_rng(1)
    left, right = (generator.standard_normal((number, number)).astype(kind) for _turn in range(2))
    exact = left.astype("float64") @ right.astype("float64")
    result = tf.linalg.matmul(tf.constant(left), tf.constant(right)).numpy().astype("float64")
    error = np.abs(result - exact).max() / np.sqrt((exact**2).mean())

    number = size(given, 8192, 192)
    large = tf.cast(tf.random.normal((number, number), seed=1), kind)
    first = tf.linalg.matmul(large, large)
    # As bits: NaN would be unlike itself.
    bits = tf.int32 if kind == "float32" else tf.int16
    differing = sum(
        bool(tf.reduce_any(tf.bitcast(tf.linalg.matmul(large, large), bits)
                           != tf.bitcast(first, bits)).numpy())
        for _turn in range(10)
    )  # fmt: skip

    def work() -> Any:
        # Eight at a time: the device never waits for Python.
        for _turn in range(8):
            last = tf.linalg.matmul(large, large)
        return last[0, 0].numpy()

    each = seconds(work, least=2.0 if given["kind"] == "GPU" else 0.2) / 8
    return {
        "error": float(error),
        "differing": differing,
        "tflops": 2 * number**3 / each / 1e12,
    }


if __name__ == "__main__":
    main()
