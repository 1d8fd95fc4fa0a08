#!/usr/bin/python
"""Adds NVIDIA's runtime to docker, containerd or CRI-O, or removes it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_runtime
short_description: Add NVIDIA's runtime to docker, containerd or CRI-O
description:
  - Writes one entry of docker's C(/etc/docker/daemon.json), one table of containerd's
    C(/etc/containerd/config.toml), or a file of its own below C(/etc/crio/crio.conf.d). Everything
    else in these files stays; the old file is kept beside as C(NAME.provision-saved).
  - containerd and CRI-O parse the new configuration first. If they can't read it, or if it would
    change anything else, it is not written.
  - Restarts the daemon if that is needed and stops no container. If the daemon does not start, its
    old configuration is restored and it is started again. A needed restart is recorded below
    C(/run/provision), so that the next call does it if this one was interrupted or refused.
  - In check mode nothing is written or restarted. The task fails where a run would refuse.
extends_documentation_fragment: [provision.gpu.common]
options:
  runtime:
    description: The runtime that is configured.
    type: str
    choices: [docker, containerd, crio]
    required: true
  state:
    description:
      - With C(absent) NVIDIA's runtime is removed, unless a running container or the default
        runtime needs it. docker reloads its file; containerd and CRI-O are restarted.
      - C(restart_due) is for the time before the packages are installed. A running docker finds
        their files only when it starts; the pending restart is noted, and nothing else is done.
    type: str
    choices: [present, absent, restart_due]
    default: present
  wish:
    description:
      - C(auto) configures it where it is installed, containerd only where containers are made by
        CRI. C(required) fails where it is missing.
      - With C(none) it is left alone. With C(state=absent) it is still checked whether something
        needs NVIDIA's runtime.
    type: str
    choices: [auto, required, none]
    default: auto
  engine:
    description:
      - Where docker itself comes from, as the role's option nvidia_container_toolkit_docker_engine.
        One that is yet to be installed may be missing.
    type: str
    choices: [check, distribution, docker-ce]
    default: check
  default:
    description: Whether NVIDIA's runtime is to be containerd's default; docker's it never is.
    type: bool
    default: false
  comes_later:
    description: containerd may be missing, for docker's package installs it.
    type: bool
    default: false
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

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import FLAG, one_of
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.nvidia_container_toolkit import (  # noqa: E501  one name
    runtimes,
)

ARGUMENTS = {
    "runtime": one_of("docker", "containerd", "crio"),
    "state": one_of("present", "absent", "restart_due", default="present"),
    "wish": one_of("auto", "required", "none", default="auto"),
    "engine": one_of("check", "distribution", "docker-ce", default="check"),
    "default": FLAG,
    "comes_later": FLAG,
}


def main() -> None:
    run(ARGUMENTS, runtimes.settle)


if __name__ == "__main__":
    main()
