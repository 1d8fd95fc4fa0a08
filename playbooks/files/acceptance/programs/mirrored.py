"""Training on all devices at once, as tf.distribute.MirroredStrategy does it: is it one training?

A card that takes no part, or whose copies arrive changed, stops nothing and prints nothing: the
training goes on and is worth less. So the numbers are compared with those that must come out.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from .card import Card, Sampler, share
from .common import answer, arguments, devices, seed, size, variables
from .digits import KINDS, SIDE, digits

BATCH = 64  # of one device
STEPS = 100
RATE = 0.02


def main() -> None:
    """{replicas, shares, apart, loss, weights, busy, samples}, by device where it is a list.

    shares: how much of its gradient came into the first step's sum, 1 as it should be. apart: how
    far its own copy of the weights is from the others' after 100 steps. loss, weights: how far
    those are from one device's that was given the same batches. busy: its share of NVML's samples
    in which it worked; None where NVML is not asked. samples: those, as card.Sampler's. Distances
    are relative.
    """
    given = arguments()
    # Of equal numbers come equal sums: no algorithm is chosen by its speed of the moment.
    os.environ["TF_DETERMINISTIC_OPS"] = "1"
    tf.config.experimental.enable_tensor_float_32_execution(False)
    names = devices(given)
    batches = Batches(len(names))
    seed()
    alone = Alone(names[0])
    began = alone.weights()
    together = Together(names, began)
    gradients = [gradient(began, shard) for shard in batches.shards(0)]

    together_loss = [together.step(batches.shards(0))]
    shares = parts(together.weights()[0], began, gradients)
    together_loss += [together.step(batches.shards(number)) for number in range(1, STEPS)]
    alone_loss = [alone.step(batches.whole(number)) for number in range(STEPS)]
    copies, reference = together.weights(), alone.weights()
    samples = watched(given, lambda: together.step(batches.shards(0)))
    middle = np.median([flat(copy) for copy in copies], axis=0)
    answer(
        replicas=int(together.strategy.num_replicas_in_sync),
        shares=shares,
        apart=[distance(flat(copy), middle) for copy in copies],
        loss=distance(np.array(together_loss), np.array(alone_loss)),
        weights=distance(flat(copies[0]) - flat(began), flat(reference) - flat(began)),
        fell=[float(alone_loss[0]), float(alone_loss[-1])],
        busy=[None if each is None else share(each) for each in samples],
        samples=samples,
    )


class Batches:
    """The pictures of each step, and who gets which."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.global_batch = BATCH * replicas
        pictures, self.kinds = digits(self.global_batch * STEPS)
        self.pictures = pictures.reshape(-1, SIDE, SIDE, 1)

    def whole(self, number: int) -> tuple[Any, Any]:
        rows = slice(number * self.global_batch, (number + 1) * self.global_batch)
        return self.pictures[rows], self.kinds[rows]

    def shards(self, number: int) -> list[tuple[Any, Any]]:
        pictures, kinds = (np.split(part, self.replicas) for part in self.whole(number))
        return [(pictures[i], kinds[i]) for i in range(self.replicas)]


def network() -> Any:
    """The small convolutional network of TensorFlow's page on distributed training, but smooth.

    A ReLU and the larger of two numbers choose: a last bit that chooses otherwise, as another
    order of a sum makes it, is worth more than a last bit.
    """
    return tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(32, 3, activation="tanh", input_shape=(SIDE, SIDE, 1)),
            tf.keras.layers.AveragePooling2D(2),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="tanh"),
            tf.keras.layers.Dense(KINDS),
        ]
    )


def optimizer(model: Any) -> Any:
    """Without Adam's division by small numbers, which makes much of a last bit."""
    made = tf.keras.optimizers.SGD(RATE, momentum=0.9)
    if hasattr(made, "build"):  # Keras 2.11 and newer: not within the step
        made.build(model.trainable_variables)
    return made


def loss(model: Any, pictures: Any, kinds: Any) -> Any:
    """The sum over these pictures: a device's share of the loss is this by the global batch."""
    logits = model(pictures, training=True)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=kinds, logits=logits)
    return tf.reduce_sum(each)


