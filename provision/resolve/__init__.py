"""Wish x host -> stack: one consistent choice with a reason for each part, or the smallest clash.

The catalog becomes candidates and rules of `search`: a stack is right because it passes every rule,
and a refusal is short because it names the smallest set of wishes and facts that clash.
Preferences, in this order: what the platform's own sources have and this program can install; the
tested combination before a merely compatible one; TensorFlow 2.9 without a wish, then the newest;
the newest patch; the platform's own source before NVIDIA's, and fewer bytes before more. NVIDIA's
own driver is chosen only where it is wished for: nobody's driver changes its source unasked.

Pure: the same catalog, host and wish give the same stack.
"""

from __future__ import annotations

from provision.resolve.fleet import Explained, explain, gpus_of, resolve, resolve_fleet
from provision.resolve.solver import Solver
from provision.resolve.stack import Choice, Stack

__all__ = [
    "Choice",
    "Explained",
    "Solver",
    "Stack",
    "explain",
    "gpus_of",
    "resolve",
    "resolve_fleet",
]
