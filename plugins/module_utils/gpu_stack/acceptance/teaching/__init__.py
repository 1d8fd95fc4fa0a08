"""Judges measured figures by the catalog, by like cards and by a card's own history.

A host alone can't know whether 14 TFLOP/s is much. The controller can: it has the other hosts'
answers, and those of earlier days. All of it runs there, in Ansible and in `provision`.
"""

from __future__ import annotations
