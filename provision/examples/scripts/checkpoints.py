"""Checkpoints and TensorBoard: go on after an interruption, and watch the training

A training that is ended in its middle goes on at its last whole epoch. Writes below `checkpoints/`
and `logs/` of the current folder. Works the same on a GPU and without one.
"""

# %%
import importlib.util
import os
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's own log

import numpy as np
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)  # leave the rest to others
print("training on the", "GPU" if gpus else "CPU (no GPU)")

# %%
random = np.random.RandomState(0)
labels = random.randint(0, 10, size=4096)
patterns = random.rand(10, 784)
images = (patterns[labels] + random.normal(0, 1, (len(labels), 784))).astype("float32")


def make_model():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((784,)),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    return model


# %% [markdown]
# ## What is kept
# `BackupAndRestore` keeps model, optimizer and epoch while a training lasts, and removes them when
# it has ended. `ModelCheckpoint` keeps the weights of each epoch for good. TensorBoard's logs are
# watched with `tensorboard --logdir logs`; a workspace that has a `tensorboard_port` shows them by
# itself.

# %%
checkpoints = os.path.join("checkpoints", "example")
logs = os.path.join("logs", "example")
for folder in (checkpoints, logs):
    shutil.rmtree(folder, ignore_errors=True)  # of this example's last run
os.makedirs(checkpoints)

# Before TensorFlow 2.8 it was experimental.
BackupAndRestore = getattr(tf.keras.callbacks, "BackupAndRestore", None)
if BackupAndRestore is None:
    BackupAndRestore = tf.keras.callbacks.experimental.BackupAndRestore


def callbacks():
    path = os.path.join(checkpoints, "epoch-{epoch:02d}.weights.h5")
    made = [
        BackupAndRestore(os.path.join(checkpoints, "backup")),
        tf.keras.callbacks.ModelCheckpoint(path, save_weights_only=True),
    ]
    if importlib.util.find_spec("tensorboard") is not None:
        made.append(tf.keras.callbacks.TensorBoard(logs))
    return made


# %% [markdown]
# ## An interruption
# In the third of five epochs something happens: here an exception, elsewhere a power cut.


# %%
class Interrupt(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise RuntimeError("interrupted in epoch 3")


class Note(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print("  epoch %d: accuracy %.3f" % (epoch + 1, logs["accuracy"]))
        done.append(epoch + 1)


done = []
try:
    model = make_model()
    model.fit(images, labels, epochs=5, verbose=0, callbacks=[*callbacks(), Note(), Interrupt()])
except RuntimeError as error:
    print(error)
assert done == [1, 2]

# %%
print("the same program, started again:")
model = make_model()
model.fit(images, labels, epochs=5, verbose=0, callbacks=[*callbacks(), Note()])
assert done == [1, 2, 3, 4, 5]

# %% [markdown]
# ## Weights of an epoch

# %%
kept = sorted(name for name in os.listdir(checkpoints) if name.endswith(".h5"))
print("kept:", ", ".join(kept))
restored = tf.keras.models.clone_model(model)  # the same layers with weights of its own
restored.load_weights(os.path.join(checkpoints, kept[-1]))
answers = restored.predict(images, verbose=0)
print("loaded from %s: accuracy %.3f" % (kept[-1], np.mean(np.argmax(answers, axis=1) == labels)))
np.testing.assert_allclose(answers, model.predict(images, verbose=0), rtol=1e-4, atol=1e-4)

# %%
if os.path.isdir(logs):
    events = sum(len(names) for _folder, _folders, names in os.walk(logs))
    print("TensorBoard's logs: %d files in %s" % (events, logs))
else:
    print("tensorboard is not installed here: no logs")
