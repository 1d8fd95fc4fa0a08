"""ResNet-50 on synthetic images: how many a second, on one device and on several?

On one: in float32, with mixed precision, with XLA, and fed by an input pipeline with and without
prefetch. On several: on 1, 2, 4 and so on to all, which says how well they work together. XLA is
asked of one alone: it can't compile the sum over several of TensorFlow 2.9.
"""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from .card import Card
from .common import answer, arguments, devices, size, variables
from .xla import compiled

GIB = 2**30
PLAIN, MIXED = "float32", "mixed_float16"
# Seconds after which no other measurement is begun. XLA takes the longest, up to two minutes.
ENOUGH = 120


def main() -> None:
    """{model, batch, rates, left_out}.

    rates: {"float32 1": images a second, by all devices together}: how, and on how many. batch: of
    each device. left_out: the measurements for which no time was left. `enough`: another ENOUGH.
    """
    given = arguments()
    names = devices(given)
    batch = size(given, batch_of(given), 2)
    rates: dict[str, float] = {}
    left_out = []
    started = time.perf_counter()
    for label, count, more in measurements(len(names)):
        if time.perf_counter() - started > given.get("enough", ENOUGH):
            left_out.append(label)
            continue
        training = Training(given, names[:count], batch, **more)
        rates[label] = training.rate()
        if label == "float32 1" and len(names) == 1:
            rates["without prefetch"] = training.rate(training.pipeline())
            rates["with prefetch"] = training.rate(training.pipeline().prefetch(8))
    answer(model=NAMES[given["kind"]], batch=batch, rates=rates, left_out=left_out)


def batch_of(given: dict[str, Any]) -> int:
    """As many images as the card with the least free memory has room for, in float32."""
    if given["kind"] != "GPU":
        return 0
    uuids = given.get("uuids") or [given["uuid"]]
    free = min(Card(uuid).free() for uuid in uuids)
    return 64 if free > 13 * GIB else 32 if free > 7 * GIB else 16


def measurements(count: int) -> list[tuple[str, int, dict[str, Any]]]:
    """(label, devices, arguments of Training), the ones that matter most first."""
    if count == 1:
        return [
            ("float32 1", 1, {}),
            ("mixed 1", 1, {"policy": MIXED}),
            ("XLA 1", 1, {"xla": True}),
        ]
    between = [2**power for power in range(1, 8) if 2**power < count]
    return [
        ("float32 1", 1, {}),
        ("float32 {0}".format(count), count, {}),
        ("mixed {0}".format(count), count, {"policy": MIXED}),
        *(("float32 {0}".format(some), some, {}) for some in between),
        ("mixed 1", 1, {"policy": MIXED}),
    ]


def resnet(side: int) -> Any:
    return tf.keras.applications.ResNet50(weights=None, input_shape=(side, side, 3))


def little(side: int) -> Any:
    """Two residual blocks, built as ResNet-50's are: what a CPU trains in its place."""
    layers = tf.keras.layers
    given = layers.Input((side, side, 3))
    x = layers.Conv2D(8, 3, padding="same")(given)
    for _turn in range(2):
        shortcut = x
        for _turn in range(2):
            x = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(x))
            x = layers.Activation("relu")(x)
        x = layers.Add()([x, shortcut])
    x = layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(given, layers.Dense(1000, activation="softmax", dtype="float32")(x))


BUILD = {"GPU": resnet, "CPU": little}
NAMES = {"GPU": "ResNet-50", "CPU": "a small ResNet in the place of ResNet-50"}


class Training:
    """A model on these devices, and its step."""

    def __init__(
        self, given: dict[str, Any], names: list[str], batch: int, policy: str = PLAIN,
        xla: bool = False,
    ) -> None:  # fmt: skip
        self.given, self.names, self.batch = given, names, batch
        self.side = size(given, 224, 16)
        tf.keras.mixed_precision.set_global_policy(policy)
        self.strategy: Any = (
            tf.distribute.MirroredStrategy(names)
            if len(names) > 1
            else tf.distribute.OneDeviceStrategy(names[0])
        )
        with self.strategy.scope():
            model = BUILD[given["kind"]](self.side)
            optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9)
            if policy == MIXED:
                optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
            if hasattr(optimizer, "build"):  # Keras 2.11 and newer: not within the step
                optimizer.build(model.trainable_variables)
        one = step_of(model, optimizer, batch * len(names))
        one = compiled(one) if xla else one
        self._step = tf.function(lambda *images: self.strategy.run(one, args=images))

    def images(self) -> Any:
        """A batch of one device."""
        pictures = tf.random.stateless_uniform((self.batch, self.side, self.side, 3), (1, 1))
        return pictures, tf.range(self.batch) % 1000

    def pipeline(self) -> Any:
        """Batches that the CPU makes of stored pictures, as a training does."""
        pictures, kinds = self.images()
        stored = tf.data.Dataset.from_tensors((tf.cast(pictures * 255, tf.uint8), kinds)).repeat()

        def made(pictures: Any, kinds: Any) -> Any:
            pictures = tf.image.random_flip_left_right(tf.cast(pictures, tf.float32) / 255)
            return tf.image.random_brightness(pictures, 0.1), kinds

        return stored.map(made, num_parallel_calls=tf.data.experimental.AUTOTUNE)

    def rate(self, batches: Any = None) -> float:
        """Images a second; without `batches` of images that lie on the devices."""
        if batches is None:
            held = [self._held(part) for part in self.images()]
            following = iter(lambda: held, None)
        else:
            following = iter(batches)
        least = size(self.given, 5, 0.3)
        for _turn in range(2):  # the first ones compile and choose algorithms
            last = self._step(*next(following))
        self._wait(last)
        started, steps = time.perf_counter(), 0
        while time.perf_counter() - started < least:
            for _turn in range(size(self.given, 10, 1)):
                last = self._step(*next(following))
                steps += 1
            self._wait(last)
        return steps * self.batch * len(self.names) / (time.perf_counter() - started)

    def _held(self, part: Any) -> Any:
        """One on each device."""

        def copy(context: Any) -> Any:
            with tf.device(self.names[context.replica_id_in_sync_group]):
                return tf.identity(part)

        return self.strategy.experimental_distribute_values_from_function(copy)

    def _wait(self, losses: Any) -> None:
        """Until the result is there: the devices work on while Python goes on."""
        for loss in self.strategy.experimental_local_results(losses):
            loss.numpy()


def step_of(model: Any, optimizer: Any, batch: int) -> Any:
    """One step of the training, on one device of them."""
    mixed = hasattr(optimizer, "get_scaled_loss")  # Keras 2
    scaled = hasattr(optimizer, "scale_loss")  # Keras 3

    def step(pictures: Any, kinds: Any) -> Any:
        with tf.GradientTape() as tape:
            said = model(pictures, training=True)
            each = tf.keras.losses.sparse_categorical_crossentropy(kinds, said)
            loss = tf.reduce_sum(each) / batch
            large = loss
            if mixed:
                large = optimizer.get_scaled_loss(loss)
            elif scaled:
                large = optimizer.scale_loss(loss)
        gradients = tape.gradient(large, variables(model))
        if mixed:
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905
        return loss

    return step


if __name__ == "__main__":
    main()
