"""MirroredStrategy: train on all GPUs of the host at once

Each GPU has a replica of the model and a share of every batch. Without two GPUs the strategy runs
on two halves of the CPU: it computes the same, and is no faster.
"""

# %%
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's own log

import numpy as np
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)  # leave the rest to others

# %%
if len(gpus) > 1:
    devices = ["GPU:%d" % number for number in range(len(gpus))]
else:
    half = tf.config.LogicalDeviceConfiguration()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [half, half])
    devices = ["CPU:0", "CPU:1"]
strategy = tf.distribute.MirroredStrategy(devices)
replicas = strategy.num_replicas_in_sync
print("%d replicas: %s" % (replicas, ", ".join(devices)))

# %% [markdown]
# ## The batch
# What `fit` gets is the global batch, which is divided among the replicas: 64 images for each. With
# more replicas fewer steps are made in an epoch, so the learning rate is often raised with them.

# %%
random = np.random.RandomState(0)
labels = random.randint(0, 10, size=4096)
patterns = random.rand(10, 28, 28, 1)
images = (patterns[labels] + random.normal(0, 0.5, (len(labels), 28, 28, 1))).astype("float32")

batch = 64 * replicas
data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).batch(batch)
options = tf.data.Options()
# Images in memory are divided, and not files.
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = data.with_options(options).prefetch(tf.data.experimental.AUTOTUNE)

# %% [markdown]
# ## The model
# Model and optimizer are made in the strategy's scope: their variables are then mirrored.

# %%
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])

# %%
model.fit(data, epochs=1, verbose=0)  # builds the graph
start = time.perf_counter()
history = model.fit(data, epochs=2, verbose=0)
seconds = time.perf_counter() - start
accuracy = history.history["accuracy"][-1]
kind = devices[0].split(":")[0]
print(
    "%d x %s: %.0f images/s, accuracy %.3f" % (replicas, kind, 2 * len(images) / seconds, accuracy)
)
assert accuracy > 0.9

# %%
if kind == "CPU":
    print("not two GPUs: the replicas were two halves of the CPU")
