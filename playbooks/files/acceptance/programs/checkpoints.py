"""A training that is killed and started again: does it go on where it was, to the same end?

The training runs in processes of its own: one that is ended with SIGKILL, as a lost card or the
kernel's OOM killer ends it, and one that resumes from what the first has left.
"""

from __future__ import annotations

import glob
import os
import time
from typing import Any

import numpy as np
import tensorflow as tf

from . import children
from .common import answer, arguments, devices, seed
from .digits import KINDS, SIDE, digits

NAME = "checkpoints"
ROWS, BATCH, EPOCHS = 4096, 64, 4
STEPS = ROWS // BATCH
# Where it is killed when nothing else is said: in the middle of the third epoch.
EPOCH, STEP = 2, STEPS // 2


def main() -> None:
    """{killed, began, may_begin, difference, files, saved}.

    killed: {epoch, step} of the last step that was told, counted from 0; None where the training
    had ended before. began: the epoch that the second process began with; may_begin: those that it
    may have begun with: several, where the kill was after an epoch's last step.
    difference: of the weights at the end from those of a training that nobody killed, relative.
    files: the ModelCheckpoint files that were written, of `epochs`; saved: the difference of the
    last one from the weights at the end.

    `kill_after`: seconds after the first step at which it is killed.
    """
    given = arguments()
    if "part" in given:
        train(given)
        return
    with children.scratch(given) as folder:
        cut, whole = (os.path.join(folder, name) for name in ("cut", "whole"))
        killed = kill(dict(given, part=cut), given.get("kill_after"))
        ended = finish(dict(given, part=cut))
        undisturbed = finish(dict(given, part=whole))
        answer(
            killed=killed,
            began=ended["began"],
            may_begin=may_begin(killed),
            difference=distance(cut, whole),
            loss=[ended["loss"], undisturbed["loss"]],
            files=len(glob.glob(os.path.join(cut, "epoch-*.h5"))),
            epochs=EPOCHS,
            saved=ended["saved"],
        )


def kill(given: dict[str, Any], after: float | None) -> dict[str, int] | None:
    """Starts a training and kills it; where it was."""
    process = children.start(NAME, given)
    assert process.stdout is not None  # noqa: S101 for the type checker
    last = None
    for line in process.stdout:
        facts = children.read(line) or {}
        if "step" not in facts:
            continue
        last = facts
        if after is not None:
            time.sleep(after)
            break
        if (facts["epoch"], facts["step"]) == (EPOCH, STEP):
            break
    process.kill()
    # What it still told, of which the pipe keeps some thousand steps.
    rest = [children.read(line) or {} for line in process.stdout]
    ended = process.wait() >= 0
    process.stdout.close()
    told = [facts for facts in rest if "step" in facts]
    return None if ended else (told[-1] if told else last)


def may_begin(killed: dict[str, int] | None) -> list[int | None]:
    if killed is None:
        return []
    epoch = killed["epoch"]
    if killed["step"] < STEPS - 1:
        return [epoch]
    # At the training's end Keras takes the backup away: None, nothing was left to do, or anew.
    return [epoch, epoch + 1] if epoch + 1 < EPOCHS else [epoch, None, 0]


def finish(given: dict[str, Any]) -> dict[str, Any]:
    """A training to its end: what it told at last. Raises RuntimeError where it fails."""
    answers, error = children.ask(NAME, given)
    if error:
        raise RuntimeError("the training failed: {0}".format(error))
    return answers[-1]


def distance(one: str, two: str) -> float:
    """Between the weights that two trainings have left."""
    left, right = (
        np.concatenate([part.reshape(-1) for part in load(folder)]).astype("float64")
        for folder in (one, two)
    )
    return float(np.linalg.norm(left - right) / np.linalg.norm(right))


def load(folder: str) -> list[Any]:
    with np.load(os.path.join(folder, "weights.npz")) as kept:
        return [kept[name] for name in kept.files]


class Tell(tf.keras.callbacks.Callback):  # type: ignore[misc]  # TensorFlow has no types
    """Tells every step, so that the one who kills knows where it was."""

    began: int | None = None
    epoch = 0

    def on_epoch_begin(self, epoch: int, *_: Any, **__: Any) -> None:
        self.began = epoch if self.began is None else self.began
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, *_: Any, **__: Any) -> None:
        os.write(1, children.told(epoch=self.epoch, step=int(batch)))


def train(given: dict[str, Any]) -> None:
    """Trains from what the folder `part` has, and leaves its weights there."""
    # Of equal numbers come equal sums: no algorithm is chosen by its speed of the moment.
    os.environ["TF_DETERMINISTIC_OPS"] = "1"
    folder = given["part"]
    os.makedirs(folder, exist_ok=True)
    pictures, kinds = digits(ROWS)
    seed()
    tell = Tell()
    path = os.path.join(folder, "epoch-{epoch}.weights.h5")
    with tf.device(devices(given)[0]):
        model = network()
        history = model.fit(
            pictures, kinds, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0,
            callbacks=[
                tf.keras.callbacks.ModelCheckpoint(path, save_weights_only=True),
                backup(os.path.join(folder, "backup")),
                tell,
            ],
        )  # fmt: skip
        ended = model.get_weights()
        np.savez(os.path.join(folder, "weights.npz"), *ended)
        model.load_weights(path.format(epoch=EPOCHS))
        read = model.get_weights()
        saved = max(np.abs(read[i] - part).max() for i, part in enumerate(ended))
    losses = history.history.get("loss") or [None]
    answer(began=tell.began, loss=losses[-1], saved=float(saved))


def backup(folder: str) -> Any:
    """The callback; it was experimental before TensorFlow 2.8."""
    callbacks = tf.keras.callbacks
    if hasattr(callbacks, "BackupAndRestore"):
        return callbacks.BackupAndRestore(folder)
    return callbacks.experimental.BackupAndRestore(folder)


def network() -> Any:
    """With momentum, which a backup has to keep too."""
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Flatten(input_shape=(SIDE, SIDE)),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(KINDS, activation="softmax"),
        ]
    )
    optimizer = tf.keras.optimizers.SGD(0.02, momentum=0.9)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


if __name__ == "__main__":
    main()
