"""Hosts in containers or virtual machines, to try a tree on before it meets a real host.

Without them, the first machine on which a lab admin's inventory runs would be one that people
use. Everything on such a host is real but its GPU, which is simulated and marked so
(docs/local-lab.md).
"""

from __future__ import annotations

from provision.locallab.host import LabHost, Shape
from provision.locallab.lab import Lab, LabStatus, down, status, sweep, up
from provision.locallab.sick import sicken
from provision.locallab.vm import Virtual

__all__ = [
    "Lab",
    "LabHost",
    "LabStatus",
    "Shape",
    "Virtual",
    "down",
    "sicken",
    "status",
    "sweep",
    "up",
]
