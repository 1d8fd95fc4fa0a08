"""Which GPUs TensorFlow sees, by their addresses on the PCI bus, and what it was built for."""

from __future__ import annotations

import re

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import device_lib

from .common import answer

ADDRESS = re.compile(r"pci bus id: ([0-9a-fA-F:.]+)")


def main() -> None:
    physical = tf.config.list_physical_devices("GPU")
    # Only a device that is opened says its address; without this it would take all its memory.
    options = config_pb2.ConfigProto()
    options.gpu_options.allow_growth = True
    texts = [device.physical_device_desc for device in device_lib.list_local_devices(options)]
    addresses = [match.group(1).lower() for match in map(ADDRESS.search, texts) if match]
    answer(
        version=tf.__version__,
        built_with_cuda=tf.test.is_built_with_cuda(),
        physical=len(physical),
        addresses=addresses,
    )


if __name__ == "__main__":
    main()
