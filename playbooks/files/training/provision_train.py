"""For scripts that `provision train` starts: their strategy, what keeps them, and their end.

    import provision_train

    strategy = provision_train.strategy()
    with strategy.scope():
        model = ...
    model.fit(..., callbacks=provision_train.callbacks())
    provision_train.finish(model)

Keras 3, which TensorFlow has from 2.16 on, has no `fit` across workers: see `steps`.

Without `provision train` the same script runs by itself, as the only worker. For every TensorFlow
from 2.4 on, and Python from 3.6 on.
"""

import inspect
import json
import os
import shutil
import time

# The worker's own folder: backup, logs and the final model are below it.
FOLDER = os.environ.get("PROVISION_TRAINING") or os.getcwd()
_STATE = os.path.join(FOLDER, ".job")


def number():
    """This worker's number; 0 is the chief."""
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    return int(config.get("task", {}).get("index", 0))


def strategy():
    """MultiWorkerMirroredStrategy that communicates as the job says: AUTO, NCCL or RING.

    To be called before TensorFlow has computed anything: it starts the worker's server.
    """
    import tensorflow as tf

    words = os.environ.get("PROVISION_TRAINING_COMMUNICATION") or "AUTO"
    chosen = tf.distribute.experimental.CommunicationImplementation[words]
    options = tf.distribute.experimental.CommunicationOptions(implementation=chosen)
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    made = getattr(tf.distribute, "MultiWorkerMirroredStrategy", None)
    if made is None:
        made = tf.distribute.experimental.MultiWorkerMirroredStrategy
    return made(communication_options=options)


def callbacks():
    """BackupAndRestore, progress and, on the chief, TensorBoard's logs.

    Raises RuntimeError where `fit` can't train on several workers.
    """
    import importlib.util

    import tensorflow as tf

    if by_steps():
        raise RuntimeError(
            "Keras 3 has no fit across workers (https://github.com/keras-team/keras/issues/20585): "
            "train by provision_train.steps, or install tf_keras and set TF_USE_LEGACY_KERAS=1"
        )
    made = [_backup(tf), _progress(tf)]
    if number() == 0 and importlib.util.find_spec("tensorboard") is not None:
        made.append(tf.keras.callbacks.TensorBoard(os.path.join(FOLDER, "logs")))
    return made


def _backup(tf):
    """BackupAndRestore that keeps its backup: the final model is saved only after the training.

    By default it is removed with the last epoch, and who is killed then begins at the first.
    """
    base = getattr(tf.keras.callbacks, "BackupAndRestore", None)
    if base is None:
        # Before TensorFlow 2.8.
        base = tf.keras.callbacks.experimental.BackupAndRestore
    folder = os.path.join(FOLDER, "backup")
    known = inspect.signature(base.__init__).parameters
    if "delete_checkpoint" in known:
        # Keras 3 writes over its backup: who is killed meanwhile goes on from the one before.
        more = {"double_checkpoint": True} if "double_checkpoint" in known else {}
        return base(folder, delete_checkpoint=False, **more)

    class Kept(base):
        def on_train_end(self, logs=None):
            state = getattr(self, "_training_state", None)
            if state is not None:
                state.delete_backup = lambda: None
            super().on_train_end(logs)

    return Kept(folder)


def _progress(tf):
    class Progress(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            _say("epoch %d begins" % (epoch + 1))

        def on_epoch_end(self, epoch, logs=None):
            figures = {}
            for name, value in (logs or {}).items():
                try:
                    figures[name] = float(value)
                except (TypeError, ValueError):
                    pass
            words = ", ".join("%s %.4g" % pair for pair in sorted(figures.items()))
            _say("epoch %d of %s: %s" % (epoch + 1, self.params.get("epochs"), words))
            content = {"epoch": epoch + 1, "epochs": self.params.get("epochs"), "at": time.time()}
            _write("progress.json", dict(content, figures=figures))

    return Progress()


def by_steps():
    """Whether there are several workers and Keras is 3, whose `fit` fails with them."""
    import tensorflow as tf

    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    several = len(config.get("cluster", {}).get("worker", [])) > 1
    # Keras 2 says its version where TensorFlow has a Keras of its own, too.
    return several and not str(getattr(tf.keras, "__version__", "2")).startswith("2")


def steps(chosen, model, data, epochs, losses, batch):
    """Trains a compiled model on all workers, from the epoch after the last backup on.

    What `fit` with `callbacks` does, for Keras 3: by steps of the strategy `chosen`, without
    metrics. data: a tf.data.Dataset of (features, labels) in global batches of `batch` examples;
    losses(labels, predictions): a number for each example, as functions of tf.keras.losses return
    it. Returns the numbers of the epochs that were trained now.
    """
    import tensorflow as tf

    optimizer = model.optimizer
    with chosen.scope():
        optimizer.build(model.trainable_variables)
        done = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    kept = tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
    folder = os.path.join(FOLDER, "backup")
    newest = tf.train.latest_checkpoint(folder)
    if newest:
        kept.restore(newest).assert_existing_objects_matched()

    def step(features, labels):
        with tf.GradientTape() as tape:
            each = losses(labels, model(features, training=True))
            # All replicas' gradients are added up.
            loss = tf.nn.compute_average_loss(each, global_batch_size=batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    @tf.function
    def together(features, labels):
        return chosen.reduce("SUM", chosen.run(step, (features, labels)), axis=None)

    progress = _progress(tf)
    progress.params = {"epochs": epochs}
    divided = chosen.experimental_distribute_dataset(data)
    trained = []
    for epoch in range(int(done.numpy()), epochs):
        progress.on_epoch_begin(epoch)
        seen = [together(features, labels) for features, labels in divided]
        done.assign(epoch + 1)
        _save(kept, folder)
        progress.on_epoch_end(epoch, {"loss": sum(map(float, seen)) / max(len(seen), 1)})
        trained.append(epoch)
    return trained


def _save(kept, folder):
    """All workers take part in saving, for what they have divided; the chief's is kept.

    The former backup stays until the new one is whole.
    """
    import tensorflow as tf

    place = folder if number() == 0 else os.path.join(FOLDER, "not-the-chiefs", "backup")
    tf.train.CheckpointManager(kept, place, max_to_keep=2).save()
    if number() != 0:
        shutil.rmtree(os.path.dirname(place), ignore_errors=True)


def finish(model, path="final"):
    """Saves the model, and marks the training as complete; every worker calls it.

    All of them take part in saving, for what they have divided among them. The chief's is kept, as
    a SavedModel or, where the path ends so, as one file.
    """
    chief = number() == 0
    target = os.path.join(FOLDER, path)
    place = target if chief else os.path.join(FOLDER, "not-the-chiefs", path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if not os.path.splitext(place)[1] and not _keras_2(model):
        model.export(place)
    else:
        model.save(place)
    if chief:
        _write("complete.json", {"model": target, "at": time.time()})
        _say("complete: %s" % target)
    else:
        shutil.rmtree(os.path.join(FOLDER, "not-the-chiefs"), ignore_errors=True)


def _keras_2(model):
    """Keras 3 saves models as files alone, and exports SavedModels."""
    return not hasattr(model, "export") or "include_optimizer" in str(inspect.signature(model.save))


def _say(words):
    print("[worker %d] %s" % (number(), words), flush=True)


def _write(name, content):
    """Atomically, where there is a supervisor to read it."""
    if not os.path.isdir(_STATE):
        return
    path = os.path.join(_STATE, name)
    with open(path + ".new", "w") as stream:
        json.dump(content, stream)
    os.replace(path + ".new", path)
