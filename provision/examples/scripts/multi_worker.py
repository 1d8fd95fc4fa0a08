"""MultiWorkerMirroredStrategy: one training on several hosts at once

Each worker has a replica of the model on every GPU of its host, or on its CPU without a GPU, and a
share of every batch. `provision train HOSTS --script multi_worker.py` starts one on each host, and
all of them again where one is killed: the training then goes on after the last whole epoch. Started
by itself it is the only worker.
"""

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's own log

import numpy as np
import tensorflow as tf

try:
    import provision_train  # `provision train` brings it
except ImportError:
    provision_train = None

# %% [markdown]
# ## The strategy
# It reads from `TF_CONFIG` who the workers are, and starts this one's server: before TensorFlow
# computes anything. `provision_train.strategy` chooses how the workers communicate, too.

# %%
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)  # leave the rest to others
if provision_train is not None:
    strategy = provision_train.strategy()
elif hasattr(tf.distribute, "MultiWorkerMirroredStrategy"):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
else:  # TensorFlow 2.4
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
replicas = strategy.num_replicas_in_sync
where = "GPU" if gpus else "CPU"
words = "%d replicas on %ss" if replicas > 1 else "%d replica on a %s"
print(words % (replicas, where) + ("" if gpus else " (no GPU)"))

# %% [markdown]
# ## The batch
# What `fit` gets is the global batch, which is divided among all replicas of all workers.

# %%
epochs = int(os.environ.get("EPOCHS", "5"))
random = np.random.RandomState(0)  # every worker makes the same data, and takes its share of it
labels = random.randint(0, 10, size=4096)
patterns = random.rand(10, 784)
images = (patterns[labels] + random.normal(0, 1, (len(labels), 784))).astype("float32")

data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels), seed=0)
data = data.batch(64 * replicas)
options = tf.data.Options()
# Images in memory are divided, and not files.
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = data.with_options(options)

# %%
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((784,)),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])

# %% [markdown]
# ## Training
# `provision_train.callbacks` are BackupAndRestore, which a restart goes on from, the progress that
# `provision train --status` shows, and TensorBoard's logs on the first worker. Keras 3 has no `fit`
# across workers (keras-team/keras#20585); there `provision_train.steps` trains. `finish` saves the
# model: the job is complete when that is there.

# %%
if provision_train is not None and provision_train.by_steps():

    def losses(labels, predictions):
        return tf.keras.losses.sparse_categorical_crossentropy(
            labels, predictions, from_logits=True
        )

    trained = provision_train.steps(strategy, model, data, epochs, losses, 64 * replicas)
else:
    callbacks = [] if provision_train is None else provision_train.callbacks()
    trained = model.fit(data, epochs=epochs, verbose=0, callbacks=callbacks).epoch
if trained:
    predicted = model(images[:512]).numpy().argmax(axis=1)
    accuracy = (predicted == labels[:512]).mean()
    print("epoch %d: accuracy %.3f" % (trained[-1] + 1, accuracy))
    assert accuracy > 0.5
if provision_train is not None:
    provision_train.finish(model)
