"""What TensorFlow itself says of a SavedModel: its serving signature's outputs for a fixed input.

Run by the host's own TensorFlow. The last line is JSON: {signature, inputs, outputs}, or
{none: why} of a model that takes no such input.
"""

import base64
import json
import sys

import tensorflow as tf

# A dimension that may be anything is 1, and where the model does not take that, one of these.
SIZES = (1, 8, 32, 224)
MOST = 1 << 20


def value(spec, size):
    """Ones of the signature's shape; of whole numbers and words zeros and empty ones."""
    if spec.shape.rank is None:
        shape = [size]
    else:
        # The first is the batch.
        shape = [(1 if place == 0 else size) if one is None else one
                 for place, one in enumerate(spec.shape.as_list())]  # fmt: skip
    count = 1
    for one in shape:
        count *= one
    if count > MOST:
        raise ValueError("its input is too large")
    if spec.dtype == tf.string:
        return tf.fill(shape, tf.constant(b""))
    if spec.dtype.is_floating:
        return tf.ones(shape, spec.dtype)
    return tf.zeros(shape, spec.dtype)


def plain(tensor):
    """A tensor as JSON has it; bytes as TensorFlow Serving's REST interface has them."""

    def one(item):
        if isinstance(item, list):
            return [one(each) for each in item]
        if isinstance(item, bytes):
            try:
                return item.decode()
            except UnicodeDecodeError:
                return {"b64": base64.b64encode(item).decode()}
        return item

    return one(tensor.numpy().tolist())


def answered(path):
    """{signature, inputs, outputs}, or {none: why}."""
    model = tf.saved_model.load(path)
    if "serving_default" not in model.signatures:
        return {"none": "it has no signature serving_default"}
    function = model.signatures["serving_default"]
    specs = function.structured_input_signature[1]
    why = ""
    for size in SIZES:
        try:
            inputs = {name: value(specs[name], size) for name in specs}
            outputs = function(**inputs)
        except Exception as error:  # whatever a model says of its input
            why = str(error)
            continue
        return {
            "signature": "serving_default",
            "inputs": {name: plain(inputs[name]) for name in inputs},
            "outputs": {name: plain(outputs[name]) for name in outputs},
        }
    return {"none": "it takes no input of ones: " + why[:200]}


sys.stdout.write(json.dumps(answered(sys.argv[1])) + "\n")
