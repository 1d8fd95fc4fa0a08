#!/usr/bin/python
"""Installs exact packages in one guarded transaction of apt's, or takes them away."""

DOCUMENTATION = r"""
module: exact_packages
short_description: Install packages at exact versions in one guarded transaction, or remove them
description:
  - Compares dpkg's records and the packages' files with O(packages), and installs what is missing
    in one transaction. Packages with missing files, and those that a killed dpkg left half
    unpacked, are installed again.
  - First checks that apt offers every version, with the SHA-256 in O(checksums), and simulates the
    transaction. Fails if apt would remove a package, change one that is held, or install one that
    matches O(unwanted).
  - In check mode only dpkg's records and the files are read; apt may not have the source yet.
extends_documentation_fragment:
  - provision.gpu.common
  - provision.gpu.dpkg_wait
  - provision.gpu.exact_versions
options:
  component:
    description: The component of the packages, by its name in the ledger of runs.
    type: str
    required: true
  title:
    description: The component's name in messages, as V(CUDA 11.2.2).
    type: str
    default: the packages
  state:
    description: V(offered) checks all that V(present) checks and installs nothing. V(absent)
      removes those that this program installed, by its ledger, and is refused where apt would
      change another package with them; what was there before the first run stays.
    type: str
    choices: [present, offered, absent]
    default: present
  packages:
    description: The version of each package, by its name.
    type: dict
    required: true
  fetched:
    description: Packages that a later step only downloads; apt has to offer them as well.
    type: dict
    default: {}
  files:
    description: Paths of files that must exist and not be empty, each with its package.
    type: dict
    default: {}
  source:
    description: The packages' source, for the message that a package is missing there.
    type: str
    default: apt's
  unwanted:
    description: Regular expression of packages that must not be installed along with these.
    type: str
    default: ""
  unwanted_words:
    description: The message where such a package would be installed.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Install CUDA
  provision.gpu.exact_packages:
    component: cuda
    title: CUDA 11.2.2
    packages:
      libcudart11.0: 11.2.152~11.2.2-3+deb11u3
    files:
      /usr/lib/x86_64-linux-gnu/libcudart.so.11.0: libcudart11.0
"""

RETURN = r"""
missing:
  description: What is missing, or was, as C(name=version).
  type: list
  elements: str
  returned: unless absent
again:
  description: What has to be installed anew, or was, as C(name=version).
  type: list
  elements: str
  returned: unless absent
fetched:
  description: All that apt has to fetch, O(fetched) included, as C(name=version).
  type: list
  elements: str
  returned: unless absent
kept:
  description: Names under which configuration files were kept.
  type: list
  elements: str
  returned: where something was installed
removed:
  description: Packages that were removed, or would be.
  type: list
  elements: str
  returned: with state absent
removable:
  description: Packages that are this program's, installed or not.
  type: list
  elements: str
  returned: with state absent
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    EXACT_VERSIONS,
    MAPPING,
    REQUIRED_TEXT,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import (
    package_install,
    package_removal,
)

ARGUMENTS = {
    "component": REQUIRED_TEXT,
    "title": {"type": "str", "default": "the packages"},
    "state": one_of("present", "offered", "absent", default="present"),
    "packages": {"type": "dict", "required": True},
    "fetched": MAPPING,
    "files": MAPPING,
    "source": {"type": "str", "default": "apt's"},
    "unwanted": TEXT,
    "unwanted_words": TEXT,
    **EXACT_VERSIONS,
}
PACKAGES = {"present": package_install, "offered": package_install, "absent": package_removal}


def main() -> None:
    run(ARGUMENTS, lambda params, check_mode: PACKAGES[params["state"]].settle(params, check_mode))


if __name__ == "__main__":
    main()
