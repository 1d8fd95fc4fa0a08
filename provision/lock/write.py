"""The bytes of lock.yml: a line per package, wheel and reason, so that a diff is a list.

Pure.
"""

from __future__ import annotations

from provision import yaml_text
from provision.lock.model import Lock
from provision.models import plain

HEADER = "Made by `provision lock`; commit it. To change it, change gpu_stack in lab/, lock again."
# No line is ever broken: a new word in a sentence would move all the others.
_WIDTH = 1 << 20


def dump(lock: Lock) -> bytes:
    """The bytes of lock.yml: a line per package, wheel and reason, so that a diff is a list."""
    details = plain(lock.details)
    for packages in details["packages"].values():
        for name, package in packages.items():
            packages[name] = yaml_text.Line(package)
    document = {"gpu_lock": plain(lock.slim), "gpu_lock_details": details}
    return yaml_text.dump_lines(document, header=HEADER, width=_WIDTH)
