"""One GPU: train a dense network on the CPU and on the GPU, and compare

The network of the beginners' tutorial, on made-up images of the size of MNIST's, so that no network
is needed. Without a GPU only the CPU trains.
"""

# %%
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's own log

import numpy as np
import tensorflow as tf

for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(gpu, True)  # leave the rest to others

# %% [markdown]
# ## Images
# Ten classes, each a pattern under noise.

# %%
random = np.random.RandomState(0)
labels = random.randint(0, 10, size=20000)
patterns = random.rand(10, 784)
images = (patterns[labels] + random.normal(0, 1, (len(labels), 784))).astype("float32")
print("%d images of %d numbers" % images.shape)


# %%
def make_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(512, activation="relu"),
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    return model


# %% [markdown]
# ## Training on one device
# Everything that is made under `tf.device` lives there. The first epoch builds the graph, and is
# not timed.

# %%
rates = {}
for device in ["CPU:0"] + ["GPU:0"] * bool(tf.config.list_physical_devices("GPU")):
    with tf.device(device):
        model = make_model()
        model.fit(images, labels, batch_size=128, epochs=1, verbose=0)
        start = time.perf_counter()
        history = model.fit(images, labels, batch_size=128, epochs=2, verbose=0)
        seconds = time.perf_counter() - start
    rates[device] = 2 * len(images) / seconds
    accuracy = history.history["accuracy"][-1]
    print("%s: %.0f images/s, accuracy %.3f" % (device, rates[device], accuracy))
    assert accuracy > 0.9

# %%
if "GPU:0" in rates:
    print("the GPU is %.1f times as fast as the CPU" % (rates["GPU:0"] / rates["CPU:0"]))
else:
    print("no GPU: only the CPU has trained")
