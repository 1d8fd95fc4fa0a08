"""What the modules say alike that read the compiler's output."""

from __future__ import annotations


class ModuleDocFragment:
    """The option `module` of arguments.DKMS_MODULE."""

    DOCUMENTATION = r"""
options:
  module:
    description: What DKMS calls the platform's own module; to find the compiler's output.
    type: str
    default: nvidia
"""
