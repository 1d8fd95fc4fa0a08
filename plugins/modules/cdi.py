#!/usr/bin/python
"""Generates or removes the CDI specification, by which podman gives GPUs to containers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cdi
short_description: Generate the CDI specification for this driver and this podman
description:
  - Checks whether the specification names the driver's installed libraries, in a version that the
    host's podman reads, and runs C(nvidia-ctk cdi generate) if it does not. A new one replaces the
    file atomically, and only if it is valid for this host.
  - With toolkit 1.18 or newer the file is C(/var/run/cdi/nvidia.yaml), where NVIDIA's own unit
    writes it; with an older one C(/etc/cdi/nvidia.yaml), and a file there from elsewhere is kept as
    C(nvidia.yaml.provision-saved).
  - Fails if a specification is required and podman reads none, if the driver is missing (not in
    check mode), or if no valid one could be generated; the old file stays then.
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description: Whether the host is to have one.
    type: str
    choices: [present, absent]
    default: present
  version:
    description: The toolkit's version. Needed with C(state=present).
    type: str
  wish:
    description: With C(auto) it is generated only where podman is installed and reads it.
    type: str
    choices: [auto, required]
    default: auto
  packages:
    description: With C(state=absent), names of the packages that are removed. A specification that
      one of their units generated is removed too; of the others only this collection's own.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Let podman find the GPUs
  provision.gpu.cdi:
    version: 1.17.8
"""

RETURN = r"""
path:
  description: Where the specification is.
  type: str
  returned: with C(state=present)
podman:
  description: podman's version; null without one, empty where no package says it.
  type: str
  returned: with C(state=present)
driver:
  description: Whether the loader finds libcuda.
  type: bool
  returned: with C(state=present)
wanted:
  description: Whether there is to be a specification on this host.
  type: bool
  returned: with C(state=present)
plain:
  description: Whether the toolkit has to leave additional groups out, for this podman.
  type: bool
  returned: with C(state=present)
unit:
  description: Whether the toolkit has a unit that makes it at boot.
  type: bool
  returned: with C(state=present)
fault:
  description: What was wrong with the specification; null where nothing was.
  type: str
  returned: with C(state=present)
left:
  description: Path of another specification that is in its way, and is removed.
  type: str
  returned: with C(state=present)
saved:
  description: The name under which somebody else's specification is kept.
  type: str
  returned: with C(state=present)
gone:
  description: Paths that were removed, or would be in check mode.
  type: list
  elements: str
  returned: with C(state=absent)
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    NAMES,
    PRESENT_OR_ABSENT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_container_toolkit import (  # noqa: E501
    cdi_specification,
)

ARGUMENTS = {
    "state": PRESENT_OR_ABSENT,
    "version": {"type": "str"},
    "wish": one_of("auto", "required", default="auto"),
    "packages": NAMES,
}


def main() -> None:
    run(ARGUMENTS, cdi_specification.settle, required_if=[("state", "present", ["version"])])


if __name__ == "__main__":
    main()
