"""What every program needs: its devices, its arguments, and the line that it answers with."""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any, Callable

import numpy as np
import tensorflow as tf

# Before the line with the answer; libraries print what they like.
MARK = "PROVISION "


def arguments() -> dict[str, Any]:
    """The JSON of the command line: `kind` ("GPU" or "CPU"), `count`, and what a program has."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def answer(**facts: Any) -> None:
    """Prints the facts as the program's answer."""
    print(MARK + json.dumps(facts))  # noqa: T201 the program's output


def devices(given: dict[str, Any]) -> list[str]:
    """Names of the `count` devices to work on.

    GPUs take memory as they need it: others may be on them. Where there is no GPU they are logical
    CPU devices. Raises RuntimeError where TensorFlow has not so many.
    """
    kind, count = given["kind"], given["count"]
    physical = tf.config.list_physical_devices(kind)
    if kind == "GPU":
        for device in physical:
            tf.config.experimental.set_memory_growth(device, True)
    else:
        logical = [tf.config.LogicalDeviceConfiguration() for _turn in range(count)]
        tf.config.set_logical_device_configuration(physical[0], logical)
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    if len(names) < count:
        raise RuntimeError("TensorFlow has {0} of {1} {2}s".format(len(names), count, kind))
    return names[:count]


def seed() -> None:
    """The same beginning each time; Keras takes its seeds from all three, by its version."""
    random.seed(1)
    np.random.seed(1)
    tf.random.set_seed(1)


def variables(model: Any) -> list[Any]:
    """What a model trains, as TensorFlow's own variables; those of Keras 3 have them inside."""
    return [
        entry if isinstance(entry, tf.Variable) else entry.value
        for entry in model.trainable_variables
    ]


def size(given: dict[str, Any], gpu: Any, cpu: Any) -> Any:
    """How large the work is: a CPU that stands in for a GPU gets less."""
    return gpu if given["kind"] == "GPU" else cpu


def seconds(work: Callable[[], Any], least: float, most: int = 1000) -> float:
    """How long `work()` takes: the mean of as many as fit into `least` seconds, after one more.

    `work` returns when its result is there, as `.numpy()` does.
    """
    work()
    started, times = time.perf_counter(), 0
    while times < most:
        work()
        times += 1
        if time.perf_counter() - started >= least:
            break
    return (time.perf_counter() - started) / times
