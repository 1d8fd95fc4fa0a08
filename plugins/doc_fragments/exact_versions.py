"""What the modules that install packages at exact versions say alike."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of arguments.EXACT_VERSIONS."""

    DOCUMENTATION = r"""
options:
  reinstall:
    description: Packages to install anew, where they are installed.
    type: list
    elements: str
    default: []
  conffiles:
    description: Configuration files to replace where something is installed; each is kept as
      C(NAME.dpkg-old).
    type: list
    elements: str
    default: []
  checksums:
    description: SHA-256 of packages by their names; of the others whatever apt's lists say counts.
    type: dict
    default: {}
  hint:
    description: What to do where apt does not have a version.
    type: str
    default: ""
  suites:
    description: The platform's own suites, whose lists have to come. Sources of others may fail.
    type: list
    elements: str
    default: []
  renewed:
    description: apt's sources have changed since its lists were fetched.
    type: bool
    default: false
"""
