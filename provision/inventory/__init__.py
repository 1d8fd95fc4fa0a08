"""The user's Ansible inventory -> Fleet: which hosts wish for what, and where they wrote it.

It is read through Ansible itself (`ansible-inventory --list --export`), so that dynamic
inventories, plugins and group_vars mean here what they mean in a run. The export may hold unlocked
secrets: it stays in memory, and no value of it is ever shown but `gpu_stack`, `gpu_platform`,
`gpu_models` and the misuse of our own words.

Our words are checked hard: a misspelt `tensorflow_verison` would otherwise be a setting that is
silently never read, and an unquoted 2.10 the wish for TensorFlow 2.1.
"""

from __future__ import annotations

from provision.inventory.export import read_export
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
    "read_export",
]
