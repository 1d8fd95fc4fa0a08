"""How long a device waits for its input, with and without prefetch and parallel map."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from .common import answer, arguments, devices, seconds, size

BATCH = 32


def main() -> None:
    """{plain, tuned}, each {steps, idle}: steps a second, and the share of time without work.

    The input of a step is made from pictures as a training makes it: cut, mirrored, normalised.
    The device's work is repeated until a step takes `Work.STEP` seconds.
    """
    given = arguments()
    (device,) = devices(given)
    side = size(given, 224, 64)
    steps = size(given, 40, 15)
    work = Work(device, side, steps)
    plain = pictures(side, steps, parallel=None)
    automatic = tf.data.experimental.AUTOTUNE
    tuned = pictures(side, steps, parallel=automatic).prefetch(automatic)
    answer(plain=work.through(plain), tuned=work.through(tuned))


def pictures(side: int, steps: int, parallel: Any) -> Any:
    """Batches of pictures, made by the CPU."""

    def made(number: Any) -> Any:
        seed = tf.stack([tf.cast(number, tf.int32), 1])
        picture = tf.random.stateless_uniform((side + 32, side + 32, 3), seed)
        picture = tf.image.random_crop(picture, (side, side, 3))
        return tf.image.per_image_standardization(tf.image.random_flip_left_right(picture))

    numbers = tf.data.Dataset.range(BATCH * (steps + 2))
    return numbers.map(made, num_parallel_calls=parallel).batch(BATCH)


class Work:
    """A step of a training: products on the device that take a twentieth of a second."""

    STEP = 0.05

    def __init__(self, device: str, side: int, steps: int) -> None:
        self.device, self.steps = device, steps
        with tf.device(device):
            number = 4096 if "GPU" in device else 256
            self.matrix = tf.random.normal((number, number))
        self.times = 1
        batch = tf.zeros((BATCH, side, side, 3))
        self.times = max(1, round(self.STEP / seconds(lambda: self(batch), least=0.3)))

    def __call__(self, batch: Any) -> Any:
        with tf.device(self.device):
            result = tf.reduce_mean(batch)
            for _turn in range(self.times):
                result += tf.linalg.matmul(self.matrix, self.matrix)[0, 0]
        return result.numpy()

    def through(self, batches: Any) -> dict[str, float]:
        """{steps, idle} of a pass; its first two steps, which fill buffers, do not count."""
        iterator = iter(batches)
        for _turn in range(2):
            self(next(iterator))
        waited, started = 0.0, time.perf_counter()
        for _turn in range(self.steps):
            before = time.perf_counter()
            batch = next(iterator)
            waited += time.perf_counter() - before
            self(batch)
        took = time.perf_counter() - started
        return {"steps": self.steps / took, "idle": waited / took}


if __name__ == "__main__":
    main()
