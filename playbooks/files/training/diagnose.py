"""Says by which way the workers of a job can exchange gradients: RING or NCCL.

`provision train HOSTS --diagnose` starts it on each host. A way has a process of its own, which is
ended when no answer comes: NCCL that can't connect waits for ever (tensorflow#37693). RING, which
needs the workers' own ports alone, is the first; NCCL follows where it gets through and there are
GPUs. For every TensorFlow from 2.4 on, and Python from 3.6 on.
"""

import json
import os
import subprocess
import sys
import time

import provision_train

# Seconds for a way: TensorFlow's start on a busy host, and its first step.
PATIENCE = float(os.environ.get("DIAGNOSE_PATIENCE", "120"))
# Numbers of each of two tensors, and how often they are summed.
SIZE, ROUNDS = 1 << 20, 5
# Exit code of a way that this host can't take.
NO_GPU = 3


def exchange(kind):
    """Sums tensors over all workers, as an optimizer does with gradients."""
    import tensorflow as tf

    if kind == "NCCL" and not tf.config.list_physical_devices("GPU"):
        sys.exit(NO_GPU)
    strategy = provision_train.strategy()
    replicas = strategy.num_replicas_in_sync
    chosen = tf.distribute.experimental.CommunicationImplementation[kind]
    options = tf.distribute.experimental.CommunicationOptions(implementation=chosen)

    def each():
        context = tf.distribute.get_replica_context()
        # Two: TensorFlow takes NCCL for several tensors at once, and not always for one.
        ones = [tf.ones([SIZE]), tf.ones([SIZE])]
        return context.all_reduce(tf.distribute.ReduceOp.SUM, ones, options=options)

    @tf.function
    def together():
        return strategy.run(each)

    found = []
    for _round in range(1 + ROUNDS):
        begun = time.time()
        for value in together():
            for part in strategy.experimental_local_results(value):
                if float(tf.reduce_min(part)) != replicas or float(tf.reduce_max(part)) != replicas:
                    raise SystemExit("%s: the sum over %d replicas is wrong" % (kind, replicas))
        found.append(time.time() - begun)
    fastest = min(found[1:])
    words = "%s: %d replicas agree; the first exchange took %.1f s, one of %d MB later %.1f ms"
    print(words % (kind, replicas, found[0], SIZE * 8 >> 20, fastest * 1000), flush=True)


def tried(kind):
    """Whether a way gets through, or None for one that this host can't take; why it does not."""
    variables = dict(os.environ, PROVISION_TRAINING_COMMUNICATION=kind)
    variables.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    variables.setdefault("NCCL_DEBUG", "WARN")
    process = subprocess.Popen([sys.executable, "-u", __file__, kind], env=variables)
    try:
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False, "no answer within %.0f s" % PATIENCE
    if code == NO_GPU:
        return None, "not tried: this host has no GPU that TensorFlow sees"
    return code == 0, "" if code == 0 else "it ended with %d; its words are above" % code


def main():
    ways = {}
    for kind in ("RING", "NCCL"):
        works, why = tried(kind)
        ways[kind] = {"works": works, "why": why}
        if why:
            print("%s: %s" % (kind, why), flush=True)
        if works is False:
            break
    print("diagnosis: " + words(ways), flush=True)
    if any(way["works"] is False for way in ways.values()):
        sys.exit(1)
    if provision_train.number() == 0:
        path = os.path.join(provision_train.FOLDER, "diagnosis.json")
        with open(path, "w") as stream:
            json.dump(ways, stream)
        provision_train._write("complete.json", {"model": path, "at": time.time()})


def words(ways):
    if ways["RING"]["works"] is False:
        return (
            "the workers do not exchange anything by their own ports: another worker has not come, "
            "or has failed (see its words), or the way between the hosts breaks off; NCCL was not "
            "tried"
        )
    if ways["NCCL"]["works"] is False:
        return (
            "RING gets through and NCCL does not: train with --communication ring, or mend NCCL's "
            "way. It needs all ports between the hosts; NCCL_SOCKET_IFNAME names the network that "
            "it takes, NCCL_IB_DISABLE=1 leaves InfiniBand out, NCCL_DEBUG=INFO says what it "
            "tries; all in gpu_train_environment (tensorflow#37693)"
        )
    if ways["NCCL"]["works"] is None:
        return "RING gets through; there is no NCCL without GPUs"
    return "RING and NCCL get through: a training that hangs does so for another reason"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        exchange(sys.argv[1])
    else:
        main()
