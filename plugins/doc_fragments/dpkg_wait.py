"""What the modules that call dpkg say alike of another one."""

from __future__ import annotations


class ModuleDocFragment:
    """The option `wait` of arguments.WAIT."""

    DOCUMENTATION = r"""
options:
  wait:
    description: Seconds for which another apt or dpkg may be at work.
    type: int
    default: 600
"""
