#!/usr/bin/python
"""Installs the driver's exact packages in one guarded transaction; another driver's go with it."""

DOCUMENTATION = r"""
module: driver_packages
short_description: Install the driver's packages at exact versions, and remove another driver's
description:
  - Compares dpkg's records with O(packages) and installs what is missing in one transaction, with
    what the kernel module needs. Packages in O(other_branch) are removed in the same transaction.
  - First checks that apt offers every version, with the SHA-256 in O(checksums), and simulates the
    transaction. Fails if apt would remove a package that is not part of a driver, or change one
    that is held; parts of a driver are removed only with O(may_switch).
  - In check mode none of this is checked and no list is fetched; apt may not have the source yet.
extends_documentation_fragment:
  - provision.gpu.common
  - provision.gpu.dkms_module
  - provision.gpu.dpkg_wait
  - provision.gpu.exact_versions
options:
  state:
    description: V(offered) checks all that V(present) checks and installs nothing. V(others_absent)
      removes O(others), and is refused where another package would go with them.
    type: str
    choices: [offered, present, others_absent]
    default: offered
  version:
    description: The driver's version.
    type: str
    default: ""
  packages:
    description: The version of each package, by its name.
    type: dict
    default: {}
  parts:
    description: All packages that the lock has for the driver. Holds of these are this program's
      own.
    type: list
    elements: str
    default: []
  dkms:
    description: DKMS builds the kernel module, and needs itself and the headers in O(headers).
    type: bool
    default: false
  signed:
    description: Packages of kernel modules that the distribution built.
    type: list
    elements: str
    default: []
  headers:
    description: Packages of kernel headers. Where O(headers.images) is empty, O(headers.flavour) is
      installed, and where apt does not have that, O(headers.platform).
    type: dict
    default: {}
    suboptions:
      kernels:
        description: Headers of the kernels to build for.
        type: list
        elements: str
        default: []
      images:
        description: Metapackages of headers for the installed metapackages of kernel images.
        type: list
        elements: str
        default: []
      flavour:
        description: Metapackage of headers for the running kernel's flavour.
        type: str
        default: ""
      platform:
        description: Metapackage of headers for the platform's kernel.
        type: str
        default: ""
  others:
    description: Packages of a driver from another source.
    type: list
    elements: str
    default: []
  other_branch:
    description: Packages of another branch from the same source.
    type: list
    elements: str
    default: []
  may_switch:
    description: Allow the removal of other driver packages that cannot stay.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Install the driver
  provision.gpu.driver_packages:
    version: 470.256.02
    packages:
      libcuda1: 470.256.02-3
      nvidia-smi: 470.256.02-3
    parts: [libcuda1, nvidia-smi, nvidia-kernel-dkms]
    state: present
"""

RETURN = r"""
needed:
  description: Whether something is to be installed, installed anew or removed, or was.
  type: bool
  returned: unless others_absent
missing:
  description: As of M(provision.gpu.exact_packages).
  type: list
  elements: str
  returned: unless others_absent
again:
  description: As of M(provision.gpu.exact_packages).
  type: list
  elements: str
  returned: unless others_absent
headers:
  description: The packages of headers that apt has and DKMS needs.
  type: list
  elements: str
  returned: with state offered and dkms
removed:
  description: Packages that were removed, or would be.
  type: list
  elements: str
  returned: with state others_absent
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    DKMS_MODULE,
    EXACT_VERSIONS,
    FLAG,
    MAPPING,
    NAMES,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_driver import (  # noqa: E501
    driver_install,
)

ARGUMENTS = {
    "state": one_of("offered", "present", "others_absent", default="offered"),
    "version": TEXT,
    "packages": MAPPING,
    "parts": NAMES,
    "dkms": FLAG,
    "signed": NAMES,
    "headers": {
        "type": "dict",
        "default": {},
        "options": {
            "kernels": NAMES,
            "images": NAMES,
            "flavour": TEXT,
            "platform": TEXT,
        },
    },
    "module": DKMS_MODULE,
    "others": NAMES,
    "other_branch": NAMES,
    "may_switch": FLAG,
    **EXACT_VERSIONS,
}


def main() -> None:
    run(ARGUMENTS, driver_install.settle)


if __name__ == "__main__":
    main()
