"""Mixed precision: float16 for speed, float32 for the weights

Tensor cores (compute capability 7.0 and higher: V100, T4, A100, RTX 20 and newer) multiply 16-bit
numbers several times as fast. The weights stay in 32 bits. Without a GPU the same steps run on the
CPU, which is mostly slower with 16 bits.
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
device = "GPU" if gpus else "CPU"

# %%
random = np.random.RandomState(0)
size, batch, count = (4096, 256, 8192) if gpus else (128, 32, 512)  # a CPU is slow with float16
labels = random.randint(0, 10, size=count)
patterns = random.rand(10, 784)
images = (patterns[labels] + random.normal(0, 0.5, (count, 784))).astype("float32")

# %% [markdown]
# ## Three rules
# - Set the policy before the model is made.
# - Widths of layers and the batch are multiples of 8: tensor cores want that.
# - The last layer's result is float32: a softmax of 16 bits loses too much.
#
# `fit` scales the loss by itself, so that small gradients do not become 0. A training loop of your
# own needs `tf.keras.mixed_precision.LossScaleOptimizer`.


# %%
def train(policy):
    tf.keras.mixed_precision.set_global_policy(policy)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(size, activation="relu"),
            tf.keras.layers.Dense(size, activation="relu"),
            tf.keras.layers.Dense(10),
            tf.keras.layers.Activation("linear", dtype="float32"),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    model.fit(images, labels, batch_size=batch, epochs=1, verbose=0)  # builds the graph
    start = time.perf_counter()
    history = model.fit(images, labels, batch_size=batch, epochs=3, verbose=0)
    rate = 3 * count / (time.perf_counter() - start)
    accuracy = history.history["accuracy"][-1]
    print("%s, %s: %.0f images/s, accuracy %.3f" % (device, policy, rate, accuracy))
    weights = model.layers[0].weights[0]
    print("  the weights are %s" % tf.as_dtype(weights.dtype).name)
    assert accuracy > 0.9
    return rate


# %%
plain, mixed = train("float32"), train("mixed_float16")
tf.keras.mixed_precision.set_global_policy("float32")  # for what comes after
print("mixed_float16 is %.2f times as fast as float32 on this %s" % (mixed / plain, device))
if not gpus:
    print("no GPU: what tensor cores gain is not shown by this")
