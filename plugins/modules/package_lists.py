#!/usr/bin/python
"""Fetches apt's package lists, and traces each failure to the source file that caused it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_lists
short_description: Fetch apt's package lists, and name the source file that fails
description:
  - Runs C(apt-get update) so that every error counts, and finds the file and line of apt's sources
    that caused it.
  - A source that apt can't use does not fail the task. If only other sources than the platform's
    own archive failed, the lists are C(usable).
  - Fails if another apt is running for longer than C(wait).
  - Unlike M(ansible.builtin.apt) it does not need python3-apt, which cannot be installed while a
    package is broken. The lists are a cache and are never counted as a change; in check mode
    nothing is fetched.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.dpkg_wait]
options:
  suites:
    description: The platform's own suites, one of which has to answer.
    type: list
    elements: str
    default: []
  unless:
    description: Packages as C(name=version). Where apt knows all of them, nothing is fetched.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Fetch the package lists
  provision.gpu.package_lists:
    suites: [bookworm, bookworm-updates, bookworm-security]
    wait: 600
  register: lists

- name: Stop where the package archive cannot be reached
  ansible.builtin.fail:
    msg: apt cannot fetch its package lists. {{ lists.words }}
  when: not lists.usable
"""

RETURN = r"""
errors:
  description: apt's errors and warnings without passwords, where a list could not be fetched.
  type: list
  elements: str
  returned: always
places:
  description: The entries of apt's sources that caused them, as C(file:line).
  type: list
  elements: str
  returned: always
bearable:
  description: Whether only sources failed that are not needed here.
  type: bool
  returned: always
usable:
  description: Whether the lists were fetched, or only such sources failed.
  type: bool
  returned: always
locked:
  description: Whether another apt was at work to the end.
  type: bool
  returned: always
words:
  description: Places and errors in one line for a person; empty without errors.
  type: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import NAMES, WAIT
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import package_lists

ARGUMENTS = {"suites": NAMES, "unless": NAMES, "wait": WAIT}


def main() -> None:
    run(ARGUMENTS, package_lists.settle)


if __name__ == "__main__":
    main()
