"""Wish x host -> stack: one consistent choice with a reason for each part, or the smallest clash.

What is known stands in the catalog; here it is turned into candidates and rules of `search`, so
that a stack is right because every rule was asked, and a refusal is short because the smallest set
of wishes and facts that clash is looked for. Preferences, in this order: what the platform's own
sources have and this program can install; the tested combination before a merely compatible one;
TensorFlow 2.9 where none was wished, then the newest; the newest patch; the platform's own source
before NVIDIA's, and fewer bytes before more. A driver of NVIDIA's own is taken only where one was
wished for: whoever changes the method on a machine must have meant it.

Pure: the same catalog, host and wish give the same stack.
"""

from __future__ import annotations

from provision.resolve.fleet import Explained, explain, gpus_of, resolve, resolve_fleet
from provision.resolve.solver import Solver
from provision.resolve.stack import Choice, ContainerToolkit, Stack

__all__ = [
    "Choice",
    "ContainerToolkit",
    "Explained",
    "Solver",
    "Stack",
    "explain",
    "gpus_of",
    "resolve",
    "resolve_fleet",
]
