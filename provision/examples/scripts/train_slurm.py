#!/opt/tensorflow/current/bin/python
# fmt: off
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --time=1:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# fmt: on
"""Slurm: train on several hosts at once, and go on where a host fails

`sbatch train_slurm.py` in a folder that all nodes share: each node starts a worker, and they train
one model (MultiWorkerMirroredStrategy). Where a node fails Slurm starts the job anew, on others,
and it goes on with the last whole epoch. Without Slurm it trains with one worker. Without a GPU
(`sbatch --gpus-per-node=0 train_slurm.py`) the workers compute on their CPUs, and say so.
"""

# %%
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's own log

# %% [markdown]
# ## A worker on each node
# Slurm runs the script once, on the first node. It asks for as many workers as the job has tasks,
# and gives each of them itself: `srun` hands its input to all.

# %%
in_job = "SLURM_JOB_ID" in os.environ
if in_job and "SLURM_STEP_ID" not in os.environ:
    os.dup2(os.open(os.path.abspath(__file__), os.O_RDONLY), 0)
    os.execvp("srun", ["srun", "--kill-on-bad-exit=1", sys.executable, "-"])

import numpy as np
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)  # leave the rest to others


# %% [markdown]
# ## Who the others are
# TensorFlow's resolver reads the job from Slurm. Three things are done here in its place: it takes
# `gpu[01-02]` for gpu1 and gpu2 (until TensorFlow 2.10), it sorts the nodes by name, which may not
# be Slurm's order, and it can't do without GPUs. The port is the job's own, so that two jobs of a
# node do not meet.


# %%
class Resolver(tf.distribute.cluster_resolver.SlurmClusterResolver):
    def _resolve_hostlist(self):
        return os.popen("scontrol show hostnames").read().split()

    def cluster_spec(self):
        workers = []
        for name, tasks in self._task_configuration.items():
            known = os.popen("scontrol --oneliner show node " + name).read().split()
            address = next(word[9:] for word in known if word.startswith("NodeAddr="))
            workers += ["%s:%d" % (address, port + task) for task in range(tasks)]
        self.task_type, self.task_id = "worker", self._rank
        return tf.train.ClusterSpec({"worker": workers})


if in_job:
    port = 20000 + int(os.environ["SLURM_JOB_ID"]) % 10000
    count = len(gpus)
    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    resolver = Resolver(
        port_base=port,
        gpus_per_node=count * tasks,
        gpus_per_task=count,
        auto_set_gpu=False,  # Slurm has given each task its own
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    worker, workers = resolver.get_task_info()[1], tasks
else:
    strategy, worker, workers = tf.distribute.get_strategy(), 0, 1
    print("not in a job of Slurm's: one worker")

# %%
random = np.random.RandomState(0)
labels = random.randint(0, 10, size=4096)
patterns = random.rand(10, 28, 28, 1)
images = (patterns[labels] + random.normal(0, 0.5, (len(labels), 28, 28, 1))).astype("float32")

batch = 64 * strategy.num_replicas_in_sync
data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels), seed=0)
data = data.batch(batch, drop_remainder=True)
options = tf.data.Options()
# Images in memory are divided, and not files.
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = data.with_options(options)

# %%
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((28, 28, 1)),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])

# %% [markdown]
# ## Where it goes on
# A job that Slurm has started anew has the number that it had. All workers read one folder, which
# must be on a disk that all nodes share; it goes when the training has ended.

# %%
backup = os.path.join("checkpoints", "job-" + os.environ.get("SLURM_JOB_ID", "none"))
# Before TensorFlow 2.8 it was experimental.
BackupAndRestore = getattr(tf.keras.callbacks, "BackupAndRestore", None)
if BackupAndRestore is None:
    BackupAndRestore = tf.keras.callbacks.experimental.BackupAndRestore


class Note(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if worker == 0:
            print("epoch %d: accuracy %.3f" % (epoch + 1, logs["accuracy"]), flush=True)


started = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
if worker == 0 and started:
    print("started anew, for the %d. time" % started)
history = model.fit(data, epochs=5, verbose=0, callbacks=[BackupAndRestore(backup), Note()])

# %%
if worker == 0:
    kind = "GPU" if gpus else "CPU"
    # Nothing is left to train where the job ended after its last epoch.
    accuracy = history.history.get("accuracy", [1.0])[-1]
    print("%d workers x %s: accuracy %.3f" % (workers, kind, accuracy))
    if not gpus:
        print("no GPU: the workers computed on their CPUs")
    assert accuracy > 0.9
