"""What all modules of the collection say alike."""

from __future__ import annotations


class ModuleDocFragment:
    """Their authors, and that each has a check mode."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Says what it would do, and changes nothing on the host.
    support: full
author:
  - The provision authors (!UNKNOWN)
"""
