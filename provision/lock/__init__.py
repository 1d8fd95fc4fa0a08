"""The lock: a stack made exact, and the only thing the tree is rendered from.

The lock is per platform and wish, never per host, and in two documents: `gpu_lock` travels to hosts
and stays small, `gpu_lock_details` (hashes, sources, reasons) stays on the controller.

All is pure but for `update`, which brings the network and the pure parts together, `requirements`,
which asks the index of wheels, and `from_host`, which asks a host.
"""

from __future__ import annotations

from provision.lock.build import make, needs_archive
from provision.lock.model import (
    Lock,
    digest_of,
    hosts_of,
    locked_names,
    names_of,
    row_of,
    stacks_of,
    wheels,
)
from provision.lock.parts import package_names, wanted
from provision.lock.read import check_fits, parse
from provision.lock.write import dump

__all__ = [
    "Lock",
    "check_fits",
    "digest_of",
    "dump",
    "hosts_of",
    "locked_names",
    "make",
    "names_of",
    "needs_archive",
    "package_names",
    "parse",
    "row_of",
    "stacks_of",
    "wanted",
    "wheels",
]
