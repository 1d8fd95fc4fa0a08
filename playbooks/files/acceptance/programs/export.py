"""What is left of a training: logs, a SavedModel and a TFLite model, read by other processes.

One process trains and writes, this one reads. The conversions are made by a third: TFLite's
converter ends its process where it can't go on.
"""

from __future__ import annotations

import glob
import importlib
import os
import re
from typing import Any

import numpy as np
import tensorflow as tf

from . import children
from .common import answer, arguments, devices, seed
from .digits import KINDS, SIDE, digits

NAME = "export"
EPOCHS = 3
ROWS = 2048
# Of the pictures that the models are compared on.
COMPARED = 32
PLAIN, MIXED = "float32", "mixed_float16"


def main() -> None:
    """{logs, saved_model, lite}.

    logs: {error, logged, trained}, the loss of each epoch as TensorBoard's files and as the
    training have it. saved_model: {difference}. lite: {float32, mixed_float16}, each {error,
    difference}. A difference is the largest of the probabilities that the models say.
    """
    given = arguments()
    if given.get("part") == "train":
        train(given)
    elif given.get("part") == "convert":
        convert(given)
    else:
        with children.scratch(given) as folder:
            read(given, folder)


def read(given: dict[str, Any], folder: str) -> None:
    answers, error = children.ask(NAME, dict(given, part="train", at=folder))
    if error:
        raise RuntimeError("the training failed: {0}".format(error))
    said = np.load(os.path.join(folder, "said.npy"))
    lite: dict[str, Any] = {}
    lines, error = children.ask(NAME, dict(given, part="convert", at=folder))
    for line in lines:
        lite.update(line)
    for name in (PLAIN, MIXED):
        lite.setdefault(name, {"error": error, "difference": None})

    with tf.device(devices(given)[0]):
        exact()
        loaded = tf.saved_model.load(os.path.join(folder, PLAIN))
        serve = loaded.signatures["serving_default"]
        (again,) = serve(tf.constant(pictures(ROWS)[0][:COMPARED])).values()
    difference = float(np.abs(again.numpy() - said).max())
    answer(logs=answers[-1], saved_model={"difference": difference}, lite=lite)


def exact() -> None:
    """Computes with all bits of float32, which the models' comparison needs."""
    tf.config.experimental.enable_tensor_float_32_execution(False)


def pictures(rows: int) -> tuple[Any, Any]:
    made, kinds = digits(rows)
    return made.reshape(-1, SIDE, SIDE, 1), kinds


def network() -> Any:
    return tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(16, 3, activation="relu", input_shape=(SIDE, SIDE, 1)),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(KINDS),
            # A mixed model ends in float32, or its probabilities are too coarse.
            tf.keras.layers.Activation("softmax", dtype="float32"),
        ]
    )


def train(given: dict[str, Any]) -> None:
    """Trains, logs and exports; answers with the losses and with those that were logged."""
    folder = given["at"]
    logs = os.path.join(folder, "logs")
    seed()
    exact()
    losses: list[float] = []
    with tf.device(devices(given)[0]):
        model = network()
        model.compile("adam", "sparse_categorical_crossentropy")
        trained, kinds = pictures(ROWS)
        error = None
        try:
            importlib.import_module("tensorboard")  # TensorFlow's summaries are in it
        except ImportError as missing:
            error, callbacks = str(missing), []
        else:
            # Profiling needs rights that a program of a user has not.
            callbacks = [tf.keras.callbacks.TensorBoard(logs, profile_batch=0)]
        history = model.fit(
            trained, kinds, batch_size=128, epochs=EPOCHS, verbose=0, callbacks=callbacks
        )
        losses = [float(loss) for loss in history.history["loss"]]
        np.save(os.path.join(folder, "said.npy"), model(trained[:COMPARED]).numpy())
        export(model, os.path.join(folder, PLAIN))

        tf.keras.mixed_precision.set_global_policy(MIXED)
        mixed = network()
        mixed.set_weights(model.get_weights())
        export(mixed, os.path.join(folder, MIXED))
    answer(error=error, logged=logged(logs) if error is None else [], trained=losses)


def export(model: Any, path: str) -> None:
    """A SavedModel; Keras 3 calls it by another name."""
    if tf.keras.__version__.startswith("3."):
        model.export(path)
    else:
        model.save(path)


def logged(folder: str) -> list[float]:
    """The loss of each epoch in TensorBoard's files, in their order."""
    found: dict[int, float] = {}
    for path in glob.glob(os.path.join(folder, "**", "*tfevents*"), recursive=True):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "epoch_loss":
                    # Older versions write no tensor.
                    plain = value.WhichOneof("value") == "simple_value"
                    loss = value.simple_value if plain else tf.make_ndarray(value.tensor)
                    found[event.step] = float(loss)
    return [found[step] for step in sorted(found)]


def convert(given: dict[str, Any]) -> None:
    """Answers once for each model, so that what is known stays where the converter crashes."""
    folder = given["at"]
    said = np.load(os.path.join(folder, "said.npy"))
    for name in (PLAIN, MIXED):
        try:
            again = lite(os.path.join(folder, name))
        except Exception as error:  # the converter's own, of every kind
            answer(**{name: {"error": words(str(error)), "difference": None}})
        else:
            difference = float(np.abs(again - said).max())
            answer(**{name: {"error": None, "difference": difference}})


def words(error: str) -> str:
    """The converter's error in a line; it names operations in a page of its own notation."""
    operations = sorted(set(re.findall(r"'(tfl?\.\w+)' op", error)))
    if operations:
        return "TFLite has no {0} for these types".format(", ".join(operations))
    return (error.strip().splitlines() or ["no reason was given"])[0][:300]


def lite(path: str) -> Any:
    """What the SavedModel says of the pictures when it is converted to TFLite."""
    converter = tf.lite.TFLiteConverter.from_saved_model(path)
    interpreter = tf.lite.Interpreter(model_content=converter.convert())
    (given,), (told,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(given["index"], (COMPARED, SIDE, SIDE, 1))
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], pictures(ROWS)[0][:COMPARED])
    interpreter.invoke()
    return interpreter.get_tensor(told["index"])


if __name__ == "__main__":
    main()
