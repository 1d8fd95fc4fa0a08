"""A bundle: everything that hosts of a lock fetch, in one folder that needs no network.

The lock names every byte: of what it leaves to apt, by the hashes of the archives' signed indices.
So a bundle follows from the lock alone, and two of one lock are the same bytes. It keeps the
archives' own layout and signatures, that apt may check what it always checks.
"""

from __future__ import annotations

from provision.bundle.check import Checked, check, check_lock
from provision.bundle.delta import apply
from provision.bundle.delta_file import Delta, check_goes_with
from provision.bundle.delta_file import dump as dump_delta
from provision.bundle.delta_file import parse as parse_delta
from provision.bundle.delta_file import read as read_delta
from provision.bundle.manifest import (
    DELTA,
    DELTA_SIGNATURE,
    NAME,
    NAMESPACE,
    SIGNATURE,
    File,
    Manifest,
    digest,
    dump,
    parse,
    read,
)
from provision.bundle.plan import Plan, Wish, make
from provision.bundle.sources import at_hand
from provision.bundle.target import check_target, held
from provision.bundle.write import finish, write

__all__ = [
    "DELTA",
    "DELTA_SIGNATURE",
    "NAME",
    "NAMESPACE",
    "SIGNATURE",
    "Checked",
    "Delta",
    "File",
    "Manifest",
    "Plan",
    "Wish",
    "apply",
    "at_hand",
    "check",
    "check_goes_with",
    "check_lock",
    "check_target",
    "digest",
    "dump",
    "dump_delta",
    "finish",
    "held",
    "make",
    "parse",
    "parse_delta",
    "read",
    "read_delta",
    "write",
]
