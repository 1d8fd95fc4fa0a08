#!/usr/bin/python
"""The look and the plan as an Ansible module: a thin shim over `gpu_stack`.

The action plugin of the same name stands in front of it and usually does without it (one command
over the open connection instead of a transferred module); this is what runs where it can't.
"""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_state
short_description: Look at a GPU host and plan what to change
description:
  - Inspects everything that a locked GPU stack consists of, in one round trip, and returns the
    difference to the lock as an ordered list of changes.
  - Normally a task needs no option. The action plugin of the same name takes C(lock), C(wish),
    C(only), C(skip) and C(deep) from the variables C(gpu_lock), C(gpu_stack), C(ansible_run_tags),
    C(ansible_skip_tags) and C(gpu_deep), and C(options) from the host's variables of the
    components, with their documented defaults.
  - Changes nothing. In check mode C(changed) is true when there is something to change.
extends_documentation_fragment: [provision.gpu.common]
options:
  lock:
    description: The C(gpu_lock) of the project's C(lock.yml).
    type: dict
    required: true
  wish:
    description: The host's C(gpu_stack).
    type: dict
    default: {}
  options:
    description: The role variables that the look depends on, by their own names.
    type: dict
    default: {}
  only:
    description: Tags of the run; changes of other components are planned but not selected.
    type: list
    elements: str
    default: [all]
  skip:
    description: Tags that the run leaves out.
    type: list
    elements: str
    default: []
  deep:
    description: Read and hash the files of the stack too. Takes minutes.
    type: bool
    default: false
  run:
    description: The id of the run that looks; its own lock is not in its way.
    type: str
  doctor:
    description: Return the doctor's findings and their cures instead of a plan.
    type: bool
    default: false
  logs:
    description: Files on the host that the doctor reads too, such as TensorFlow's output.
    type: list
    elements: str
    default: []
  host:
    description: The host's name in the inventory, for the doctor's commands.
    type: str
"""

EXAMPLES = r"""
- name: Look and plan
  provision.gpu.gpu_state:
    lock: "{{ gpu_lock }}"
    wish: "{{ gpu_stack }}"
    only: "{{ ansible_run_tags }}"
    skip: "{{ ansible_skip_tags }}"
  register: gpu_plan
"""

RETURN = r"""
stack:
  description: The lock's stack for this platform and wish; null without one.
  type: str
  returned: success
platform:
  description: >-
    Distribution, release, architecture, kernel and pretty name; and the userland of a host that
    only says that it is this distribution.
  type: dict
  returned: success
simulated_gpu:
  description: The host's GPU is simulated. A label only.
  type: bool
  returned: success
container:
  description: The host is a container, where no kernel module can be loaded.
  type: bool
  returned: success
gpus:
  description: NVIDIA's GPUs on the PCI bus.
  type: list
  returned: success
state:
  description: The C(version) that was found, by component.
  type: dict
  returned: success
changes:
  description: Component, item, from, to, reason, reboot, selected and repair of each difference.
  type: list
  returned: success
components:
  description: Components with selected changes, in the order of application.
  type: list
  returned: success
not_selected:
  description: Components whose changes the tags leave out.
  type: list
  returned: success
repairs:
  description: Role variables by component that repair what the roles would not see.
  type: dict
  returned: success
steps:
  description: Names of the run's steps that this host needs, as the lookup C(run_steps) has them.
  type: list
  returned: success
blockers:
  description: Id, component, message and hint of everything that forbids a start.
  type: list
  returned: success
notices:
  description: Of the same shape as C(blockers); they stop nothing.
  type: list
  returned: success
reboot:
  description: Whether a selected change needs a reboot, and why.
  type: dict
  returned: success
receipt:
  description: What the last finished run wrote, without its changes; null without one.
  type: dict
  returned: success
findings:
  description: Id, title, evidence, cure, commands, threads and fix of what is wrong.
  type: list
  returned: with C(doctor), which returns of the others C(platform) and C(simulated_gpu) alone
fixes:
  description: What the safe fixes of all findings come to, by step.
  type: dict
  returned: with C(doctor)
fixable:
  description: Whether there is a safe fix, beside what a run would bring.
  type: bool
  returned: with C(doctor)
busy:
  description: Who is at work on the host, in whose way no fix may be; empty where nobody is.
  type: str
  returned: with C(doctor)
locked:
  description: Whether the lock has a row for the host; without one it was judged by itself.
  type: bool
  returned: with C(doctor)
differences:
  description: How many things differ from the lock.
  type: int
  returned: with C(doctor)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.look import answer


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "lock": {"type": "dict", "required": True},
            "wish": {"type": "dict", "default": {}},
            "options": {"type": "dict", "default": {}},
            "only": {"type": "list", "elements": "str", "default": ["all"]},
            "skip": {"type": "list", "elements": "str", "default": []},
            "deep": {"type": "bool", "default": False},
            "run": {"type": "str"},
            "doctor": {"type": "bool", "default": False},
            "logs": {"type": "list", "elements": "str", "default": []},
            "host": {"type": "str"},
        },
        supports_check_mode=True,
    )
    module.exit_json(**answer(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
