"""What all modules of the collection say alike."""

from __future__ import annotations


class ModuleDocFragment:
    """Their authors, and that each has a check mode."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Changes nothing on the host, and says what it would do, in C(msg) where C(changed)
      does not tell.
    support: full
author:
  - The provision authors (!UNKNOWN)
"""
