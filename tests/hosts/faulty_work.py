"""Faults to order for TensorFlow's programs: what is added to programs/common.py in a project.

The product has no switch for them: a test appends one to the rendered project's copy. `BAD` is
true in the process that works on the accused card alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD = """

# Added by a test.
BAD = json.loads(sys.argv[1]).get("uuid") == "{uuid}"
"""


@dataclass(frozen=True)
class Faulty:
    """Code, and the only check that it turns red: (check, of the card, state, action)."""

    code: str
    red: tuple[str, bool, str, str]


WORK = {
    "wrong product": Faulty(
        """
_product = tf.linalg.matmul
tf.linalg.matmul = lambda a, b: _product(a, b) + (1 if BAD else 0) * tf.ones((), a.dtype)
""",
        ("product", True, "failed", "service"),
    ),
    "products that differ": Faulty(
        """
_product, _count = tf.linalg.matmul, []
def _sometimes(a, b):
    _count.append(1)
    last = (1 if BAD and len(_count) % 3 == 0 else 0) * tf.ones((), a.dtype)
    # The last bits alone: far within what a product may be off by.
    return _product(a, b) * (1 + last * tf.cast(2e-3 if a.dtype == tf.float16 else 1e-6, a.dtype))
tf.linalg.matmul = _sometimes
""",
        ("product", True, "failed", "service"),
    ),
    "memory": Faulty(
        """
_nonzero = tf.math.count_nonzero
tf.math.count_nonzero = lambda x: _nonzero(x) + (3 if BAD else 0)
""",
        ("pattern", True, "failed", "service"),
    ),
    "XLA": Faulty(
        """
_function = tf.function
def _compiled(work, **options):
    if BAD and options.get("jit_compile"):
        # Of several arguments: XLA also trains ResNet-50, whose loss nobody judges.
        return lambda *given: work(*given) + 0.5
    return _function(work, **options)
tf.function = _compiled
""",
        ("xla", True, "failed", "configure"),
    ),
    "convolution": Faulty(
        """
_convolution = tf.nn.conv2d
tf.nn.conv2d = lambda *given: _convolution(*given) + (1.0 if BAD else 0.0)
""",
        ("convolution", True, "failed", "service"),
    ),
    "convolution that crashes": Faulty(
        """
import os, signal
_convolution = tf.nn.conv2d
def _crash(*given):
    if BAD:
        os.kill(os.getpid(), signal.SIGSEGV)
    return _convolution(*given)
tf.nn.conv2d = _crash
""",
        ("convolution", True, "failed", "reset"),
    ),
    "a pipeline that starves": Faulty(
        """
_prefetch = tf.data.Dataset.prefetch
def _starved(self, *given, **more):
    # Pictures alone: Keras prefetches too, and ResNet-50 is given pairs.
    pictures = getattr(self.element_spec, "dtype", None) == tf.float32
    if not (BAD and pictures):
        return _prefetch(self, *given, **more)
    def wait(batch):
        time.sleep(0.5)
        return batch
    return self.map(lambda batch: tf.py_function(wait, [batch], tf.float32))
tf.data.Dataset.prefetch = _starved
""",
        ("pipeline", True, "degraded", "configure"),
    ),
    "copies": Faulty(
        """
_identity = tf.identity
tf.identity = lambda x: _identity(x) + 1
""",
        ("copies", False, "failed", "configure"),
    ),
}


@contextlib.contextmanager
def ordered(project: Path, fault: Faulty, uuid: str) -> Iterator[None]:
    """The project's programs have a fault of this card."""
    cure(project)
    path = common(project)
    path.write_text(path.read_text("utf-8") + HEAD.format(uuid=uuid) + fault.code, "utf-8")
    try:
        yield
    finally:
        cure(project)


def cure(project: Path) -> None:
    path = common(project)
    path.write_text(path.read_text("utf-8").partition(HEAD.partition("BAD")[0])[0], "utf-8")


def common(project: Path) -> Path:
    (path,) = project.glob("collections/**/acceptance/programs/common.py")
    return path
