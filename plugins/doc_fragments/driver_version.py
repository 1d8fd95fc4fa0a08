"""What the modules of the driver say alike."""

from __future__ import annotations


class ModuleDocFragment:
    """The option `version`."""

    DOCUMENTATION = r"""
options:
  version:
    description: The driver's version.
    type: str
    required: true
"""
