"""Rules about what prevents changes of Slurm."""

from __future__ import annotations

RULES = ()
