"""The same function with and without XLA, which needs CUDA's libdevice and ptxas."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .common import answer, arguments, devices


def work(x: Any) -> Any:
    """Functions that are in no GPU's instructions: XLA takes them from libdevice."""
    return tf.math.erf(tf.math.tanh(x) + tf.math.log1p(tf.math.abs(x))) + tf.math.pow(x, 2.0)


def compiled(function: Any) -> Any:
    """The function by XLA; the argument was experimental before TensorFlow 2.5."""
    try:
        return tf.function(function, jit_compile=True)
    except TypeError:
        return tf.function(function, experimental_compile=True)


def main() -> None:
    """{error}: the largest difference between both."""
    given = arguments()
    (device,) = devices(given)
    x = np.linspace(-3, 3, 4096, dtype="float32")
    with tf.device(device):
        plain = work(tf.constant(x)).numpy()
        by_xla = compiled(work)(tf.constant(x)).numpy()
    answer(error=float(np.abs(plain - by_xla).max()))


if __name__ == "__main__":
    main()
