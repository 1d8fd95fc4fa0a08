"""The checks of an acceptance, by subject. Each judges what the look has read, and reads nothing.

A check of a GPU is a function of that GPU and of the whole look, and returns one finding; a check
of the host a function of the look. Adding one is a function and its row in its module's CHECKS.
"""

from __future__ import annotations
