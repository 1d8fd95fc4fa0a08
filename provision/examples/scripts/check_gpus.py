"""Check the GPUs: what TensorFlow sees, and whether each GPU multiplies right

Lists the GPUs, and multiplies two matrices on each of them and on the CPU. The results must agree.
Without a GPU only the CPU computes, and the last line says so.
"""

# %%
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's own log

import numpy as np
import tensorflow as tf

print("TensorFlow", tf.__version__)
build = tf.sysconfig.get_build_info()
print("built for CUDA", build.get("cuda_version"), "and cuDNN", build.get("cudnn_version"))

# %% [markdown]
# ## The GPUs
# `CUDA_VISIBLE_DEVICES=1,2` in the environment hides the others from a program. By default
# TensorFlow takes the whole memory of every GPU that it sees; with memory growth it takes what it
# needs, and the rest stays for other people.

# %%
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
    details = tf.config.experimental.get_device_details(gpu)
    print(
        gpu.name,
        details.get("device_name"),
        "compute capability",
        details.get("compute_capability"),
    )
print("GPUs:", len(gpus))

# %% [markdown]
# ## The same product everywhere
# The reference is computed by NumPy with 64 bits. A float32 product of 1024 x 1024 numbers between
# 0 and 1 is off by less than 1 in 1000; tensor cores may round its factors to TF32.

# %%
size = 1024
random = np.random.RandomState(0)
left, right = random.rand(size, size), random.rand(size, size)
reference = left @ right

for device in ["CPU:0"] + ["GPU:%d" % number for number in range(len(gpus))]:
    with tf.device(device):
        a, b = tf.constant(left, tf.float32), tf.constant(right, tf.float32)
        product = tf.matmul(a, b).numpy()  # the first one loads libraries
        start = time.perf_counter()
        for _ in range(10):
            result = tf.matmul(a, b)
        result.numpy()  # waits for the device
        seconds = time.perf_counter() - start
    error = np.max(np.abs(product - reference) / reference)
    print(
        "%s: %.0f GFLOP/s, largest relative error %.1e"
        % (device, 10 * 2 * size**3 / seconds / 1e9, error)
    )
    assert error < 1e-3, "%s multiplies wrong" % device

# %%
if gpus:
    print("all %d GPUs multiply right" % len(gpus))
else:
    print("no GPU: only the CPU was checked")
