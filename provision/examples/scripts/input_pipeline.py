"""Input pipeline: decode the images while the GPU works

A GPU that waits for its images is the commonest reason for a slow training. Here are 2000 JPEGs,
read plainly, then decoded on all cores, then prefetched, then cached. Works without a GPU, too:
what is measured is the reading, beside a training step on whatever device there is.
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
AUTOTUNE = tf.data.experimental.AUTOTUNE  # as many at once as are of use

# %%
random = np.random.RandomState(0)
noise = random.randint(0, 255, (20, 128, 128, 3), dtype="uint8")
files = [tf.io.encode_jpeg(image).numpy() for image in noise] * 100
labels = random.randint(0, 10, size=len(files))
print("%d JPEGs, %.1f kB each" % (len(files), len(files[0]) / 1000))


# %%
def decode(file, label):
    image = tf.io.decode_jpeg(file, channels=3)
    return tf.image.resize(tf.cast(image, tf.float32) / 255, (64, 64)), label


model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(10),
    ]
)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss)

# %% [markdown]
# ## Four ways
# The order matters: first map, then cache what is expensive and fits into memory, then shuffle,
# then batch, and prefetch at the very end.

# %%
source = tf.data.Dataset.from_tensor_slices((files, labels))
pipelines = {
    "one after another": source.map(decode).batch(64),
    "decoded in parallel": source.map(decode, num_parallel_calls=AUTOTUNE).batch(64),
    "and prefetched": source.map(decode, num_parallel_calls=AUTOTUNE).batch(64).prefetch(AUTOTUNE),
    "and cached": source.map(decode, num_parallel_calls=AUTOTUNE)
    .cache()
    .batch(64)
    .prefetch(AUTOTUNE),
}

# %%
model.fit(pipelines["one after another"].take(2), verbose=0)  # builds the graph
rates = {}
for name, data in pipelines.items():
    if name == "and cached":
        model.fit(data, verbose=0)  # the first epoch fills the cache
    start = time.perf_counter()
    model.fit(data, verbose=0)
    rates[name] = len(files) / (time.perf_counter() - start)
    print("%s: %.0f images/s, trained on the %s" % (name, rates[name], device))

# %%
if not gpus:
    print(
        "no GPU: the training step takes the cores that decode, so less is gained than beside a GPU"
    )
