#!/usr/bin/python
"""Checks whether people may be interrupted now: who is logged in, and the maintenance window."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_users
short_description: Check who is logged in, and whether the maintenance window is open
description:
  - Lists the users logged in at a terminal or a screen of the host, by logind and utmp, without the
    run's own session, and compares the host's clock with the maintenance window.
  - Fails if now the driver may not be changed or the host may not be rebooted. Changes nothing, and
    does the same in check mode. Nobody is ever logged out.
extends_documentation_fragment: [provision.gpu.common]
options:
  before:
    description: What is going to be done, as in C(Not going to reboot). People are in the way of
      a C(reboot); of anything else where the driver is loaded.
    type: str
    required: true
  window:
    description: The maintenance window, C(HH:MM-HH:MM) with or without days before it, or a list
      of such. Without one it is always open.
    type: raw
  logged_in_users:
    description: What to do while people are logged in. With C(wait) the module does not fail for
      them, but returns C(disturbed).
    type: str
    choices: [refuse, wait, ignore]
    default: refuse
  wait:
    description: Seconds that people are waited for.
    type: int
    default: 0
  waited:
    description: People have been waited for. Fails for everybody who is still logged in, and where
      the window has closed meanwhile.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Refuse a reboot under people
  provision.gpu.gpu_users:
    before: reboot
    window: Sat 22:00-04:00
"""

RETURN = r"""
users:
  description: Those who are logged in, where, from where, and for how long they have been idle.
  type: list
  elements: str
  returned: where the window can be read
disturbed:
  description: Whether they would notice, and are not to be ignored.
  type: bool
  returned: where the window can be read
open:
  description: Whether the maintenance window is open.
  type: bool
  returned: where the window can be read
clock:
  description: Day and time on the host.
  type: str
  returned: where the window can be read
until:
  description: Day and time on the host when C(wait) is over.
  type: str
  returned: where the window can be read
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    FLAG,
    REQUIRED_TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import interruption

ARGUMENTS = {
    "before": REQUIRED_TEXT,
    "window": {"type": "raw"},
    "logged_in_users": one_of("refuse", "wait", "ignore", default="refuse"),
    "wait": {"type": "int", "default": 0},
    "waited": FLAG,
}


def main() -> None:
    run(ARGUMENTS, interruption.settle)


if __name__ == "__main__":
    main()
