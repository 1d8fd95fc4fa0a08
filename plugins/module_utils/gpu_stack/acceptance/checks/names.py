"""What the programs of acceptance/programs are called in a finding."""

from __future__ import annotations

NAMES = {
    "listed": "listing TensorFlow's devices",
    "by_uuid": "listing TensorFlow's devices",
    "by_index": "listing TensorFlow's devices",
    "product": "a product of matrices",
    "pattern": "filling the memory",
    "growth": "growing in memory",
    "xla": "XLA",
    "convolution": "a convolution",
    "pipeline": "an input pipeline",
    "burn": "the burn-in",
    "copies": "copying",
    "dense": "training a dense network",
    "mirrored": "training on all cards",
    "resnet": "training ResNet-50",
    "checkpoints": "a training that is killed",
    "export": "exporting a model",
}
