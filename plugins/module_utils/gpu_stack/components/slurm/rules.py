"""Rules about what prevents changes of Slurm, and what Slurm has to say of other changes."""

from __future__ import annotations

from ...rules import rules_of
from . import jobs_first

RULES = rules_of(
    "nvidia_driver",
    stops={"slurm-silent": jobs_first.silent},
    warns={"slurm-jobs": jobs_first.told},
)
