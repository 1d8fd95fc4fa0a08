"""The dense network of the usual tutorial on one device: does it learn, and how fast?"""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from .common import answer, arguments, devices, seed
from .digits import KINDS, digits

BATCH = 128


class Clock(tf.keras.callbacks.Callback):  # type: ignore[misc]  # TensorFlow has no types
    """How long each epoch takes."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        self.times[-1] = time.perf_counter() - self.times[-1]


def main() -> None:
    """{rows, epochs, seconds, rate, accuracy}.

    rate: rows a second in the fastest epoch, as the first one also compiles. accuracy: of pictures
    that it was not trained with. `little`, as a stand-in has it: fewer rows and epochs.
    """
    given = arguments()
    (device,) = devices(given)
    little = given.get("little", given["kind"] == "CPU")
    rows, epochs = (6000, 3) if little else (60000, 5)
    pictures, kinds = digits(rows)
    seed()
    clock = Clock()
    with tf.device(device):
        model = network()
        model.fit(
            pictures.reshape(rows, -1), kinds, batch_size=BATCH, epochs=epochs, verbose=0,
            callbacks=[clock],
        )  # fmt: skip
        others, of_kind = digits(2000, seed=2)
        said = model.predict(others.reshape(2000, -1), batch_size=BATCH, verbose=0)
    answer(
        rows=rows,
        epochs=epochs,
        seconds=sum(clock.times),
        rate=rows / min(clock.times),
        accuracy=float((said.argmax(axis=1) == of_kind).mean()),
    )


def network() -> Any:
    """784-512-256-10, compiled."""
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(512, activation="relu"),
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(KINDS, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    main()
