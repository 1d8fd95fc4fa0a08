"""What the modules that fetch something from an address say alike."""

from __future__ import annotations


class ModuleDocFragment:
    """The option `ca_bundle`."""

    DOCUMENTATION = r"""
options:
  ca_bundle:
    description: CA bundle on the host, for the download.
    type: str
    default: ""
"""
