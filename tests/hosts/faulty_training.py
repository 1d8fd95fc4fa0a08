"""Faults to order for the programs that train; added as faulty_work.py's are, to every process.

The devices of a training on all cards are counted; the second one is accused.
"""

from __future__ import annotations

from faulty_work import Faulty

GRADIENT = """
_gradient = tf.GradientTape.gradient
def _dropped(self, *given, **more):
    found = _gradient(self, *given, **more)
    # A model's gradients are a list; a convolution's own is one tensor, and stays right.
    return [part * 0 for part in found] if isinstance(found, list) and _drops() else found
tf.GradientTape.gradient = _dropped
"""


def without_an_epoch(callback: str) -> str:
    """The callback does not do at the end of the second epoch what it does at others."""
    return f"""
_end = {callback}.on_epoch_end
def _left_out(self, epoch, logs=None):
    if epoch != 1:
        _end(self, epoch, logs)
{callback}.on_epoch_end = _left_out
"""


BACKUP = """
_callbacks = tf.keras.callbacks
_Backup = getattr(_callbacks, "BackupAndRestore", None)
_Backup = _Backup or _callbacks.experimental.BackupAndRestore
"""

# {name: the fault}; `of the card` is whether card 1 is accused.
TRAINING = {
    "nothing learnt": Faulty(
        """
def _drops():
    return BAD
"""
        + GRADIENT,
        ("learns", True, "failed", "service"),
    ),
    "a replica that drops its gradient": Faulty(
        """
def _drops():
    context = tf.distribute.get_replica_context()
    return context is not None and tf.get_static_value(context.replica_id_in_sync_group) == 1
"""
        + GRADIENT,
        ("together", True, "failed", "reset"),
    ),
    "a copy of the weights that changes": Faulty(
        """
_local, _changed = tf.distribute.MirroredStrategy.experimental_local_results, []
def _altered(self, value):
    copies = _local(self, value)
    if not _changed and len(copies) > 1 and isinstance(copies[1], tf.Variable):
        _changed.append(copies[1].assign(copies[1] * 1.001))
    return copies
tf.distribute.MirroredStrategy.experimental_local_results = _altered
""",
        # Of two devices nobody knows which one it is.
        ("replicas", False, "failed", "reset"),
    ),
    "a sum that is another one": Faulty(
        """
_apply = tf.keras.optimizers.SGD.apply_gradients
def _more(self, pairs, *given, **more):
    several = tf.distribute.get_strategy().num_replicas_in_sync > 1
    factor = 1.01 if several else 1.0
    return _apply(self, [(part * factor, entry) for part, entry in pairs], *given, **more)
tf.keras.optimizers.SGD.apply_gradients = _more
""",
        ("replicas", False, "failed", "configure"),
    ),
    "a backup that loses an epoch": Faulty(
        BACKUP + without_an_epoch("_Backup"),
        ("checkpoints", False, "failed", "configure"),
    ),
    "a backup with another weight": Faulty(
        BACKUP
        + """
_begin = _Backup.on_train_begin
def _other(self, logs=None):
    _begin(self, logs)
    weights = self.model.get_weights()
    if abs(weights[1]).max() > 0:  # not at the beginning, where a bias is nothing
        self.model.set_weights([weights[0] * 1.001, *weights[1:]])
_Backup.on_train_begin = _other
""",
        ("checkpoints", False, "failed", "configure"),
    ),
    "a checkpoint that is not written": Faulty(
        without_an_epoch("tf.keras.callbacks.ModelCheckpoint"),
        ("checkpoints", False, "failed", "configure"),
    ),
    "an epoch that is not logged": Faulty(
        without_an_epoch("tf.keras.callbacks.TensorBoard"),
        ("tensorboard", False, "failed", "configure"),
    ),
    "an export that differs": Faulty(
        """
_load = tf.saved_model.load
def _loaded(*given, **more):
    loaded = _load(*given, **more)
    for variable in loaded.signatures["serving_default"].variables:
        variable.assign(variable * 1.05)
    return loaded
tf.saved_model.load = _loaded
""",
        ("saved_model", False, "failed", "configure"),
    ),
    "a conversion that differs": Faulty(
        """
_tensor = tf.lite.Interpreter.get_tensor
tf.lite.Interpreter.get_tensor = lambda self, index: _tensor(self, index) * 1.05
""",
        ("tflite", False, "failed", "configure"),
    ),
    "a conversion that crashes": Faulty(
        """
def _crash(self):
    import os
    os.abort()
tf.lite.Interpreter.allocate_tensors = _crash
""",
        ("tflite", False, "failed", "configure"),
    ),
}

# What is slower and not wrong: measured, and compared with other cards and other days.
SLOW = """
_fit = tf.keras.Model.fit
class _Sleep(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.4 if BAD else 0)  # a step of a busy machine takes a tenth of a second
def _slow(self, *given, callbacks=(), **more):
    return _fit(self, *given, callbacks=[*callbacks, _Sleep()], **more)
tf.keras.Model.fit = _slow
"""
