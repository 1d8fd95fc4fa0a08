#!/usr/bin/python
"""Leads a run on this host to a bundle, or away from it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: origin
short_description: Lead a run to a bundle, from which it then takes everything
description:
  - Writes a configuration of apt's with sources, lists and caches of its own, which the environment
    of a play names as C(APT_CONFIG) (the filter P(provision.gpu.apt_configuration#filter)), and
    notes for this collection's modules where each thing lies. The host's own sources are neither
    read nor changed.
  - Fails where the bundle cannot be used, or apt cannot read its indices by the keys that sign
    them. What it writes is the run's own and is never counted as a change; in check mode nothing
    is written.
options:
  state:
    description: C(absent) removes what was written.
    type: str
    choices: [present, absent]
    default: present
  bundle:
    description: The bundle's folder on the host, or the address of a web server that has it.
    type: str
    default: ""
  cache:
    description: The address of the fleet's cache, where there is no bundle.
    type: str
    default: ""
  fallback:
    description: What the host does where the cache does not answer.
    type: str
    choices: [stop, direct]
    default: stop
  lock_digest:
    description: The lock that the bundle has to be of.
    type: str
    default: ""
  stack:
    description: The stack in the lock; the keys of its repositories are what apt believes.
    type: dict
    default: {}
  sources:
    description: C(url), C(suite) and C(components) of each archive that the lock is made from.
    type: list
    elements: dict
    default: []
extends_documentation_fragment: [provision.gpu.common, provision.gpu.dpkg_wait]
"""

EXAMPLES = r"""
- name: Take everything from a stick
  provision.gpu.origin:
    bundle: /media/stick/lab
    lock_digest: "{{ gpu_lock.digest }}"
    stack: "{{ gpu_lock.stacks[gpu_plan.stack] }}"
    sources: "{{ gpu_sources }}"
  register: gpu_origin
"""

RETURN = r"""
addresses:
  description: Where the files are that are neither packages nor wheels, by their SHA-256.
  type: dict
  returned: success
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import WAIT, one_of
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import origin_writer

ARGUMENTS = {
    "state": one_of("present", "absent", default="present"),
    "bundle": {"type": "str", "default": ""},
    "cache": {"type": "str", "default": ""},
    "fallback": one_of("stop", "direct", default="stop"),
    "lock_digest": {"type": "str", "default": ""},
    "stack": {"type": "dict", "default": {}},
    "sources": {"type": "list", "elements": "dict", "default": []},
    "wait": WAIT,
}


def main() -> None:
    run(ARGUMENTS, origin_writer.settle)


if __name__ == "__main__":
    main()
