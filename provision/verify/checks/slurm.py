"""Slurm: the node is ready for jobs, with the GPUs that it was given."""

from __future__ import annotations
