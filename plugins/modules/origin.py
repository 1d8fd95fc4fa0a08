#!/usr/bin/python
"""Leads a run on this host to a bundle, or away from it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: origin
short_description: Make a run install everything from a bundle or a cache
description:
  - Writes a configuration of apt with its own sources, lists and caches, which a play sets as
    C(APT_CONFIG) in its environment (the filter P(provision.gpu.apt_configuration#filter)), and a
    file that tells this collection's modules where each download is. The host's own sources are
    neither read nor changed.
  - Fails if the bundle can't be used, or if apt can't verify its indices by the keys that sign
    them. Files of the run itself don't count as a change; in check mode nothing is written.
options:
  state:
    description: C(absent) removes what was written.
    type: str
    choices: [present, absent]
    default: present
  bundle:
    description: The bundle's folder on the host, or the URL of a web server that has it.
    type: str
    default: ""
  cache:
    description: The URL of the fleet's cache, without a bundle.
    type: str
    default: ""
  fallback:
    description: What to do if the cache does not answer.
    type: str
    choices: [stop, direct]
    default: stop
  lock_digest:
    description: Digest of the lock that the bundle must belong to.
    type: str
    default: ""
  stack:
    description: The stack in the lock; apt trusts only the keys of its repositories.
    type: dict
    default: {}
  sources:
    description: C(url), C(suite) and C(components) of each archive that the lock was made from.
    type: list
    elements: dict
    default: []
extends_documentation_fragment: [provision.gpu.common, provision.gpu.dpkg_wait]
"""

EXAMPLES = r"""
- name: Install everything from a USB stick
  provision.gpu.origin:
    bundle: /media/stick/lab
    lock_digest: "{{ gpu_lock.digest }}"
    stack: "{{ gpu_lock.stacks[gpu_plan.stack] }}"
    sources: "{{ gpu_sources }}"
  register: gpu_origin
"""

RETURN = r"""
addresses:
  description: Paths or URLs of the files that are neither packages nor wheels, by SHA-256.
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
