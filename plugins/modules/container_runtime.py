#!/usr/bin/python
"""Makes docker, containerd or CRI-O know NVIDIA's runtime, or forget it."""

DOCUMENTATION = r"""
module: container_runtime
short_description: Make docker, containerd or CRI-O know NVIDIA's runtime
description:
  - Writes one entry of docker's C(/etc/docker/daemon.json), one table of containerd's
    C(/etc/containerd/config.toml), or a file of its own below C(/etc/crio/crio.conf.d). All else
    in these files stays; what was there is kept beside them as C(NAME.provision-saved).
  - containerd and CRI-O are asked before what they make of the new configuration. One that they
    can't read, or by which anything else would change, is not written.
  - Restarts the daemon where that is due and ends no container. One that does not start gets its
    configuration back and is started again. A restart that is due is noted below
    C(/run/provision), and done by the next call where this one was cut off or refused it.
  - In check mode nothing is written or restarted, and everything that would forbid it fails.
options:
  runtime:
    description: Who is to know it.
    type: str
    choices: [docker, containerd, crio]
    required: true
  state:
    description:
      - With C(absent) the runtime is taken out again, unless a container at work or the default
        runtime needs it. docker reads its file anew; containerd and CRI-O are restarted.
      - C(restart_due) is for the time before the packages come. A docker that runs looks for what
        they bring only when it starts; that is noted, and nothing else is done.
    type: str
    choices: [present, absent, restart_due]
    default: present
  wish:
    description:
      - C(auto) serves one that is there, containerd only where somebody makes containers by CRI.
        C(required) fails where it is not there.
      - With C(none) it is left alone. With C(state=absent) it is still asked who needs the runtime.
    type: str
    choices: [auto, required, none]
    default: auto
  engine:
    description:
      - Where docker itself comes from, as the role's option nvidia_container_toolkit_docker_engine.
        One that is still to be installed is not missed.
    type: str
    choices: [check, distribution, docker-ce]
    default: check
  comes_later:
    description: A containerd that is not there is not missed, for docker's package brings it.
    type: bool
    default: false
author:
  - The provision authors
"""

EXAMPLES = r"""
- name: Make the runtime known to docker
  provision.gpu.container_runtime:
    runtime: docker

- name: Stop where containerd could not be configured, before anything is touched
  provision.gpu.container_runtime:
    runtime: containerd
    wish: required
  check_mode: true
  changed_when: false
"""

RETURN = r"""
installed:
  description: Whether the runtime is on the host.
  type: bool
  returned: with C(state=present), unless C(wish=none)
saved:
  description: Where a copy of the file is now; null where nothing was there or nothing was changed.
  type: str
  returned: where the file was looked at to be changed
restarted:
  description: Whether the daemon was restarted.
  type: bool
  returned: where the file was looked at to be changed
said:
  description: What systemctl said of a daemon that did not start.
  type: str
  returned: in that case
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402  documentation comes first
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_container_toolkit import (  # noqa: E402, E501  one name
    runtimes,
)


def main():
    module = AnsibleModule(
        argument_spec={
            "runtime": {
                "type": "str",
                "choices": ["docker", "containerd", "crio"],
                "required": True,
            },
            "state": {
                "type": "str",
                "choices": ["present", "absent", "restart_due"],
                "default": "present",
            },
            "wish": {"type": "str", "choices": ["auto", "required", "none"], "default": "auto"},
            "engine": {
                "type": "str",
                "choices": ["check", "distribution", "docker-ce"],
                "default": "check",
            },
            "comes_later": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    failed, answer = runtimes.answer(module.params, module.check_mode)
    if failed:
        module.fail_json(**answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
