"""Export: a SavedModel to serve, and a TFLite model for small devices

Both are loaded again, and must answer as the model did. Writes below `exported/` of the current
folder. Works the same on a GPU and without one.
"""

# %%
import os
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's own log

import numpy as np
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)  # leave the rest to others
print("training on the", "GPU" if gpus else "CPU (no GPU)")

# %% [markdown]
# ## A model
# Its layers are float32. One that was trained with `mixed_float16` has layers that TFLite can't
# convert: make the same model under the policy `float32`, and `set_weights` of the trained one.

# %%
random = np.random.RandomState(0)
labels = random.randint(0, 10, size=4096)
patterns = random.rand(10, 784)
images = (patterns[labels] + random.normal(0, 1, (len(labels), 784))).astype("float32")
model = tf.keras.Sequential(
    [
        tf.keras.Input((784,)),
        tf.keras.layers.Dense(128, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(images, labels, epochs=3, verbose=0)
print("trained: accuracy %.3f" % history.history["accuracy"][-1])
expected = model.predict(images[:32], verbose=0)

# %% [markdown]
# ## SavedModel
# TensorFlow Serving reads `exported/example/1`; the number is the version. What serves is a clone,
# with the layers and their weights, and without the optimizer and the training step.

# %%
folder = os.path.join("exported", "example")
shutil.rmtree(folder, ignore_errors=True)  # of this example's last run
saved = os.path.join(folder, "1")
serving = tf.keras.models.clone_model(model)
serving.set_weights(model.get_weights())
if hasattr(serving, "export"):  # newer releases
    serving.export(saved)
else:
    serving.save(saved)

serve = tf.saved_model.load(saved).signatures["serving_default"]
(name,) = serve.structured_input_signature[1]
(answer,) = serve(**{name: tf.constant(images[:32])}).values()
difference = np.max(np.abs(answer.numpy() - expected))
print("%s: largest difference %.1e" % (saved, difference))
assert difference < 1e-4

# %% [markdown]
# ## TFLite

# %%
lite = tf.lite.TFLiteConverter.from_saved_model(saved).convert()
path = os.path.join(folder, "model.tflite")
with open(path, "wb") as file:
    file.write(lite)
print("%s: %.0f kB" % (path, len(lite) / 1000))

# %%
if hasattr(tf.lite, "Interpreter"):
    interpreter = tf.lite.Interpreter(model_path=path)
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    interpreter.resize_tensor_input(source["index"], [32, 784])
    interpreter.allocate_tensors()
    interpreter.set_tensor(source["index"], images[:32])
    interpreter.invoke()
    difference = np.max(np.abs(interpreter.get_tensor(target["index"]) - expected))
    print("TFLite: largest difference %.1e" % difference)
    assert difference < 1e-4
else:
    print("this TensorFlow has no interpreter of TFLite any more: `pip install ai-edge-litert`")