def trained(model: Any, by: Any, batch: int) -> Callable[[Any, Any], Any]:
    """One step of this model: its part of the loss."""

    def step(pictures: Any, kinds: Any) -> Any:
        with tf.GradientTape() as tape:
            part = loss(model, pictures, kinds) / batch
        gradients = tape.gradient(part, variables(model))
        by.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905
        return part

    return step


class Alone:
    """The reference: one device that gets the whole batch."""

    def __init__(self, device: str) -> None:
        self.device = device
        with tf.device(device):
            self.model = network()
            self._optimizer = optimizer(self.model)
        self._step: Any = None

    def step(self, batch: tuple[Any, Any]) -> float:
        if self._step is None:
            self._step = tf.function(trained(self.model, self._optimizer, len(batch[1])))
        with tf.device(self.device):
            return float(self._step(*(tf.constant(part) for part in batch)).numpy())

    def weights(self) -> list[Any]:
        return [variable.numpy() for variable in variables(self.model)]


class Together:
    """All devices, in sync."""

    def __init__(self, names: list[str], weights: list[Any]) -> None:
        self.names = names
        self.strategy = tf.distribute.MirroredStrategy(names)
        with self.strategy.scope():
            self.model = network()
            self.model.set_weights(weights)
            self._optimizer = optimizer(self.model)
        one = trained(self.model, self._optimizer, BATCH * len(names))

        def step(pictures: Any, kinds: Any) -> Any:
            parts = self.strategy.run(one, args=(pictures, kinds))
            return self.strategy.reduce(tf.distribute.ReduceOp.SUM, parts, axis=None)

        self._step = tf.function(step)

    def step(self, shards: list[tuple[Any, Any]]) -> float:
        """The loss of the global batch, of which each device gets its shard."""
        return float(self._step(self._each(shards, 0), self._each(shards, 1)).numpy())

    def _each(self, shards: list[tuple[Any, Any]], part: int) -> Any:
        def of(context: Any) -> Any:
            number = context.replica_id_in_sync_group
            with tf.device(self.names[number]):
                return tf.constant(shards[number][part])

        return self.strategy.experimental_distribute_values_from_function(of)

    def weights(self) -> list[list[Any]]:
        """Each device's own copy of the weights."""
        local = [
            self.strategy.experimental_local_results(variable) for variable in variables(self.model)
        ]
        return [
            [copies[replica].numpy() for copies in local]
            for replica in range(self.strategy.num_replicas_in_sync)
        ]


def gradient(weights: list[Any], shard: tuple[Any, Any]) -> Any:
    """What a device adds to the gradient's sum, computed by the CPU, but for the global batch."""
    with tf.device("/device:CPU:0"):
        model = network()
        model.set_weights(weights)
        with tf.GradientTape() as tape:
            whole = loss(model, *shard)
        return flat([part.numpy() for part in tape.gradient(whole, variables(model))])


def parts(weights: list[Any], began: list[Any], gradients: list[Any]) -> list[float]:
    """How often each device's gradient is in what the first step did: by least squares."""
    moved = (flat(began) - flat(weights)) / RATE * BATCH * len(gradients)
    solved = np.linalg.lstsq(np.stack(gradients, axis=1), moved, rcond=None)[0]
    return [float(part) for part in solved]


def flat(weights: list[Any]) -> Any:
    return np.concatenate([np.asarray(part, dtype="float64").reshape(-1) for part in weights])


def distance(one: Any, two: Any) -> float:
    return float(np.linalg.norm(one - two) / np.linalg.norm(two))


def watched(given: dict[str, Any], work: Callable[[], Any]) -> list[list[tuple[float, int]] | None]:
    """Each card's samples while `work` is repeated; None where NVML is not asked."""
    if given["kind"] != "GPU":
        return [None] * given["count"]
    sampler = Sampler([Card(uuid) for uuid in given["uuids"]])
    until = time.perf_counter() + size(given, 6, 0)
    with sampler:
        while time.perf_counter() < until:
            work()
    return list(sampler.samples)


if __name__ == "__main__":
    main()
