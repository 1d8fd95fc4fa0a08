"""The user's Ansible inventory as a Fleet: which hosts wish for what, and where it is written.

It is read through Ansible itself (`ansible-inventory --list --export`), so that dynamic
inventories, plugins and group_vars mean the same as in a run. The export may hold decrypted
secrets: it stays in memory, and no value of it is ever shown but `gpu_stack`, `gpu_platform`,
`gpu_models` and misused variables of ours.

Our variables are checked strictly: a misspelt `tensorflow_verison` would otherwise be silently
ignored, and an unquoted 2.10 would mean TensorFlow 2.1.
"""

from __future__ import annotations

from provision.inventory.export import read_effective, read_export
from provision.inventory.fleet import Fleet, parse
from provision.inventory.literals import is_template
from provision.inventory.sources import Sources
from provision.inventory.spelling import did_you_mean, distance
from provision.inventory.wish import (
    WISH_KEYS,
    WISH_WORDS,
    parse_wish,
)
from provision.inventory.words import MODELS, PLATFORM, WISH, Fault, Judge, OptionRule, Words

__all__ = [
    "MODELS",
    "PLATFORM",
    "WISH",
    "WISH_KEYS",
    "WISH_WORDS",
    "Fault",
    "Fleet",
    "Judge",
    "OptionRule",
    "Sources",
    "Words",
    "did_you_mean",
    "distance",
    "is_template",
    "parse",
    "parse_wish",
    "read_effective",
    "read_export",
]
