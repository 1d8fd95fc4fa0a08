"""A convolution and its gradient, for which TensorFlow needs cuDNN on a GPU."""

from __future__ import annotations

import re

import numpy as np
import tensorflow as tf

from .common import answer, arguments, devices


def main() -> None:
    """{error, libraries}: the largest difference from the sums by numpy, and cuDNN's files loaded.

    The numbers are whole and small, exact in a GPU's shortest floats.
    """
    given = arguments()
    (device,) = devices(given)
    image = (np.arange(64 * 64) % 7).astype("float32").reshape(1, 64, 64, 1)
    with tf.device(device):
        kernel = tf.Variable(np.ones((3, 3, 1, 1), dtype="float32"))
        with tf.GradientTape() as tape:
            blurred = tf.nn.conv2d(tf.constant(image), kernel, 1, "VALID")
            total = tf.reduce_sum(blurred)
        gradient = tape.gradient(total, kernel)
    flat = image[0, :, :, 0]
    corners = [(i, j) for i in range(3) for j in range(3)]
    sums = sum(flat[i : i + 62, j : j + 62] for i, j in corners)
    error = np.abs(blurred.numpy()[0, :, :, 0] - sums).max()
    each = np.array([flat[i : i + 62, j : j + 62].sum() for i, j in corners])
    error = max(error, np.abs(gradient.numpy().reshape(-1) - each).max())
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = sorted(set(re.findall(r"/\S*/(libcudnn\S*)", maps.read())))
    answer(error=float(error), libraries=loaded)


if __name__ == "__main__":
    main()
