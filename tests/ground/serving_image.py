"""The image of the stand-in of TensorFlow Serving (serving_stand_in.py), and models to serve.

Both are made on a host that has TensorFlow: of its Python and its environment.
"""

from __future__ import annotations

from pathlib import Path

SERVER = Path(__file__).with_name("serving_stand_in.py")
NAME = "stand-in-of-tensorflow-serving"
# The server on standard input; the image's id as the last line. No CUDA library is taken: the
# models are small.
IMAGE = f"""\
set -e
rm -rf /root/stand-in; mkdir -p /root/stand-in/usr/bin /root/stand-in/tmp
chmod 1777 /root/stand-in/tmp
cat > /root/stand-in/usr/bin/tensorflow_model_server
chmod 755 /root/stand-in/usr/bin/tensorflow_model_server
tar -C / --exclude='libcu*' --exclude='libnv*' --exclude='libnpp*' --exclude='*.a' \\
    --exclude=__pycache__ -cf /root/stand-in.tar opt/tensorflow usr/bin/python3 usr/bin/python3.9 \\
    usr/lib/python3 usr/lib/python3.9 usr/lib/x86_64-linux-gnu $(cd / && ls -d usr/lib64) lib lib64
tar -C /root/stand-in -rf /root/stand-in.tar usr/bin/tensorflow_model_server tmp
docker import --change 'LABEL stand-in="of TensorFlow Serving, for tests"' /root/stand-in.tar {NAME}
rm -r /root/stand-in /root/stand-in.tar
docker image inspect --format '{{{{.Id}}}}' {NAME}
"""
# Arguments: a directory, and versions; version N of it says N * x + 1.
MODELS = """\
import sys
import tensorflow as tf


class Line(tf.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = tf.Variable(slope)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def __call__(self, x):
        return {"y": self.slope * x + 1.0}


for version in sys.argv[2:]:
    line = Line(float(version))
    tf.saved_model.save(line, sys.argv[1] + "/" + version, signatures=line.__call__)
"""
