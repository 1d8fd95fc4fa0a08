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
import shutil
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
            fields = os.popen("scontrol --oneliner show node " + name).read().split()
            address = next(word[9:] for word in fields if word.startswith("NodeAddr="))
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
    optimizer = tf.keras.optimizers.Adam()
    if hasattr(optimizer, "build"):  # it makes its variables here, and not in the first step
        optimizer.build(model.trainable_variables)
    done = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

# %% [markdown]
# ## A step
# Keras 3, which TensorFlow has since 2.16, has no `fit` across workers (keras-team/keras#20585).
# Each replica computes its share of a batch, and the optimizer adds their gradients up.


# %%
def step(images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        losses = tf.keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        loss = tf.nn.compute_average_loss(losses, global_batch_size=batch)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return tf.reduce_mean(tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32))


@tf.function
def together(images, labels):
    share = strategy.run(step, (images, labels))
    return strategy.reduce("MEAN", share, axis=None)


# %% [markdown]
# ## Where it goes on
# A job that Slurm has started anew has the number that it had. All workers read one folder, which
# must be on a disk that all nodes share; it goes when the training has ended. All take part in
# writing; what the first has written counts.

# %%
folder = os.path.join("checkpoints", "job-" + os.environ.get("SLURM_JOB_ID", "none"))
own = folder if worker == 0 else folder + "-worker-%d" % worker
state = tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
newest = tf.train.latest_checkpoint(folder)
if newest:
    state.restore(newest)
writer = tf.train.CheckpointManager(state, own, max_to_keep=2)

started = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
if worker == 0 and started:
    print("started anew, for the %d. time" % started)
accuracy = 1.0  # where the job ended after its last epoch
shares = strategy.experimental_distribute_dataset(data)
for epoch in range(int(done.numpy()), 5):
    accuracies = [float(together(images, labels)) for images, labels in shares]
    accuracy = sum(accuracies) / len(accuracies)
    done.assign(epoch + 1)
    writer.save()
    if worker == 0:
        print("epoch %d: accuracy %.3f" % (epoch + 1, accuracy), flush=True)
shutil.rmtree(own, ignore_errors=True)

# %%
if worker == 0:
    kind = "GPU" if gpus else "CPU"
    print("%d workers x %s: accuracy %.3f" % (workers, kind, accuracy))
    if not gpus:
        print("no GPU: the workers computed on their CPUs")
    assert accuracy > 0.9
